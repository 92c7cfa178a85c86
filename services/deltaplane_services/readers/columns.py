"""The fast path: a block of text to columns by Arrow's CSV parser, all rows at once.

It gives up, by returning None, wherever a cell needs a closer look, and the rows are then read one by one
(:mod:`.rowwise`), whose rules decide. So it must never accept what those refuse, nor give another value. Arrow's and
Python's parsers both round correctly, and a test holds the two paths against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane_services.readers.bounds import BLOCK_ROWS
from deltaplane_services.readers.cells import MISSING
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.rows import ReaderOptions, RowBlock
from deltaplane_services.readers.screen import TextOfLines, reasons_to_refuse, without_refused
from deltaplane_services.readers.times import times_of_text


class ColumnParser:
    """Blocks of whole lines to row blocks, for one layout, delimiter and quote."""

    def __init__(self, layout: Layout, options: ReaderOptions, delimiter: str, quote: str) -> None:
        # Imported here, so that a run that reads another format does not pay for it.
        import pyarrow as pa
        import pyarrow.csv

        self._layout = layout
        self._refuse_nan = options.missing == "refuse"
        text = {position for position in (layout.label, layout.id, layout.time) if position is not None}
        text.update(layout.codes)
        numbers = [position for position in layout.features if position not in text]
        self._csv = pa.csv
        self._buffer = pa.py_buffer
        # The system's allocator gives freed memory back; Arrow's own keeps it, and nothing here is allocated often.
        self._pool = pa.system_memory_pool()
        self._names = [str(position) for position in range(len(layout.names))]
        self._parse_options = pa.csv.ParseOptions(delimiter=delimiter, quote_char=quote)
        self._convert_options = pa.csv.ConvertOptions(
            include_columns=[str(position) for position in sorted(text.union(numbers))],
            column_types={str(position): pa.string() for position in text}
            | {str(position): pa.float64() for position in numbers},
            null_values=list(MISSING),
            strings_can_be_null=False,
        )

    def parse(self, data: bytes, first_line_number: int) -> RowBlock | None:
        """The rows of whole lines in which no quoted cell runs over a line end; None where they must be read one by
        one.
        """
        import pyarrow as pa

        try:
            table = self._csv.read_csv(
                pa.BufferReader(data),
                read_options=self._csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=self._names
                ),
                parse_options=self._parse_options,
                convert_options=self._convert_options,
                memory_pool=self._pool,
            )
        except pa.ArrowInvalid:
            return None
        line_numbers = _numbers_of_rows(data, first_line_number, table.num_rows)
        if line_numbers is None:
            return None
        block = self._block(table, line_numbers)
        if block is None:
            return None
        # NaN is written with an n: a block without that letter has none but in its empty and `?` cells.
        may_be_nan = b"n" in data or b"N" in data or any(column.null_count for column in table.columns)
        reasons = reasons_to_refuse(
            block,
            self._layout.feature_names,
            {},
            refuse_nan=self._refuse_nan and (may_be_nan or bool(self._layout.codes)),
        )
        if len(reasons) > BLOCK_ROWS:
            return None
        return without_refused(block, reasons, TextOfLines(data, first_line_number))

    def _block(self, table: Any, line_numbers: npt.NDArray[np.int64]) -> RowBlock | None:
        layout = self._layout
        labels = self._labels(table.column(str(layout.label)))
        ids = None if layout.id is None else [text.strip() for text in table.column(str(layout.id)).to_pylist()]
        times = None
        if layout.time is not None:
            times = times_of_text(table.column(str(layout.time)))
            if times is None:
                return None
        features = self._features(table)
        if labels is None or features is None:
            return None
        return RowBlock(features, labels, ids, times, line_numbers)

    def _labels(self, column: Any) -> list[str] | None:
        encoded = column.combine_chunks().dictionary_encode()
        texts = [text.strip() for text in encoded.dictionary.to_pylist()]
        texts = ["" if text in self._layout.empty_labels else text for text in texts]
        declared = self._layout.declared_labels
        if declared is not None and not declared.issuperset(text for text in texts if text):
            return None
        return [texts[index] for index in encoded.indices.to_pylist()]

    def _features(self, table: Any) -> npt.NDArray[np.float64] | None:
        features = np.empty((table.num_rows, len(self._layout.features)))
        for feature, position in enumerate(self._layout.features):
            column = table.column(str(position))
            codes = self._layout.codes.get(position)
            if codes is None:
                features[:, feature] = column.to_numpy()
                continue
            encoded = column.combine_chunks().dictionary_encode()
            numbers = [codes.get(text.strip()) for text in encoded.dictionary.to_pylist()]
            if None in numbers:
                return None
            features[:, feature] = np.array(numbers, dtype=np.float64)[encoded.indices.to_numpy()]
        return features


def _numbers_of_rows(data: bytes, first_line_number: int, rows: int) -> npt.NDArray[np.int64] | None:
    """Line numbers of the rows, blank lines having none; None where rows are not lines after all."""
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if rows == lines:
        return np.arange(first_line_number, first_line_number + lines, dtype=np.int64)
    filled = [number for number, line in enumerate(data.split(b"\n"), start=first_line_number) if line.strip(b"\r")]
    return np.array(filled, dtype=np.int64) if rows == len(filled) else None
