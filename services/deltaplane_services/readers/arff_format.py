"""ARFF (Weka, KEEL): a header that declares each attribute, then rows.

A nominal attribute that is used as a feature becomes one feature for each of its values (:mod:`.arff_indicators`).
Without ``--label`` the label is KEEL's ``@outputs``, else the last attribute, as in Weka. A value that a sparse row
leaves out is 0, or the first declared value of a nominal attribute. Lines that start with ``%`` are comments, and so is
what follows a blank and ``%`` outside of quotes. ``?`` is a missing value, also of the label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltaplane_services.readers.arff_header import Attribute, read_header, split_values, words_of_sparse_row
from deltaplane_services.readers.arff_indicators import Indicators
from deltaplane_services.readers.bounds import MOST_NUMERIC_CLASSES
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import MISSING, clip, read_number
from deltaplane_services.readers.csv_format import NOT_UTF8, ends_lines_with_newlines, is_utf8, quotes_enclose_cells
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring, listed, renamed
from deltaplane_services.readers.lines import LineCutter
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.table import Record, TableReader
from deltaplane_services.readers.time_rule import declared_rule

__all__ = ["ArffDialect", "open_arff"]

_WEIGHT = re.compile(r"\{\s*([^{}\s]+)\s*\}")
_SPARSE_WITH_WEIGHT = re.compile(r"(\{.*\})\s*,?\s*" + _WEIGHT.pattern, re.DOTALL)
_COMMENT_OR_SPARSE = re.compile(rb"(?:\A|\n)[ \t]*[%{]|[ \t]%")
_BEFORE_COMMENT = re.compile(
    r"""((?:[^'"%\\]|\\.|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![ \t])%)*?)[ \t]+%.*""", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class ArffDialect:
    """The rows of an ARFF file, one in each line; ``left_out`` are each attribute's value in sparse rows without it."""

    left_out: tuple[str, ...]
    delimiter: str = ","
    quote: str = "'"

    def is_plain(self, data: bytes) -> bool:
        """Whether the lines hold only values between commas, quoted as in CSV or not at all."""
        if b'"' in data or b"\\" in data:
            return False
        if (b"%" in data or b"{" in data) and _COMMENT_OR_SPARSE.search(data):
            return False
        return ends_lines_with_newlines(data) and is_utf8(data) and quotes_enclose_cells(data, ",", "'")

    def tidied(self, data: bytes) -> bytes:
        """The lines as they are."""
        return data

    def record(self, data: bytes, at: int, *, final: bool) -> Record:  # noqa: ARG002 - no row goes on behind its line
        """The record in the line at ``at``; blank for a comment, and with a reason if it cannot be read."""
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].strip()
        if not line or line.startswith(b"%"):
            return Record(end, [])
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return Record(end, [], NOT_UTF8)
        if "%" in text and (before := _BEFORE_COMMENT.fullmatch(text)):
            text = before[1].rstrip()
        if not text.startswith("{"):
            return self._dense(end, text)
        weighted = _SPARSE_WITH_WEIGHT.fullmatch(text)
        if weighted and (refused := _weighted(end, weighted[2])):
            return refused
        try:
            return Record(end, self._sparse_cells(weighted[1] if weighted else text))
        except ValueError as fault:
            return Record(end, [], str(fault))

    def _dense(self, end: int, text: str) -> Record:
        cells = split_values(text)
        weight = _WEIGHT.fullmatch(cells[-1]) if len(cells) == len(self.left_out) + 1 else None
        if weight is None:
            return Record(end, cells)
        return _weighted(end, weight[1]) or Record(end, cells[:-1])

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


def _weighted(end: int, weight: str) -> Record | None:
    """The refusal of a row with a weight; None for a weight of 1, which changes nothing, as every row counts once."""
    if _number(weight) == 1:
        return None
    return Record(
        end,
        [],
        f"the row has the instance weight {clip(weight, 40)}, and rows cannot be weighted here; take the weights out of"
        " the file",
    )


def open_arff(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if header and options do not go together."""
    cutter = LineCutter(source)
    attributes = read_header(cutter, source.name)
    names = renamed([attribute.name for attribute in attributes], options, source.name)
    attributes = [replace(attribute, name=name) for attribute, name in zip(attributes, names, strict=True)]
    options = replace(options, renamed=())
    if options.label is None and options.labelled:
        outputs = [attribute.name for attribute in attributes if attribute.role == "output"]
        if len(outputs) > 1:
            raise ReaderError(f"{source.name} has {len(outputs)} outputs, {listed(outputs)}; name one with `--label`.")
        options = replace(options, label=outputs[0] if outputs else names[-1])
    wanted = options.features
    indicators = Indicators(attributes, by_place=options.nominal == "place")
    inputs = [attribute.name for attribute in attributes if attribute.role == "input"]
    if wanted is not None:
        options = replace(options, features=indicators.attributes_of(wanted, source.name))
    elif inputs:
        others = {options.label, options.id, options.time, *options.ignored}
        options = replace(options, features=tuple(name for name in inputs if name not in others))
    layout = choose_columns(names, options, source.name)
    if options.encoder is None and options.decide is None and options.look is None:
        _refuse_features_without_numbers(attributes, layout, source.name)
    values_of_label = None if layout.label is None else attributes[layout.label].values
    form = None if layout.time is None else attributes[layout.time].form
    layout = replace(
        layout,
        codes={
            position: _codes(attributes[position].values or ())
            for position in layout.features
            if attributes[position].values is not None
        },
        declared_labels=None if values_of_label is None else frozenset(values_of_label),
        labels=layout.labels.declaring(values_of_label or ()),
        times=None if form is None else declared_rule(options, form),
    )
    dialect = ArffDialect(tuple(attribute.left_out for attribute in attributes))
    reader = TableReader(cutter, layout, dialect, options, source)
    if layout.label is not None and attributes[layout.label].kind == "numeric":
        _refuse_measurements_as_labels(reader.first_cells(layout.label), attributes, names[layout.label], source.name)
    if reader.encodes:
        return reader.feature_names, reader.blocks()
    made = indicators.chosen(layout, wanted, source.name)
    return made.names, made.blocks(reader.blocks())


def _codes(values: Sequence[str]) -> dict[str, float]:
    """Text to its place among the declared values, and to NaN for ``?`` and other texts of a missing value."""
    codes = dict.fromkeys(MISSING, math.nan)
    codes.update({value: float(place) for place, value in enumerate(values)})
    codes["?"] = math.nan
    return codes


def _refuse_features_without_numbers(attributes: Sequence[Attribute], layout: Layout, where: str) -> None:
    bad = [attributes[position] for position in layout.features if not attributes[position].is_a_feature]
    if bad:
        raise ReaderError(
            f"The attribute `{bad[0].name}` of {where} is of type {bad[0].kind}, and a feature must be numeric or "
            f"nominal. Leave it out with `{ignoring([attribute.name for attribute in bad])}`."
        )


def _refuse_measurements_as_labels(
    cells: Sequence[str], attributes: Sequence[Attribute], label: str, where: str
) -> None:
    """Raise ReaderError if a numeric label is a measurement, of which each value would be a class."""
    different = {number for number in map(_number, cells) if not math.isnan(number)}
    if len(different) <= MOST_NUMERIC_CLASSES:
        return
    nominal = [attribute.name for attribute in attributes if attribute.values is not None]
    instead = f"; nominal attributes are {listed(nominal)}" if nominal else ""
    raise ReaderError(
        f"The label of {where} would be the attribute `{label}`, which is numeric and has "
        f"{len(different)} different values in the first {len(cells)} rows: they measure something and are no classes. "
        f"Name the class with `--label`{instead}."
    )


def _number(text: str) -> float:
    try:
        return read_number(text)
    except ValueError:
        return math.nan
