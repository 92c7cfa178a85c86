"""Text tables, of whatever dialect: blocks of lines read by columns if possible, else row by row.

If each record of a block is a line, the block is parsed by columns. If some cells are odd, only the rows with odd cells
are read row by row. If a quoted cell may run over line ends, the dialect says so, and the whole block is read record by
record; a record that is not complete at the end of a block waits for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from deltaplane import limits
from deltaplane_services.readers.bounds import LINE_BYTES, rows_of_a_block
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.columns import ColumnParser
from deltaplane_services.readers.cures import cure_of_text
from deltaplane_services.readers.encoded_columns import FirstCells, cells_of, encoded_layout, first_cells, looked_at
from deltaplane_services.readers.layout import Layout, ignoring, listed
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock
from deltaplane_services.readers.row_blocks import Look, Looked, ReaderError, ReaderOptions, RowBlock, merged
from deltaplane_services.readers.row_by_row_path import RowByRow, wrong_count
from deltaplane_services.readers.screen import TextOfLines
from deltaplane_services.readers.time_rule import FIRST_ROWS, rule_of_rows

__all__ = ["Dialect", "Record", "TableReader", "first_rows"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a block: where the next one begins, and its cells, or the ``reason`` to refuse it.

    A record without cells and without a reason is blank.
    """

    end: int
    cells: list[str]
    reason: str = ""


class Dialect(Protocol):
    """The way in which a kind of text table separates records and cells."""

    @property
    def delimiter(self) -> str:
        """The character between cells."""

    @property
    def quote(self) -> str:
        """The character around cells, for the fast path."""

    def is_plain(self, data: bytes) -> bool:
        """Whether all records are lines, which the fast path reads as :meth:`record` does, or gives up on."""

    def tidied(self, data: bytes) -> bytes:
        """The plain lines in the form that the fast path reads, each of them still a line."""

    def record(self, data: bytes, at: int, *, final: bool) -> Record | None:
        """The record at ``at``; None if it goes on after the end of ``data``, and that is not ``final``."""


def first_rows(dialect: Dialect, cutter: LineCutter, most: int = FIRST_ROWS) -> list[list[str]]:
    """The cells of at most ``most`` first rows of the next block; rows may have any number of cells."""
    piece = cutter.look_ahead(most)
    data = piece.data if isinstance(piece, TextBlock) else b""
    rows: list[list[str]] = []
    at = 0
    while at < len(data) and len(rows) < most:
        record = dialect.record(data, at, final=True)
        if record is None:
            break
        if record.cells:
            rows.append(record.cells)
        at = record.end
    return rows


class TableReader:
    """The row blocks of a text table, from where the line cutter stands."""

    def __init__(
        self, cutter: LineCutter, layout: Layout, dialect: Dialect, options: ReaderOptions, source: ByteSource
    ) -> None:
        self._cutter = cutter
        self._dialect = dialect
        self._name = source.name
        # Of rows that are asked about, each has its reason; there is no column to be left out.
        self._labelled = options.labelled
        if options.look is not None:
            self._look(layout, options.look)
        if layout.time is not None and layout.times is None:
            rule, note = rule_of_rows(self._cells(layout, layout.time), options, layout.names[layout.time], source.name)
            layout = replace(layout, times=rule)
            source.notes += [note] if note else []
        self._layout = layout = encoded_layout(layout, options, lambda: self._first_cells(layout, options.fill_in))
        self._columns = ColumnParser(layout, options, dialect.delimiter, dialect.quote)
        self._rows = RowByRow(layout, options)

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in file order. Raises ReaderError if there are none, or none in the first block because of text."""
        beginning: list[RowBlock] = []
        while not beginning and (piece := self._cutter.next_piece()) is not None:
            beginning = list(self._blocks_of(piece))
        if not beginning:
            raise ReaderError(f"{self._name} has a header and no rows; at least one row was expected after it.")
        self._refuse_text_columns(beginning)
        yield from beginning
        del beginning
        while (piece := self._cutter.next_piece()) is not None:
            yield from self._blocks_of(piece)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the blocks' columns."""
        return self._layout.feature_names

    @property
    def encodes(self) -> bool:
        """Whether rules make features from the columns."""
        return self._layout.encoder is not None

    def first_cells(self, position: int) -> list[str]:
        """The cells of one column in the first rows; to be called before any blocks are asked for."""
        return self._cells(self._layout, position)

    def _first_cells(self, layout: Layout, fill_in: bool) -> FirstCells | None:  # noqa: FBT001 - as the option says.
        rows = first_rows(self._dialect, self._cutter, limits.GRID_FIT_ROWS)
        return first_cells(layout, [row for row in rows if len(row) == len(layout.names)], fill_in=fill_in)

    def _look(self, layout: Layout, look: Look) -> None:
        """Show the first rows. Raises ReaderError if there are none, and :class:`Looked` once it is done."""
        rows = first_rows(self._dialect, self._cutter, limits.GRID_FIT_ROWS)
        whole = [row for row in rows if len(row) == len(layout.names)]
        if not whole:
            fault = f"no row of {len(layout.names)} cells, as many as it has names" if rows else "a header and no rows"
            raise ReaderError(f"{self._name} has {fault}.")
        look(cells_of(layout, whole, looked_at(layout)), len(rows) - len(whole))
        raise Looked

    def _cells(self, layout: Layout, position: int) -> list[str]:
        rows = first_rows(self._dialect, self._cutter)
        return [row[position] for row in rows if len(row) == len(layout.names)]

    def _refuse_text_columns(self, blocks: list[RowBlock]) -> None:
        text = self._rows.first_text
        if text is None or not self._labelled or any(len(block) for block in blocks):
            return
        if 2 * self._rows.rows_with_text <= sum(len(block.refused) for block in blocks):
            return
        column, value = next(iter(text.text_of_column.items()))
        columns = list(text.text_of_column)
        advice = f"{cure_of_text(value)}leave it out"
        advice = advice[0].upper() + advice[1:]
        others = f" So do {listed(columns[1:], 5)}." if len(columns) > 1 else ""
        raise ReaderError(
            f"The column `{column}` of {self._name} holds text where a feature must be a number: its first value, in "
            f"line {text.line_number}, is {value[:40]!r}.{others} {advice} with "
            f"`{ignoring(columns)}`, or name those to use with `--features`."
        )

    def _blocks_of(self, piece: TextBlock | OverlongLine) -> Iterator[RowBlock]:
        if isinstance(piece, OverlongLine):
            self._rows.refuse(piece.line_number, f"the line is longer than {LINE_BYTES} bytes", piece.beginning)
            yield self._rows.take()
        elif self._dialect.is_plain(piece.data):
            for part in self._parts(piece):
                yield from self._by_columns(part)
        else:
            yield from self._by_rows(piece)

    def _parts(self, piece: TextBlock) -> Iterator[TextBlock]:
        """The plain lines of a block, in parts if rules make so many features that a block would be too large."""
        if not self.encodes:
            yield piece
            return
        most = rows_of_a_block(len(self.feature_names))
        ends = np.flatnonzero(np.frombuffer(piece.data, dtype=np.uint8) == ord("\n"))[most - 1 :: most] + 1
        begin = 0
        for part, end in enumerate([*ends.tolist(), len(piece.data)]):
            if begin < end:
                yield TextBlock(piece.first_line_number + part * most, piece.data[begin:end], piece.final)
            begin = end

    def _by_columns(self, piece: TextBlock) -> Iterator[RowBlock]:
        tidied = self._dialect.tidied(piece.data)
        block = self._columns.parse(tidied, piece.first_line_number)
        if block is None:
            most = self._columns.parse_what_is_not_odd(tidied, piece.first_line_number)
            if most is None:
                yield from self._by_rows(piece)
                return
            lines = TextOfLines(piece.data, piece.first_line_number)
            for line_number in most.odd_lines:
                line = lines.line(line_number)
                record = self._dialect.record(line, 0, final=True)
                assert record is not None, "a final record ends"
                self._gather(line, 0, line_number, record)
            block = merged(most.block, self._rows.take())
        if len(block) or block.refused:
            yield block

    def _by_rows(self, block: TextBlock) -> Iterator[RowBlock]:
        data, at, line_number = block.data, 0, block.first_line_number
        while at < len(data):
            record = self._dialect.record(data, at, final=block.final)
            if record is None:
                self._cutter.put_back(data[at:], line_number)
                break
            at, line_number = self._gather(data, at, line_number, record)
            if self._rows.is_full:
                yield self._rows.take()
        rest = self._rows.take()
        if len(rest) or rest.refused:
            yield rest

    def _gather(self, data: bytes, at: int, line_number: int, record: Record) -> tuple[int, int]:
        """(the beginning of the next record, its line number), after one record has been gathered or refused."""
        lines = data.count(b"\n", at, record.end)
        if lines > 1 and record.cells and len(record.cells) != len(self._layout.names):
            # This is more likely a stray quote than a record over several lines, so that one line only is refused.
            reason = (
                f"{wrong_count(len(record.cells), len(self._layout.names))}, read to a quote {lines - 1} lines below"
            )
            record, lines = Record(data.index(b"\n", at) + 1, [], reason), 1
        raw = data[at : record.end]
        if record.reason:
            self._rows.refuse(line_number, record.reason, raw)
        elif record.cells:
            self._rows.add(line_number, record.cells, raw)
        return record.end, line_number + lines
