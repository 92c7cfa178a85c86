"""Parquet: typed columns, read in batches through a bounded buffer.

Numbers, booleans (0 and 1) and decimals can be features. Labels and ids may be of any plain type, and have one
spelling: ``1`` for 1 and for 1.0, ``true``, ``1996-05-07``. Times may be timestamps of any unit, dates, numbers
(seconds since the epoch, or the unit that the first ones show) or ISO 8601 text. A pipe is copied to a temporary file
first, since the format is read from its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats, Int64s
from deltaplane.columns.encoder import Cells, CodedCells
from deltaplane_services.readers.bounds import BLOCK_BYTES, MATRIX_BYTES, rows_of_a_block
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import NumberForm, canonical_label, clip, printable
from deltaplane_services.readers.encoded_columns import FirstCells, encoded_layout, looked_at
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring
from deltaplane_services.readers.row_blocks import Look, Looked, ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.saved_index import without_saved_index
from deltaplane_services.readers.screen import reasons_to_refuse, without_refused
from deltaplane_services.readers.time_rule import FIRST_ROWS, SECONDS_OR_ISO, TimeRule, rule_of_rows
from deltaplane_services.readers.time_text import TIME_MISSING, milliseconds_of_ticks
from deltaplane_services.readers.time_zone import LocalZone

__all__ = ["MAGIC", "open_parquet"]

MAGIC = b"PAR1"
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SHOWN_CELLS = 12


def open_parquet(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if columns and options do not go together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if source.peek(len(MAGIC)) != MAGIC:
        raise ReaderError(
            f"{source.name} is not a Parquet file: it should start with b'PAR1' and starts with {source.peek(4)!r}. "
            "If it is another kind of file, name it with `--format`."
        )
    try:
        columns = pq.read_metadata(source.seekable_stream()).num_columns
        buffer_bytes = min(BLOCK_BYTES, max(2**14, MATRIX_BYTES // max(1, columns)))
        file = pq.ParquetFile(source.seekable_stream(), pre_buffer=False, buffer_size=buffer_bytes)
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError, ValueError) as error:  # A name that is not UTF-8 is a ValueError.
        raise ReaderError(f"{source.name} is not a whole Parquet file: {error} Fetch or write it again.") from error
    options, notes = without_saved_index(names, options)
    source.notes += notes
    layout = choose_columns(names, options, source.name)
    written = dict(zip(layout.names, names, strict=True))
    if options.look is not None:
        _look(file, layout, options.look, written, source.name)
    layout = replace(layout, times=_time_rule(file, layout, options, source))
    layout = _with_rules(file, layout, options, written)
    rows = _ParquetRows(file, layout, options, source, written)
    if layout.encoder is None:
        rows.refuse_columns_without_numbers()
    if not file.metadata.num_rows:
        raise ReaderError(f"{source.name} has columns and no rows; at least one row was expected.")
    return layout.feature_names, rows.blocks()


def _with_rules(file: Any, layout: Layout, options: ReaderOptions, written: dict[str, str]) -> Layout:
    """The layout with the declared or decided encoder; unchanged if all features of the first rows are numbers."""
    if options.encoder is not None or options.decide is not None:
        _refuse_nested(file, layout, written)
    return encoded_layout(layout, options, lambda: _first_cells(file, layout, written, fill_in=options.fill_in))


def _first_cells(file: Any, layout: Layout, written: dict[str, str], *, fill_in: bool) -> FirstCells | None:
    """The first cells to decide rules on; None if they cannot be read, or all features are numbers and stay so."""
    import pyarrow as pa

    names = [layout.names[position] for position in layout.features]
    first: Any = None
    with suppress(pa.ArrowException, OSError, ValueError):  # The error comes again with the first row.
        columns = [written[name] for name in (*names, layout.names[layout.label])]
        first = next(file.iter_batches(batch_size=limits.GRID_FIT_ROWS, columns=columns, use_threads=False), None)
    if first is None:
        return None
    if not fill_in and all(_is_plain(first.column(written[name]), layout.form) for name in names):
        return None
    cells = {name: _cells(first.column(written[name])) for name in names}
    return cells, _labels(first.column(written[layout.names[layout.label]]), layout)


def _look(file: Any, layout: Layout, look: Look, written: dict[str, str], where: str) -> None:
    """Show the first rows. Raises ReaderError where there are none, and :class:`Looked` once it is done."""
    import pyarrow as pa

    _refuse_nested(file, layout, written)
    names = [layout.names[position] for position in looked_at(layout)]
    try:
        columns = [written[name] for name in names]
        first = next(file.iter_batches(batch_size=limits.GRID_FIT_ROWS, columns=columns, use_threads=False), None)
        if first is None or not first.num_rows:
            raise ReaderError(f"{where} has columns and no rows.")
        look({name: _cells(first.column(written[name])) for name in names}, 0)
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ReaderError(f"{where} cannot be read: {error} Fetch or write it again.") from error
    raise Looked


def _refuse_nested(file: Any, layout: Layout, written: dict[str, str]) -> None:
    """Raise ReaderError if a column holds lists or structures, which no rule can encode."""
    import pyarrow as pa

    kinds = {layout.names[at]: file.schema_arrow.field(written[layout.names[at]]).type for at in layout.features}
    bad = [name for name, kind in kinds.items() if pa.types.is_nested(kind)]
    if bad:
        raise ReaderError(
            f"The column `{bad[0]}` holds {kinds[bad[0]]}, of which no rule makes features: a cell must be a number, a"
            f" text, a truth or a time. Leave it out with `{ignoring(bad)}`, or make a column of each of its parts."
        )


def _is_plain(column: Any, form: NumberForm) -> bool:
    """Whether a column holds numbers, and none is missing."""
    import pyarrow as pa

    if not _holds_numbers(column.type) or pa.types.is_boolean(column.type):
        return False
    return not bool(np.isnan(form.without_missing(_numbers(column))).any())


def _cells(column: Any) -> Cells:
    """The cells of a column: numbers, or its different values and their codes. Raises IndexError for wrong codes."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_floating(column.type):
        return _numbers(column)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    different = [_cell(encoded.dictionary, at) for at in range(len(encoded.dictionary))]
    # Null has no place in the dictionary, and gets one behind the others.
    places = encoded.indices.fill_null(len(different)).to_numpy()
    if len(places) and not 0 <= places.min() <= places.max() <= len(different):
        raise IndexError(f"a dictionary of {len(different)} values has none at {places.min()} to {places.max()}")
    return CodedCells([*different, None], places.astype(np.intp))


class _ParquetRows:
    """The rows of a Parquet file, read in batches and returned as row blocks."""

    def __init__(
        self, file: Any, layout: Layout, options: ReaderOptions, source: ByteSource, written: dict[str, str]
    ) -> None:
        self._written = written
        self._file = file
        self._layout = layout
        self._refuse_nan = options.missing == "refuse"
        self._source = source
        self._name = source.name
        needed = [position for position in (layout.label, layout.id, layout.time) if position is not None]
        self._columns = [layout.names[position] for position in sorted({*needed, *layout.features})]

    def refuse_columns_without_numbers(self) -> None:
        """Raise ReaderError, with its first value, if the type of a feature column holds no numbers."""
        schema = self._file.schema_arrow
        kinds = {name: schema.field(self._written[name]).type for name in self._layout.feature_names}
        bad = [name for name, kind in kinds.items() if not _holds_numbers(kind)]
        if not bad:
            return
        first_values = (_cell(batch.column(0), 0) for batch in self._batches([bad[0]], 1))
        came = str(next(first_values, None))
        raise ReaderError(
            f"The column `{bad[0]}` of {self._name} holds {kinds[bad[0]]} where a feature must be a "
            f"number: its first value is {clip(came, 40)!r}. Leave it out with "
            f"`{ignoring(bad)}`, or name those to use with `--features`."
        )

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in file order. Raises ReaderError if the file is damaged."""
        first_row = 1
        # Rules may make many features of a few columns.
        width = max(len(self._columns), len(self._layout.feature_names))
        for batch in self._batches(self._columns, rows_of_a_block(width)):
            self._source.note_share_read((first_row - 1 + batch.num_rows) / self._file.metadata.num_rows)
            try:
                block = self._block(batch, first_row)
            except IndexError as error:
                raise ReaderError(
                    f"{self._name} cannot be read on after row {first_row - 1}: {error}. Fetch or write it again."
                ) from error
            yield block
            first_row += batch.num_rows
        if first_row == 1:
            raise ReaderError(f"{self._name} says that it has rows, and none is there. Fetch or write it again.")

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        written = [self._written[name] for name in columns]
        batches = self._file.iter_batches(batch_size=rows, columns=written, use_threads=False)
        read = 0
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise ReaderError(
                    f"{self._name} cannot be read on after row {read}: {error} Fetch or write it again."
                ) from error
            if batch is None:
                return
            read += batch.num_rows
            yield batch if written == columns else batch.rename_columns(columns)

    def _block(self, batch: Any, first_row: int) -> RowBlock:
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
            _labels(batch.column(layout.names[layout.label]), layout),
            None if layout.id is None else _texts(batch.column(layout.names[layout.id])),
            times,
            np.arange(first_row, first_row + batch.num_rows, dtype=np.int64),
        )
        reasons = reasons_to_refuse(block, layout.feature_names, faults, refuse_nan=self._refuse_nan)
        return without_refused(block, reasons, lambda row: _text_of_row(batch, row - first_row))

    def _features(self, batch: Any) -> tuple[Floats, dict[int, str]]:
        """(features float64[n, d], row to the reason why it has none)."""
        layout = self._layout
        if layout.encoder is not None:
            encoded = layout.encoder.encode({name: _cells(batch.column(name)) for name in layout.encoder.columns})
            return encoded.features, {one.row: one.reason for one in encoded.refused}
        features = np.empty((batch.num_rows, len(layout.features)))
        for feature, name in enumerate(layout.feature_names):
            features[:, feature] = layout.form.without_missing(_numbers(batch.column(name)))
        return features, {}


def _holds_numbers(kind: Any) -> bool:
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind))


def _numbers(column: Any) -> Floats:
    """The column as float64[n], each value rounded to the nearest, and NaN for null."""
    import pyarrow as pa

    numbers: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _texts(column: Any) -> list[str]:
    """The column as texts, with one spelling for each value, and an empty text for null and NaN.

    Raises IndexError if a damaged file points beyond its dictionary, which Arrow does not check.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    try:
        values = encoded.dictionary.to_pylist()
    except (ValueError, OverflowError):
        values = [_cell(encoded.dictionary, at) for at in range(len(encoded.dictionary))]
    texts = [_text(value) for value in values]
    ends = pc.min_max(encoded.indices).as_py()
    if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(texts):
        raise IndexError(f"a dictionary of {len(texts)} values has none at {ends['min']} to {ends['max']}")
    return ["" if index is None else texts[index] for index in encoded.indices.to_pylist()]


def _labels(column: Any, layout: Layout) -> list[str]:
    """The label in each value of the label column; ``""`` if it is missing."""
    texts = _texts(column)
    names = {text: layout.labels(text) for text in set(texts)}
    return [names[text] for text in texts]


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


def _time_rule(file: Any, layout: Layout, options: ReaderOptions, source: ByteSource) -> TimeRule | None:
    """How times are read, as declared or shown by the first rows; None if there are none, or the rows cannot be read.

    Typed times have a rule for their zone alone. Raises ReaderError if a declaration contradicts the type.
    """
    import pyarrow as pa

    if layout.time is None:
        return None
    name = layout.names[layout.time]
    kind = file.schema_arrow.field(layout.time).type
    if _is_typed_time(kind):
        if options.time_unit is not None or options.time_format is not None:
            raise ReaderError(
                f"The column `{name}` of {source.name} holds {kind}, which says what its times are; leave "
                "`--time-unit` and `--time-format` out."
            )
        if options.time_zone is not None and getattr(kind, "tz", None) is not None:
            raise ReaderError(
                f"The column `{name}` of {source.name} holds {kind}, which says where its times are; leave "
                "`--time-zone` out."
            )
        zone = None if options.time_zone is None else LocalZone(options.time_zone)
        return replace(SECONDS_OR_ISO, zone=zone if getattr(kind, "tz", None) is None else None)
    try:
        first = next(file.iter_batches(batch_size=FIRST_ROWS, columns=[name], use_threads=False), None)
        cells = [] if first is None else _spelled(first.column(0))
    except (pa.ArrowException, OSError, ValueError, IndexError):
        # The error comes again with the first row.
        return None
    rule, note = rule_of_rows(cells, options, name, source.name)
    source.notes += [note] if note else []
    return rule


def _is_typed_time(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _spelled(column: Any) -> list[str]:
    """Each value as a text; numbers are not read as float64 before, so that whole ones are not rounded."""
    if _holds_numbers(column.type):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    return _texts(column)


def _times(column: Any, rule: TimeRule) -> tuple[Int64s, dict[int, str]]:
    """(times int64[n] in milliseconds since the epoch, row to the reason why its time is undefined)."""
    import pyarrow as pa

    if not _is_typed_time(column.type):
        if _holds_numbers(column.type):
            times = rule.read_numbers(column)
            return (times, {}) if times is not None else _one_by_one(_spelled(column), rule)
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
        milliseconds, faults = (times, {}) if times is not None else _one_by_one(_spelled(column), unit)
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
    return printable(", ".join(f"{name}={_cell(batch.column(name), row)}" for name in names))


def _cell(column: Any, row: int) -> object:
    """A value as a Python object: bytes if a text is not UTF-8, and a number if Python has no such time."""
    import pyarrow as pa

    scalar = column[row]
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.cast(pa.large_binary()).as_py()
    except (ValueError, OverflowError):
        return getattr(scalar, "value", scalar)
