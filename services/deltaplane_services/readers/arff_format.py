"""ARFF (Weka, KEEL): a header that declares each attribute, then rows.

A nominal attribute that is used as a feature is coded by the place of its value in the declaration: 0, 1, 2, ...
Without ``--label`` the label is KEEL's ``@outputs``, else the last attribute, as in Weka. In a sparse row what is left
out is 0, of a nominal attribute the first declared value. Lines that start with ``%`` are comments; ``?`` is a missing
value, also of the label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltaplane_services.readers.arff_header import Attribute, read_header, split_values, words_of_sparse_row
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import MISSING, clip
from deltaplane_services.readers.csv_format import NOT_UTF8, ends_lines_with_newlines, is_utf8, quotes_enclose_cells
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring, listed
from deltaplane_services.readers.lines import LineCutter
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.table import Record, TableReader

_COMMENT_OR_SPARSE = re.compile(rb"(?:\A|\n)[ \t]*[%{]")


@dataclass(frozen=True, slots=True)
class ArffDialect:
    """Rows of an ARFF file, all of them lines; ``left_out`` holds the value of each attribute a sparse row leaves
    out.
    """

    left_out: tuple[str, ...]
    delimiter: str = ","
    quote: str = "'"

    def is_plain(self, data: bytes) -> bool:
        """Whether there is nothing but values between commas, quoted as in CSV or not at all."""
        if b'"' in data or b"\\" in data:
            return False
        if (b"%" in data or b"{" in data) and _COMMENT_OR_SPARSE.search(data):
            return False
        return ends_lines_with_newlines(data) and is_utf8(data) and quotes_enclose_cells(data, ",", "'")

    def tidied(self, data: bytes) -> bytes:
        """The lines as they are."""
        return data

    def record(self, data: bytes, at: int, *, final: bool) -> Record:  # noqa: ARG002 - no row goes on behind its line
        """The row in the line at ``at``."""
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].strip()
        if not line or line.startswith(b"%"):
            return Record(end, [])
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return Record(end, [], NOT_UTF8)
        if not text.startswith("{"):
            return Record(end, split_values(text))
        try:
            return Record(end, self._sparse_cells(text))
        except ValueError as fault:
            return Record(end, [], str(fault))

    def _sparse_cells(self, text: str) -> list[str]:
        cells = list(self.left_out)
        given = set()
        for word, value in words_of_sparse_row(text):
            if not word.isascii() or not word.isdigit() or len(word) > 18 or int(word) >= len(cells):
                raise ValueError(f"{clip(word, 40)!r} is not the number of an attribute, 0 to {len(cells) - 1}")
            position = int(word)
            if position in given:
                raise ValueError(f"the attribute {position} is there twice")
            given.add(position)
            cells[position] = value
        return cells


def open_arff(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """Names of the features, and the row blocks; raises ReaderError where header and options do not go together."""
    cutter = LineCutter(source)
    attributes = read_header(cutter, source.name)
    names = [attribute.name for attribute in attributes]
    if options.label is None:
        outputs = [attribute.name for attribute in attributes if attribute.role == "output"]
        if len(outputs) > 1:
            raise ReaderError(f"{source.name} has {len(outputs)} outputs, {listed(outputs)}; name one with `--label`.")
        options = replace(options, label=outputs[0] if outputs else names[-1])
    inputs = [attribute.name for attribute in attributes if attribute.role == "input"]
    if inputs and options.features is None and not options.renamed:
        others = {options.label, options.id, options.time, *options.ignored}
        options = replace(options, features=tuple(name for name in inputs if name not in others))
    layout = choose_columns(names, options, source.name)
    _refuse_features_without_numbers(attributes, layout, source.name)
    values_of_label = attributes[layout.label].values
    layout = replace(
        layout,
        codes={
            position: _codes(attributes[position].values or ())
            for position in layout.features
            if attributes[position].values is not None
        },
        declared_labels=None if values_of_label is None else frozenset(value.strip() for value in values_of_label),
        labels=layout.labels.declaring([value.strip() for value in values_of_label or ()]),
    )
    dialect = ArffDialect(tuple(attribute.left_out for attribute in attributes))
    return layout.feature_names, TableReader(cutter, layout, dialect, options, source.name).blocks()


def _codes(values: Sequence[str]) -> dict[str, float]:
    """The number of each declared value, and NaN for what stands for a missing one and is not declared."""
    codes = dict.fromkeys(MISSING, math.nan)
    codes.update({value.strip(): float(place) for place, value in enumerate(values)})
    return codes


def _refuse_features_without_numbers(attributes: Sequence[Attribute], layout: Layout, where: str) -> None:
    bad = [attributes[position] for position in layout.features if not attributes[position].is_a_feature]
    if bad:
        raise ReaderError(
            f"The attribute `{bad[0].name}` of {where} is of type {bad[0].kind}, and a feature must be numeric or "
            f"nominal. Leave it out with `{ignoring([attribute.name for attribute in bad])}`."
        )
