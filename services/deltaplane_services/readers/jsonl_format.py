"""JSON Lines: an object in each line, whose keys are the columns.

The columns are the keys of the first lines. Numbers and texts are read like the cells of a CSV file. True and false are
1 and 0, or ``true`` and ``false`` in a label. Null, an empty text and an absent key are a missing value. A row with a
key that the first lines did not have is refused, unless the features were named or the key is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltaplane_services.readers.bounds import SNIFF_BYTES
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.layout import choose_columns
from deltaplane_services.readers.lines import LineCutter
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.table import Record, TableReader

__all__ = ["JsonLinesDialect", "open_jsonl", "read_object"]

_NESTED = (list, dict)


class _Number(str):
    """The text of a number that stands in a line without quotes: its decimal sign is a point in every file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonLinesDialect:
    """Rows that are objects with these ``keys``.

    ``texts`` are the keys whose truths stay texts, such as that of the label. ``unread`` are keys that nobody reads.
    A row with any other key is refused, unless ``may_be_others``. ``decimal`` is the decimal sign of texts of
    the ``features``.
    """

    keys: tuple[str, ...]
    texts: frozenset[str]
    unread: frozenset[str]
    may_be_others: bool
    features: frozenset[str] = frozenset()
    decimal: str = "."
    delimiter: str = ","
    quote: str = '"'

    def is_plain(self, data: bytes) -> bool:  # noqa: ARG002 - no line of JSON is one of cells
        """False, since no line of JSON is one of cells."""
        return False

    def tidied(self, data: bytes) -> bytes:
        """The lines as they are."""
        return data

    def record(self, data: bytes, at: int, *, final: bool) -> Record:  # noqa: ARG002 - no object goes on behind its line
        """The record of the object in the line at ``at``, with its cells in the order of the keys."""
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].strip()
        if not line:
            return Record(end, [])
        try:
            return Record(end, self._cells(read_object(line)))
        except ValueError as fault:
            return Record(end, [], str(fault))

    def _cells(self, row: dict[str, Any]) -> list[str]:
        if not self.may_be_others:
            for key in row:
                if key not in self.keys and key not in self.unread:
                    raise ValueError(f"the key `{clip(key, 40)}` is none of the first rows")
        return [self._cell(key, row.get(key)) for key in self.keys]

    def _cell(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower() if key in self.texts else str(int(value))
        if isinstance(value, _NESTED):
            kind = "a list" if isinstance(value, list) else "an object"
            if key not in self.unread:
                raise ValueError(f"the key `{clip(key, 40)}` holds {kind}, and flat objects are read")
            return ""
        if type(value) is _Number and self.decimal != "." and key in self.features:
            # A column of numbers is read in one form, so numbers of JSON are written in that of the texts.
            return value.replace(".", self.decimal)
        return "" if value is None else str(value)


def read_object(line: bytes) -> dict[str, Any]:
    """Key to value of the object in a line, with numbers as texts. Raises ValueError with the reason to refuse it."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the row is not UTF-8 text") from None
    try:
        row = json.loads(
            text, parse_float=_Number, parse_int=str, parse_constant=str, object_pairs_hook=_with_keys_that_come_once
        )
    except json.JSONDecodeError as fault:
        raise ValueError(f"the line is not JSON: {fault.msg} at character {fault.colno}") from None
    except RecursionError:
        raise ValueError("the line is not JSON that can be read: it is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"the line is {clip(text, 40)!r}, where an object in braces was expected")  # noqa: TRY004
    if "\\u" in text:
        try:
            "".join((*row, *(value for value in row.values() if isinstance(value, str)))).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("the row holds half a character (a lone surrogate)") from None
    return row


def _with_keys_that_come_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key `{clip(twice, 40)}` is there twice")
    return row


def open_jsonl(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if keys and options do not go together."""
    keys = _keys(source)
    layout = choose_columns(keys, options, source.name)
    texts = {keys[position] for position in (layout.label, layout.id, layout.time) if position is not None}
    features = frozenset(keys[position] for position in layout.features)
    used = texts.union(features)
    unread = frozenset(options.ignored).union(key for key in keys if key not in used)
    if options.encoder is not None or options.decide is not None or options.look is not None:
        # Rules have a meaning of their own for true and false.
        texts |= used
    dialect = JsonLinesDialect(
        tuple(keys), frozenset(texts), unread, options.features is not None, features, layout.form.decimal
    )
    reader = TableReader(LineCutter(source), layout, dialect, options, source)
    return reader.feature_names, reader.blocks()


def _keys(source: ByteSource) -> list[str]:
    """The keys of the first lines, in the order in which they come. Raises ReaderError if no line is an object."""
    beginning = source.peek(SNIFF_BYTES)
    lines = beginning.split(b"\n")
    if len(beginning) == SNIFF_BYTES and len(lines) > 1:
        lines.pop()
    keys: dict[str, None] = {}
    fault = ""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                keys.update(dict.fromkeys(read_object(line.strip())))
            except ValueError as error:
                fault = fault or f"in line {number}, {error}"
    if keys:
        return list(keys)
    if not fault:
        raise ReaderError(f"{source.name} is empty; an object a line was expected.")
    way_out = (
        " An array of objects becomes such lines by `jq -c '.[]'`."
        if beginning.lstrip()[:1] == b"["
        else " If it is another kind of file, name it with `--format`."
    )
    raise ReaderError(f"No line at the beginning of {source.name} is a JSON object: {fault}.{way_out}")
