"""A reader of data files of any known format, which yields rows in blocks, in bounded memory.

The format is that of the option, else that of the file's name, else the one that its first bytes show.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import PurePath
from typing import BinaryIO, Self

from deltaplane_services.definition_file.file_formats import FORMAT_OF_SUFFIX, FORMATS
from deltaplane_services.readers import arrow_format, parquet_format
from deltaplane_services.readers.arff_format import open_arff
from deltaplane_services.readers.arrow_format import open_arrow
from deltaplane_services.readers.bounds import SNIFF_BYTES
from deltaplane_services.readers.byte_sources import PACKED_SUFFIXES, ByteSource, open_source
from deltaplane_services.readers.csv_head import may_be_csv, open_csv
from deltaplane_services.readers.jsonl_format import open_jsonl
from deltaplane_services.readers.libsvm_format import open_libsvm
from deltaplane_services.readers.live import LivePipe
from deltaplane_services.readers.parquet_format import open_parquet
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock

__all__ = ["RowReader", "format_of_name", "open_rows"]

_Opened = tuple[tuple[str, ...], Iterator[RowBlock]]
_OPENERS: dict[str, Callable[[ByteSource, ReaderOptions], _Opened]] = {
    "csv": open_csv,
    "parquet": open_parquet,
    "arrow": open_arrow,
    "libsvm": open_libsvm,
    "arff": open_arff,
    "keel": open_arff,
    "jsonl": open_jsonl,
}
_MAGIC = {"parquet": parquet_format.MAGIC, "arrow": arrow_format.MAGIC}
"""How files that are no text begin."""
_ARFF = re.compile(rb"\s*(?:%|@(?:relation|attribute)\s)", re.IGNORECASE)
_JSON = re.compile(rb"\s*(?:\[\s*)?\{")
_VOWPAL_WABBIT = re.compile(rb"[^|\n,;\t]*\|[^|\s]*(?:[ ]+[^|\s:]+:[0-9.eE+-]+)+[ ]*\r?\n")
_LIBSVM = re.compile(rb"(?:\s|#[^\n]*\n)*[^\s:,;]+(?:[ \t]+(?:qid|[0-9]+):[^\s:,;]+)+[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")

assert set(_OPENERS) == set(FORMATS), "every format has a reader"


class RowReader(Iterator[RowBlock]):
    """The row blocks of one file, once, in file order; it closes the file at the end, and is a context manager.

    ``feature_names`` and ``format`` are known from the start. ``bytes_read`` of ``bytes_total`` (None for a pipe) is
    how far the file itself, packed or not, has been read.
    """

    def __init__(
        self, source: ByteSource, format_name: str, feature_names: tuple[str, ...], blocks: Iterator[RowBlock]
    ) -> None:
        self.feature_names = feature_names
        self.format = format_name
        self.bytes_total = source.bytes_total
        self._source = source
        self._blocks = blocks

    @property
    def notes(self) -> tuple[str, ...]:
        """What was recognised or assumed about the file, in words for its user."""
        return tuple(self._source.notes)

    @property
    def bytes_read(self) -> int:
        """The bytes of the file itself, packed or not, that have been read so far."""
        return self._source.bytes_read

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RowBlock:
        """The next block. Raises ReaderError if the file is damaged."""
        try:
            return next(self._blocks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; there are no blocks afterwards."""
        self._blocks = iter(())
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_rows(source: str | os.PathLike[str] | BinaryIO | LivePipe, options: ReaderOptions) -> RowReader:
    """A reader of a path, standard input (``-``), a stream or a live pipe, of which the first block has been read.

    Raises ReaderError if the file cannot be read, is not of its format, or lacks columns that were named.
    """
    opened = open_source(source)
    try:
        if options.format not in _MAGIC and not opened.peek(8).startswith((*_MAGIC.values(),)):
            opened.decode(options.encoding)
        format_name = options.format or _format_of(opened)
        feature_names, blocks = _OPENERS[format_name](opened, options)
        first = next(blocks, None)
        assert first is not None, "a format raises where a file has no rows"
    except BaseException:
        opened.close()
        raise
    return RowReader(opened, format_name, feature_names, chain((first,), blocks))


def format_of_name(name: str) -> str | None:
    """The format that the name of a file shows, packed or not; None if it shows none."""
    path = PurePath(name)
    inner = path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path
    return FORMAT_OF_SUFFIX.get(inner.suffix.lower())


def _format_of(source: ByteSource) -> str:
    return format_of_name(source.inner_name) or _sniffed(source)


def _sniffed(source: ByteSource) -> str:
    """The format that the first bytes show. Raises ReaderError if they show none."""
    beginning = source.peek(SNIFF_BYTES).removeprefix(codecs.BOM_UTF8)
    for format_name, magic in _MAGIC.items():
        if beginning.startswith(magic):
            return format_name
    if _ARFF.match(beginning):
        return "arff"
    if _LIBSVM.match(beginning):
        return "libsvm"
    if _JSON.match(beginning):
        return "jsonl"
    first_line = beginning.lstrip().partition(b"\n")[0]
    if _VOWPAL_WABBIT.match(beginning):
        raise ReaderError(
            f"{source.name} is a file of VowpalWabbit, which is not read here; write its rows as LIBSVM or JSON Lines."
        )
    if may_be_csv(beginning):
        return "csv"
    if not first_line:
        source.read(1)  # If there is nothing because of an error, this raises it.
        raise ReaderError(f"{source.name} is empty; a data file in one of {', '.join(FORMATS)} was expected.")
    raise ReaderError(
        f"The format of {source.name} cannot be told: neither its name nor its first line, {first_line[:60]!r}, shows "
        f"one of {', '.join(FORMATS)}. Name it with `--format`."
    )
