"""Parquet: typed columns, read in batches through a bounded buffer.

Numbers, booleans (0 and 1) and decimals can be features. Labels and ids may be of any plain type, and have one
spelling: ``1`` for 1 and for 1.0, ``true``, ``1996-05-07``. Times may be timestamps of any unit, dates, numbers
(seconds since the epoch, or the unit that the first ones show) or ISO 8601 text. A pipe is copied to a temporary file
first, since the format is read from its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from deltaplane import limits
from deltaplane_services.readers.arrow_columns import (
    ArrowRows,
    cell_of,
    cells_of_column,
    holds_numbers,
    is_plain,
    is_typed_time,
    labels_of,
    rule_of_type,
    spelled,
)
from deltaplane_services.readers.bounds import BLOCK_BYTES, MATRIX_BYTES, rows_of_a_block
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.encoded_columns import FirstCells, encoded_layout, looked_at
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring
from deltaplane_services.readers.row_blocks import Look, Looked, ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.saved_index import without_saved_index
from deltaplane_services.readers.time_rule import FIRST_ROWS, TimeRule, rule_of_rows

__all__ = ["MAGIC", "Opened", "TypedColumns", "open_parquet", "open_typed_columns"]

MAGIC = b"PAR1"

Opened: TypeAlias = tuple[tuple[str, ...], Iterator[RowBlock]]


class TypedColumns(Protocol):
    """A file of typed columns: its schema in Arrow, and the number of rows in each of its row groups."""

    names: Sequence[str]
    schema_arrow: Any
    rows_of_groups: Sequence[int]

    def batches(
        self, rows: int, groups: Sequence[int], columns: Sequence[str], coded: str | None = None
    ) -> Iterator[Any]:
        """Record batches of at most so many rows, with these columns; ``coded`` may come as codes of a dictionary."""


class _ParquetFile:
    def __init__(self, source: ByteSource) -> None:
        import pyarrow.parquet as pq

        self._source = source
        self._metadata = pq.read_metadata(source.seekable_stream())
        self._buffer_bytes = min(BLOCK_BYTES, max(2**14, MATRIX_BYTES // max(1, self._metadata.num_columns)))
        self._file = self._opened()
        self.schema_arrow = self._file.schema_arrow
        self.names: Sequence[str] = self.schema_arrow.names
        groups = range(self._metadata.num_row_groups)
        self.rows_of_groups: Sequence[int] = [self._metadata.row_group(group).num_rows for group in groups]

    def batches(
        self, rows: int, groups: Sequence[int], columns: Sequence[str], coded: str | None = None
    ) -> Iterator[Any]:
        # Texts of few values are codes in the file already, and take a third of the time if they stay so. But each row
        # group has codes of its own, so that no batch reaches from one into the next.
        long_groups = sum(self.rows_of_groups) >= 2 * rows * len(self.rows_of_groups)
        file = self._file if coded is None or not long_groups else self._opened([coded])
        batches: Iterator[Any] = file.iter_batches(rows, list(groups), columns=list(columns), use_threads=False)
        return batches

    def _opened(self, coded: Sequence[str] = ()) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            self._source.seekable_stream(),
            metadata=self._metadata,
            read_dictionary=list(coded),
            pre_buffer=False,
            buffer_size=self._buffer_bytes,
        )


def open_parquet(source: ByteSource, options: ReaderOptions) -> Opened:
    """(names of the features, row blocks). Raises ReaderError if columns and options do not go together."""
    import pyarrow as pa

    if source.peek(len(MAGIC)) != MAGIC:
        raise ReaderError(
            f"{source.name} is not a Parquet file: it should start with b'PAR1' and starts with {source.peek(4)!r}. "
            "If it is another kind of file, name it with `--format`."
        )
    try:
        file = _ParquetFile(source)
    except (pa.ArrowException, OSError, ValueError) as error:  # A name that is not UTF-8 is a ValueError.
        raise ReaderError(f"{source.name} is not a whole Parquet file: {error} Fetch or write it again.") from error
    return open_typed_columns(file, source, options)


def open_typed_columns(file: TypedColumns, source: ByteSource, options: ReaderOptions) -> Opened:
    """(names of the features, row blocks) of an open file. Raises ReaderError if it does not go with the options."""
    names = file.names
    options, notes = without_saved_index(names, options)
    source.notes += notes
    layout = choose_columns(names, options, source.name)
    written = dict(zip(layout.names, names, strict=True))
    if options.look is not None:
        _look(file, layout, options.look, written, source.name)
    layout = replace(layout, times=_time_rule(file, layout, options, source))
    layout = _with_rules(file, layout, options, written)
    rows = _TypedRows(file, layout, options, source, written)
    if layout.encoder is None:
        rows.refuse_columns_without_numbers()
    if not sum(file.rows_of_groups):
        raise ReaderError(f"{source.name} has columns and no rows; at least one row was expected.")
    return layout.feature_names, rows.blocks()


def _with_rules(file: TypedColumns, layout: Layout, options: ReaderOptions, written: dict[str, str]) -> Layout:
    """The layout with the declared or decided encoder; unchanged if all features of the first rows are numbers."""
    if options.encoder is not None or options.decide is not None:
        _refuse_nested(file, layout, written)
    return encoded_layout(layout, options, lambda: _first_cells(file, layout, written, fill_in=options.fill_in))


def _first_cells(file: TypedColumns, layout: Layout, written: dict[str, str], *, fill_in: bool) -> FirstCells | None:
    """The first cells to decide rules on; None if they cannot be read, or all features are numbers and stay so."""
    import pyarrow as pa

    assert layout.label is not None, "rules are decided on by labels"
    names = [layout.names[position] for position in layout.features]
    first: Any = None
    with suppress(pa.ArrowException, OSError, ValueError):  # The error comes again with the first row.
        columns = [written[name] for name in (*names, layout.names[layout.label])]
        first = _first_batch(file, limits.GRID_FIT_ROWS, columns)
    if first is None:
        return None
    if not fill_in and all(is_plain(first.column(written[name]), layout.form) for name in names):
        return None
    cells = {name: cells_of_column(first.column(written[name])) for name in names}
    return cells, labels_of(first.column(written[layout.names[layout.label]]), layout)


def _first_batch(file: TypedColumns, rows: int, columns: Sequence[str]) -> Any:
    """The first record batch, of at most so many rows; None if there is no row."""
    return next(file.batches(rows, range(len(file.rows_of_groups)), columns), None)


def _look(file: TypedColumns, layout: Layout, look: Look, written: dict[str, str], where: str) -> None:
    """Show the first rows. Raises ReaderError where there are none, and :class:`Looked` once it is done."""
    import pyarrow as pa

    _refuse_nested(file, layout, written)
    names = [layout.names[position] for position in looked_at(layout)]
    try:
        columns = [written[name] for name in names]
        first = _first_batch(file, limits.GRID_FIT_ROWS, columns)
        if first is None or not first.num_rows:
            raise ReaderError(f"{where} has columns and no rows.")
        look({name: cells_of_column(first.column(written[name])) for name in names}, 0)
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ReaderError(f"{where} cannot be read: {error} Fetch or write it again.") from error
    raise Looked


def _refuse_nested(file: TypedColumns, layout: Layout, written: dict[str, str]) -> None:
    """Raise ReaderError if a column holds lists or structures, which no rule can encode."""
    import pyarrow as pa

    kinds = {layout.names[at]: file.schema_arrow.field(written[layout.names[at]]).type for at in layout.features}
    bad = [name for name, kind in kinds.items() if pa.types.is_nested(kind)]
    if bad:
        raise ReaderError(
            f"The column `{bad[0]}` holds {kinds[bad[0]]}, of which no rule makes features: a cell must be a number, a"
            f" text, a truth or a time. Leave it out with `{ignoring(bad)}`, or make a column of each of its parts."
        )


class _TypedRows:
    """The rows of a file of typed columns, read in batches and returned as row blocks."""

    def __init__(
        self, file: TypedColumns, layout: Layout, options: ReaderOptions, source: ByteSource, written: dict[str, str]
    ) -> None:
        self._written = written
        self._file = file
        self._rows = ArrowRows(layout, refuse_nan=options.missing == "refuse")
        self._coded = None if layout.label is None else written[layout.names[layout.label]]
        self._source = source
        self._labelled = options.labelled
        self._name = source.name
        first, end = options.row_groups or (0, len(file.rows_of_groups))
        self._groups = list(range(first, end))
        self._rows_before = sum(file.rows_of_groups[:first])
        self._rows_in_all = sum(file.rows_of_groups)

    def refuse_columns_without_numbers(self) -> None:
        """Raise ReaderError, with its first value, if the type of a feature column holds no numbers."""
        schema = self._file.schema_arrow
        kinds = {name: schema.field(self._written[name]).type for name in self._rows.feature_names}
        bad = [name for name, kind in kinds.items() if not holds_numbers(kind)]
        if not bad:
            return
        first_values = (cell_of(batch.column(0), 0) for batch in self._batches([bad[0]], 1))
        came = str(next(first_values, None))
        cure = "Write it as numbers."
        if self._labelled:
            cure = f"Leave it out with `{ignoring(bad)}`, or name those to use with `--features`."
        raise ReaderError(
            f"The column `{bad[0]}` of {self._name} holds {kinds[bad[0]]} where a feature must be a "
            f"number: its first value is {clip(came, 40)!r}. {cure}"
        )

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in file order. Raises ReaderError if the file is damaged."""
        first_row = begin = 1 + self._rows_before
        # Rules may make many features of a few columns.
        width = max(len(self._rows.columns), len(self._rows.feature_names))
        for batch in self._batches(self._rows.columns, rows_of_a_block(width)):
            self._source.note_share_read((first_row - 1 + batch.num_rows) / self._rows_in_all)
            try:
                block = self._rows.block(batch, first_row)
            except IndexError as error:
                raise ReaderError(
                    f"{self._name} cannot be read on after row {first_row - 1}: {error}. Fetch or write it again."
                ) from error
            yield block
            first_row += batch.num_rows
        if first_row == begin:
            raise ReaderError(f"{self._name} says that it has rows, and none is there. Fetch or write it again.")

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        written = [self._written[name] for name in columns]
        batches = self._file.batches(rows, self._groups, written, self._coded if self._coded in written else None)
        read = self._rows_before
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


def _time_rule(file: TypedColumns, layout: Layout, options: ReaderOptions, source: ByteSource) -> TimeRule | None:
    """How times are read, as declared or shown by the first rows; None if there are none, or the rows cannot be read.

    Typed times have a rule for their zone alone. Raises ReaderError if a declaration contradicts the type.
    """
    import pyarrow as pa

    if layout.time is None:
        return None
    name = layout.names[layout.time]
    kind = file.schema_arrow.field(layout.time).type
    if is_typed_time(kind):
        return rule_of_type(kind, options, name, source.name)
    try:
        first = _first_batch(file, FIRST_ROWS, [name])
        cells = [] if first is None else spelled(first.column(0))
    except (pa.ArrowException, OSError, ValueError, IndexError):
        # The error comes again with the first row.
        return None
    rule, note = rule_of_rows(cells, options, name, source.name)
    source.notes += [note] if note else []
    return rule
