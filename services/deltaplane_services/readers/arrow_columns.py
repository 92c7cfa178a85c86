"""Columns of Arrow made into rows: what Parquet files and the batches of an engine have in common.

Labels and ids become texts in one spelling, integers and decimals rounded float64. Event times are timestamps, dates,
numbers or texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.columns.encoder import Cells, CodedCells
from deltaplane_services.readers.cells import NumberForm, canonical_label, printable
from deltaplane_services.readers.coded_texts import CodedTexts
from deltaplane_services.readers.encoded_columns import encoded_layout
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring
from deltaplane_services.readers.row_blocks import UNLABELLED, ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.screen import reasons_to_refuse, without_refused
from deltaplane_services.readers.time_rule import SECONDS_OR_ISO, TimeRule, rule_of_rows
from deltaplane_services.readers.time_text import TIME_MISSING, milliseconds_of_ticks
from deltaplane_services.readers.time_zone import LocalZone

__all__ = [
    "ArrowRows",
    "cell_of",
    "cells_of_column",
    "holds_numbers",
    "is_plain",
    "is_typed_time",
    "labels_of",
    "rule_of_type",
    "spelled",
]

_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SHOWN_CELLS = 12


class ArrowRows:
    """Makes a row block of each record batch; ``refuse_nan``: whether a row with a missing feature is refused.

    ``columns``: the names of the columns that a batch must have, in this order, among others or not.
    """

    def __init__(self, layout: Layout, *, refuse_nan: bool) -> None:
        self._layout = layout
        self._refuse_nan = refuse_nan
        self.columns = [layout.names[position] for position in sorted({*layout.texts, *layout.features})]

    @classmethod
    def of_schema(cls, schema: Any, options: ReaderOptions, where: str) -> ArrowRows:
        """For batches of an Arrow schema, of which no row has been seen; ``where`` names the table in errors.

        Times that are not typed must be declared: each engine reads other rows first. Raises ReaderError if columns
        and options do not go together.
        """
        layout = encoded_layout(choose_columns(schema.names, options, where), options, lambda: None)
        if layout.time is not None:
            kind, name = schema.field(layout.time).type, layout.names[layout.time]
            typed = is_typed_time(kind)
            rule = rule_of_type(kind, options, name, where) if typed else rule_of_rows([], options, name, where)[0]
            layout = replace(layout, times=rule)
        if layout.encoder is None:
            for name in layout.feature_names:
                if not holds_numbers(kind := schema.field(name).type):
                    raise ReaderError(
                        f"The column `{name}` of {where} holds {kind} where a feature must be a number. Leave it out"
                        f" with `{ignoring([name])}`, or name those to use with `--features`."
                    )
        return cls(layout, refuse_nan=options.missing == "refuse")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the blocks' columns."""
        return self._layout.feature_names

    def block(self, batch: Any, first_row: int) -> RowBlock:
        """The rows of a record batch, numbered from ``first_row``.

        Raises IndexError if a damaged file points beyond its dictionary, which Arrow does not check.
        """
        layout = self._layout
        features, unread = self._features(batch)
        faults: dict[int, str] = {}
        times = None
        if layout.time is not None:
            times, faults = _times(batch.column(layout.names[layout.time]), layout.time_rule)
        for row, reason in unread.items():
            faults.setdefault(row, reason)
        block = RowBlock(
            features,
            self._labels(batch),
            None if layout.id is None else _texts(batch.column(layout.names[layout.id])),
            times,
            np.arange(first_row, first_row + batch.num_rows, dtype=np.int64),
        )
        reasons = reasons_to_refuse(block, layout.feature_names, faults, refuse_nan=self._refuse_nan)
        return without_refused(block, reasons, lambda row: _text_of_row(batch, row - first_row))

    def _labels(self, batch: Any) -> CodedTexts:
        layout = self._layout
        if layout.label is None:
            return CodedTexts((UNLABELLED,), np.zeros(batch.num_rows, dtype=np.int32))
        return labels_of(batch.column(layout.names[layout.label]), layout)

    def _features(self, batch: Any) -> tuple[Floats, dict[int, str]]:
        """(features float64[n, d], row to the reason why it has none)."""
        layout = self._layout
        if layout.encoder is not None:
            encoded = layout.encoder.encode(
                {name: cells_of_column(batch.column(name)) for name in layout.encoder.columns}
            )
            return encoded.features, {one.row: one.reason for one in encoded.refused}
        features = np.empty((batch.num_rows, len(layout.features)))
        for feature, name in enumerate(layout.feature_names):
            features[:, feature] = layout.form.without_missing(_numbers(batch.column(name)))
        return features, {}


def is_plain(column: Any, form: NumberForm) -> bool:
    """Whether a column holds numbers, and none is missing."""
    import pyarrow as pa

    if not holds_numbers(column.type) or pa.types.is_boolean(column.type):
        return False
    return not bool(np.isnan(form.without_missing(_numbers(column))).any())


def cells_of_column(column: Any) -> Cells:
    """The cells of a column: numbers, or its different values and their codes. Raises IndexError for wrong codes."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_floating(column.type):
        return _numbers(column)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    different = [cell_of(encoded.dictionary, at) for at in range(len(encoded.dictionary))]
    # Null has no place in the dictionary, and gets one behind the others.
    places = encoded.indices.fill_null(len(different)).to_numpy()
    if len(places) and not 0 <= places.min() <= places.max() <= len(different):
        raise IndexError(f"a dictionary of {len(different)} values has none at {places.min()} to {places.max()}")
    return CodedCells([*different, None], places.astype(np.intp))


def holds_numbers(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers; truths are 0 and 1."""
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind))


def _numbers(column: Any) -> Floats:
    """The column as float64[n], each value rounded to the nearest, and NaN for null."""
    import pyarrow as pa

    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    numbers: Floats = column.to_numpy(zero_copy_only=False)
    return numbers


def _coded(column: Any) -> CodedTexts:
    """The column as texts, with one spelling for each value, and an empty text for null and NaN.

    Raises IndexError if a damaged file points beyond its dictionary, which Arrow does not check.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
        # A dictionary of far more rows than these: whoever read all of it for each of their blocks would never end.
        column = column.dictionary_decode()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    try:
        values = encoded.dictionary.to_pylist()
    except (ValueError, OverflowError):
        values = [cell_of(encoded.dictionary, at) for at in range(len(encoded.dictionary))]
    texts = [_text(value) for value in values]
    ends = pc.min_max(encoded.indices).as_py()
    if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(texts):
        raise IndexError(f"a dictionary of {len(texts)} values has none at {ends['min']} to {ends['max']}")
    indices = encoded.indices
    if indices.null_count:
        # Null has no place in the dictionary, and gets one behind the others.
        indices, texts = indices.cast(pa.int64()).fill_null(len(texts)), [*texts, ""]
    return _spelled(texts, indices.to_numpy())


def _spelled(texts: Sequence[str], places: Any) -> CodedTexts:
    """The texts at some places int[n]; of ``texts`` some may be equal."""
    table = tuple(dict.fromkeys(texts))
    codes = places.astype(np.int32, copy=False)
    if len(table) < len(texts):
        place = {text: code for code, text in enumerate(table)}
        codes = np.array([place[text] for text in texts], dtype=np.int32)[codes]
    return CodedTexts(table, codes)


def _texts(column: Any) -> list[str]:
    """As :func:`_coded`, each text by itself."""
    return list(_coded(column))


def labels_of(column: Any, layout: Layout) -> CodedTexts:
    """The label in each value of the label column; ``""`` if it is missing."""
    texts = _coded(column)
    return _spelled([layout.labels(text) for text in texts.table], texts.codes)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else canonical_label(float(value))
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() else str(value.normalize())
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace").strip()
    return str(value).strip()


def is_typed_time(kind: Any) -> bool:
    """Whether an Arrow type is a date or a timestamp."""
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def rule_of_type(kind: Any, options: ReaderOptions, name: str, where: str) -> TimeRule:
    """How typed times are read: as they say, in the zone that is declared for those that say none.

    Raises ReaderError if a declaration contradicts the type.
    """
    if options.time_unit is not None or options.time_format is not None:
        raise ReaderError(
            f"The column `{name}` of {where} holds {kind}, which says what its times are; leave "
            "`--time-unit` and `--time-format` out."
        )
    if options.time_zone is not None and getattr(kind, "tz", None) is not None:
        raise ReaderError(
            f"The column `{name}` of {where} holds {kind}, which says where its times are; leave `--time-zone` out."
        )
    zone = None if options.time_zone is None else LocalZone(options.time_zone)
    return replace(SECONDS_OR_ISO, zone=zone if getattr(kind, "tz", None) is None else None)


def spelled(column: Any) -> list[str]:
    """Each value as a text; numbers are not read as float64 before, so that whole ones are not rounded."""
    if holds_numbers(column.type):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    return _texts(column)


def _times(column: Any, rule: TimeRule) -> tuple[Int64s, dict[int, str]]:
    """(times int64[n] in milliseconds since the epoch, row to the reason why its time is undefined)."""
    import pyarrow as pa

    if not is_typed_time(column.type):
        if holds_numbers(column.type):
            times = rule.read_numbers(column)
            return (times, {}) if times is not None else _one_by_one(spelled(column), rule)
        texts = _texts(column)
        times = rule.read_text(pa.array(texts, pa.string()))
        return (times, {}) if times is not None else _one_by_one(texts, rule)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    ticks_per_second = _TICKS_PER_SECOND[column.type.unit]
    column = column.cast(pa.int64())
    if ticks_per_second == 1:
        unit = SECONDS_OR_ISO
        times = unit.read_numbers(column)
        milliseconds, faults = (times, {}) if times is not None else _one_by_one(spelled(column), unit)
    else:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
        milliseconds = milliseconds_of_ticks(column.fill_null(0).to_numpy(), ticks_per_second // 1000)
        faults = dict.fromkeys(missing, TIME_MISSING)
    return (milliseconds, faults) if rule.zone is None else _to_utc(milliseconds, faults, rule.zone)


def _to_utc(local: Int64s, faults: dict[int, str], zone: LocalZone) -> tuple[Int64s, dict[int, str]]:
    """(times in UTC, faults) of local times; a time that a zone does not have, or has twice, becomes a fault."""
    times = zone.to_utc_each(local)
    if times is not None:
        return times, faults
    times = np.zeros_like(local)
    for row, milliseconds in enumerate(local.tolist()):
        try:
            times[row] = zone.to_utc(milliseconds)
        except ValueError as fault:
            faults.setdefault(row, f"the time {np.datetime64(milliseconds, 'ms')} {fault}")
    return times, faults


def _one_by_one(texts: list[str], rule: TimeRule) -> tuple[Int64s, dict[int, str]]:
    times = np.zeros(len(texts), dtype=np.int64)
    faults = {}
    for row, text in enumerate(texts):
        try:
            times[row] = rule.read(text)
        except ValueError as fault:
            faults[row] = str(fault)
    return times, faults


def _text_of_row(batch: Any, row: int) -> str:
    """The first cells of a row as a text."""
    names = batch.schema.names[:_SHOWN_CELLS]
    return printable(", ".join(f"{name}={cell_of(batch.column(name), row)}" for name in names))


def cell_of(column: Any, row: int) -> object:
    """A value as a Python object: bytes if a text is not UTF-8, and a number if Python has no such time."""
    import pyarrow as pa

    scalar = column[row]
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.cast(pa.large_binary()).as_py()
    except (ValueError, OverflowError):
        return getattr(scalar, "value", scalar)
