"""The fast path: a block of text read by columns, with Arrow's CSV parser or without a parser (:mod:`.whole_numbers`).

The row-by-row path (:mod:`.row_by_row_path`) decides what a cell means: this one must never accept a cell that it
refuses, nor give another value. Arrow's and Python's parsers both round correctly, and a test compares the two paths.
If a cell needs a closer look, the typed parse gives up. Then the block is parsed again as text, and columns are
converted one by one; rows with cells that cannot be converted are *odd*, and are left to the row-by-row path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Floats, Int64s
from deltaplane_services.readers.bounds import BLOCK_ROWS
from deltaplane_services.readers.encoded_columns import RowEncoder
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.lines import count_newlines
from deltaplane_services.readers.row_blocks import UNLABELLED, ReaderOptions, RowBlock
from deltaplane_services.readers.screen import TextOfLines, reasons_to_refuse, without_refused
from deltaplane_services.readers.whole_numbers import WholeNumberParser, WholeNumbers

__all__ = ["ColumnParser", "MostRows"]

_ROWS_AT_ONCE = 512

_Scalar = TypeVar("_Scalar", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MostRows:
    """The block of all rows that are not odd, and the line numbers of the odd ones."""

    block: RowBlock
    odd_lines: list[int]


class ColumnParser:
    """A parser from blocks of whole lines to row blocks, for one layout, delimiter and quote.

    The lines must be UTF-8, and no quoted cell may run over a line end.
    """

    def __init__(self, layout: Layout, options: ReaderOptions, delimiter: str, quote: str) -> None:
        # Imported here, so that a run that reads another format does not pay for it.
        import pyarrow as pa
        import pyarrow.csv

        self._layout = layout
        self._refuse_nan = options.missing == "refuse"
        self._delimiter, self._quote = delimiter, quote
        self._csv = pa.csv
        # The system's allocator gives freed memory back, and Arrow's own does not; nothing here is allocated often.
        self._pool = pa.system_memory_pool()
        self._names = [str(position) for position in range(len(layout.names))]
        text = {*layout.texts, *layout.codes}
        if layout.encoder is not None:
            text.update(layout.features)
        text.update(position for position in layout.features if not self._is_typed(position))
        used = sorted(text.union(layout.features))
        self._typed = self._convert_options({p: pa.string() if p in text else pa.float64() for p in used})
        self._as_text = self._convert_options({p: pa.string() for p in used})
        self._encoder = None if layout.encoder is None else RowEncoder(layout)
        self._whole_numbers: WholeNumberParser | None = None
        if not layout.forms and not layout.form.numbers_may_be_missing and layout.encoder is None:
            self._whole_numbers = WholeNumberParser(layout, delimiter)

    def _is_typed(self, position: int) -> bool:
        """Whether Arrow can read the numbers of a column in the form in which they are written."""
        form = self._layout.form_of(position)
        return not form.thousands and not form.affix

    def _convert_options(self, types: dict[int, Any]) -> Any:
        return self._csv.ConvertOptions(
            include_columns=[str(position) for position in types],
            column_types={str(position): kind for position, kind in types.items()},
            null_values=list(self._layout.form.missing),
            strings_can_be_null=False,
            decimal_point=self._layout.form.decimal,
        )

    def _read(self, data: bytes, convert_options: Any, on_odd_row: Callable[[Any], str] | None) -> Any:
        """An Arrow table of the lines; ``on_odd_row`` is called with each row that has another number of cells."""
        import pyarrow as pa

        return self._csv.read_csv(
            pa.BufferReader(data),
            read_options=self._csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
            parse_options=self._csv.ParseOptions(
                delimiter=self._delimiter,
                # Without looking for quotes Arrow reads a third faster.
                quote_char=self._quote if self._quote and self._quote.encode() in data else False,
                invalid_row_handler=on_odd_row,
            ),
            convert_options=convert_options,
            memory_pool=self._pool,
        )

    def parse(self, data: bytes, first_line_number: int) -> RowBlock | None:
        """All rows of the lines, or None if some are odd."""
        if self._whole_numbers is not None and not (self._quote and self._quote.encode() in data):
            numbers = self._whole_numbers.parse(data)
            if numbers is not None:
                return self._of_whole_numbers(numbers, data, first_line_number)
            # Once there are other cells, there will be more, so that this is not tried again.
            self._whole_numbers = None
        return self._of_arrow(data, first_line_number)

    def _of_whole_numbers(self, numbers: WholeNumbers, data: bytes, first_line_number: int) -> RowBlock | None:
        import pyarrow as pa

        layout, texts, columns = self._layout, numbers.texts, _Conversion(self._layout)
        block = RowBlock(
            numbers.features,
            columns.labels(None if layout.label is None else texts[layout.label], len(numbers.features)),
            None if layout.id is None else columns.ids(texts[layout.id]),
            None if layout.time is None else columns.times(pa.chunked_array([texts[layout.time]])),
            np.arange(first_line_number, first_line_number + len(numbers.features), dtype=np.int64),
        )
        if columns.odd_rows:
            return None
        return self._screened(block, data, first_line_number, may_be_nan=False)

    def _of_arrow(self, data: bytes, first_line_number: int) -> RowBlock | None:
        import pyarrow as pa

        try:
            table = self._read(data, self._typed, None)
        except pa.ArrowInvalid:
            return None
        line_numbers = _lines_with_rows(data, first_line_number, table.num_rows)
        if line_numbers is None:
            return None
        columns = _Conversion(self._layout, self._encoder)
        block = columns.block(table, line_numbers)
        if columns.odd_rows:
            return None
        # NaN is written with an n: without that letter, only cells that stand for a missing number can be NaN.
        may_be_nan = b"n" in data or b"N" in data or any(column.null_count for column in table.columns)
        may_be_nan |= bool(self._layout.codes) or self._layout.form.numbers_may_be_missing
        return self._screened(block, data, first_line_number, may_be_nan=may_be_nan)

    def parse_what_is_not_odd(self, data: bytes, first_line_number: int) -> MostRows | None:
        """The rows whose cells can all be converted, and the lines of the others; None if too many are odd."""
        import pyarrow as pa

        odd: list[int] = []

        def leave_out(row: Any) -> str:
            odd.append(row.number - 1)
            return "skip"

        try:
            table = self._read(data, self._as_text, leave_out)
        except pa.ArrowInvalid:
            return None
        all_lines = _lines_with_rows(data, first_line_number, table.num_rows + len(odd))
        if all_lines is None:
            return None
        odd_lines = all_lines[odd].tolist()
        line_numbers = np.delete(all_lines, odd)
        columns = _Conversion(self._layout, self._encoder)
        block = columns.block(table, line_numbers)
        keep = np.ones(len(block), dtype=np.bool_)
        keep[list(columns.odd_rows)] = False
        odd_lines += line_numbers[~keep].tolist()
        if len(odd_lines) > BLOCK_ROWS:
            return None
        screened = self._screened(block.where(keep), data, first_line_number, may_be_nan=True)
        return None if screened is None else MostRows(screened, sorted(odd_lines))

    def _screened(self, block: RowBlock, data: bytes, first_line_number: int, *, may_be_nan: bool) -> RowBlock | None:
        names = self._layout.feature_names
        reasons = reasons_to_refuse(block, names, {}, refuse_nan=self._refuse_nan and may_be_nan)
        if len(reasons) > BLOCK_ROWS:
            return None
        return without_refused(block, reasons, TextOfLines(data, first_line_number))


class _Conversion:
    """A conversion of an Arrow table's columns to those of a row block; ``odd_rows`` are those that it cannot do."""

    def __init__(self, layout: Layout, encoder: RowEncoder | None = None) -> None:
        self._layout = layout
        self._encoder = encoder
        self.odd_rows: set[int] = set()

    def block(self, table: Any, line_numbers: Int64s) -> RowBlock:
        layout = self._layout
        cells = None if layout.label is None else table.column(str(layout.label)).to_pylist()
        labels = self.labels(cells, table.num_rows)
        ids = None if layout.id is None else self.ids(table.column(str(layout.id)).to_pylist())
        times = None if layout.time is None else self.times(table.column(str(layout.time)))
        return RowBlock(self._features(table), labels, ids, times, line_numbers)

    def _features(self, table: Any) -> Floats:
        layout = self._layout
        if self._encoder is not None:
            encoded = self._encoder.of_columns(table)
            self.odd_rows.update(one.row for one in encoded.refused)
            return encoded.features
        columns = []
        for position in layout.features:
            column, codes = table.column(str(position)), layout.codes.get(position)
            columns.append(self._numbers(column, position) if codes is None else self._coded(column, codes))
        return _side_by_side(columns, table.num_rows)

    def labels(self, texts: Sequence[str] | None, rows: int) -> list[str]:
        """The label of each cell of the label column, ``""`` if it is missing; ``texts`` is None if there is none."""
        if texts is None:
            return [UNLABELLED] * rows
        names = {text: self._layout.labels(text) for text in set(texts)}
        labels = [names[text] for text in texts]
        declared = self._layout.declared_labels
        if declared is not None:
            self.odd_rows.update(row for row, label in enumerate(labels) if label and label not in declared)
        return labels

    def ids(self, texts: list[str]) -> list[str]:
        """The id in each cell of the id column."""
        return [text.strip() for text in texts]

    def times(self, column: Any) -> Int64s:
        """The times int64[n] of an Arrow column of n strings, in milliseconds since the epoch."""
        rule = self._layout.time_rule
        times = rule.read_text(column)
        return self._one_by_one(column, rule.read, np.int64) if times is None else times

    def _numbers(self, column: Any, position: int) -> Floats:
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers: Floats
        form = self._layout.form_of(position)
        if column.type == pa.float64():
            numbers = column.to_numpy()
            return form.without_missing(numbers)
        if form.is_plain:
            with suppress(pa.ArrowInvalid):
                numbers = pc.cast(column, pa.float64()).to_numpy()
                return numbers
            trimmed = pc.ascii_trim(column, characters=" \t")
            given = pc.if_else(pc.is_in(trimmed, value_set=pa.array(sorted(form.missing))), None, trimmed)
            with suppress(pa.ArrowInvalid):
                numbers = pc.cast(given, pa.float64()).to_numpy()
                return numbers
        return self._one_by_one(column, form.read, np.float64)

    def _coded(self, column: Any, codes: Mapping[str, float]) -> Floats:
        return self._one_by_one(column, lambda text: codes[text.strip()], np.float64)

    def _one_by_one(self, column: Any, read: Callable[[str], float], kind: type[_Scalar]) -> npt.NDArray[_Scalar]:
        """The value of each cell, as ``read`` gives it; each different text is read once."""
        encoded = column.combine_chunks().dictionary_encode()
        indices: Int64s = encoded.indices.to_numpy()
        values: npt.NDArray[_Scalar] = np.zeros(len(encoded.dictionary), dtype=kind)
        unreadable = np.zeros(len(encoded.dictionary), dtype=np.bool_)
        for index, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                values[index] = read(text)
            except (KeyError, ValueError):
                unreadable[index] = True
        self.odd_rows.update(np.flatnonzero(unreadable[indices]).tolist())
        return values[indices]


def _side_by_side(columns: Sequence[Floats], rows: int) -> Floats:
    """float64[n, d] of d columns float64[n], copied a few rows at a time, so that these stay in the cache."""
    features = np.empty((rows, len(columns)))
    for begin in range(0, rows if columns else 0, _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        features[part] = np.array([column[part] for column in columns]).T
    return features


def _lines_with_rows(data: bytes, first_line_number: int, rows: int) -> Int64s | None:
    """The line numbers int64[n] of n rows, without blank lines; None if the number of rows is not that of lines."""
    lines = count_newlines(data) + (not data.endswith(b"\n"))
    if rows == lines:
        return np.arange(first_line_number, first_line_number + lines, dtype=np.int64)
    filled = [number for number, line in enumerate(data.split(b"\n"), start=first_line_number) if line.strip(b"\r")]
    return np.array(filled, dtype=np.int64) if rows == len(filled) else None
