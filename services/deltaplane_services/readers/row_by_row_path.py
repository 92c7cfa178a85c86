"""The exact path, which reads rows one by one: each goes into the next block, or among its refused rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from deltaplane import limits
from deltaplane.stream.sample import usable
from deltaplane_services.readers.bounds import BLOCK_ROWS, rows_of_a_block
from deltaplane_services.readers.cells import clip, excerpt
from deltaplane_services.readers.encoded_columns import RowEncoder
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.row_blocks import UNLABELLED, ReaderOptions, RefusedRow, RowBlock
from deltaplane_services.readers.screen import LABEL_MISSING, feature_missing, id_unusable

__all__ = ["HEADER_AGAIN", "RowByRow", "TextInFeatures", "wrong_count"]

HEADER_AGAIN = "the line is the header again"


@dataclass(frozen=True, slots=True)
class TextInFeatures:
    """The first row with text in a feature column: its line, and column to text."""

    line_number: int
    text_of_column: dict[str, str]


class RowByRow:
    """Gathers rows, given as cells of text, into a block."""

    def __init__(self, layout: Layout, options: ReaderOptions) -> None:
        self._layout = layout
        self._refuse_missing = options.missing == "refuse"
        self._header_cell = layout.features[0] if layout.label is None else layout.label
        # With a single feature, itemgetter would return a cell instead of a row of cells.
        fast = len(layout.features) > 1 and not layout.codes and not layout.forms and layout.form.is_plain
        self._encoder = None if layout.encoder is None else RowEncoder(layout)
        self._most_rows = BLOCK_ROWS if layout.encoder is None else rows_of_a_block(len(layout.feature_names))
        self._rows: list[tuple[Sequence[str], bytes]] = []
        self._pick: Callable[[Sequence[str]], Sequence[str]] | None = itemgetter(*layout.features) if fast else None
        self._features: list[list[float]] = []
        self._labels: list[str] = []
        self._ids: list[str] = []
        self._times: list[int] = []
        self._line_numbers: list[int] = []
        self._refused: list[RefusedRow] = []
        self.rows_with_text = 0
        self.first_text: TextInFeatures | None = None

    @property
    def is_full(self) -> bool:
        """Whether the block has as many rows as it may have, so that it must be taken."""
        return len(self._labels) + len(self._refused) >= self._most_rows

    def take(self) -> RowBlock:
        """The block of all rows gathered since the last call."""
        layout = self._layout
        if self._encoder is not None:
            self._encode(self._encoder)
        width = len(layout.feature_names)
        features = np.array(self._features, dtype=np.float64).reshape(len(self._features), width)
        block = RowBlock(
            features,
            self._labels,
            None if layout.id is None else self._ids,
            None if layout.time is None else np.array(self._times, dtype=np.int64),
            np.array(self._line_numbers, dtype=np.int64),
            tuple(self._refused),
        )
        self._features, self._labels, self._ids, self._times = [], [], [], []
        self._line_numbers, self._refused = [], []
        return block

    def refuse(self, line_number: int, reason: str, raw: bytes) -> None:
        """Add a row to the refused ones."""
        self._refused.append(RefusedRow(line_number, reason, excerpt(raw)))

    def add(self, line_number: int, cells: Sequence[str], raw: bytes) -> None:
        """Gather a row, or refuse it for its first bad cell, in the order label, id, time, features."""
        layout = self._layout
        try:
            if len(cells) != len(layout.names):
                raise ValueError(wrong_count(len(cells), len(layout.names)))
            if cells[self._header_cell].strip() == layout.names[self._header_cell] and self._is_header(cells):
                raise ValueError(HEADER_AGAIN)
            label = UNLABELLED if layout.label is None else self._label(cells[layout.label])
            row_id = "" if layout.id is None else cells[layout.id].strip()
            if layout.id is not None and not usable(row_id, limits.BATCH_ID_BYTES):
                raise ValueError(id_unusable(row_id))
            time = 0 if layout.time is None else layout.time_rule.read(cells[layout.time])
            features = self._numbers(cells, raw) if self._encoder is None else []
        except _TextFault as fault:
            self._note_text(line_number, cells)
            self.refuse(line_number, str(fault), raw)
        except ValueError as fault:
            self.refuse(line_number, str(fault), raw)
        else:
            self._features.append(features)
            self._labels.append(label)
            self._ids.append(row_id)
            self._times.append(time)
            self._line_numbers.append(line_number)
            if self._encoder is not None:
                self._rows.append((cells, raw))

    def _encode(self, encoder: RowEncoder) -> None:
        """Encode the gathered rows, and refuse those that cannot be encoded."""
        encoded = encoder.of_rows([cells for cells, _ in self._rows])
        for one in encoded.refused:
            self._refused.append(RefusedRow(self._line_numbers[one.row], one.reason, excerpt(self._rows[one.row][1])))
        self._refused.sort(key=lambda row: row.line_number)
        fits = np.flatnonzero(encoded.fits).tolist()
        self._features = encoded.features[encoded.fits].tolist()
        self._labels, self._ids = [self._labels[row] for row in fits], [self._ids[row] for row in fits]
        self._times, self._line_numbers = [self._times[row] for row in fits], [self._line_numbers[row] for row in fits]
        self._rows = []

    def _is_header(self, cells: Sequence[str]) -> bool:
        return all(cells[position].strip() == self._layout.names[position] for position in self._layout.features)

    def _label(self, cell: str) -> str:
        label = self._layout.labels(cell)
        if not label:
            raise ValueError(LABEL_MISSING)
        if self._layout.declared_labels is not None and label not in self._layout.declared_labels:
            raise ValueError(f"the label {clip(label, 40)!r} is not among the declared values")
        return label

    def _numbers(self, cells: Sequence[str], raw: bytes) -> list[float]:
        if self._pick is not None and raw.isascii() and b"_" not in raw:
            # Then float() reads what read_number() reads, apart from missing values.
            try:
                numbers = [float(cell) for cell in self._pick(cells)]
            except ValueError:
                pass
            else:
                if not math.isnan(sum(numbers)):
                    return numbers
        return [self._number(cells, position) for position in self._layout.features]

    def _number(self, cells: Sequence[str], position: int) -> float:
        number = self._read(cells[position], position)
        if self._refuse_missing and math.isnan(number):
            raise ValueError(feature_missing(self._layout.names[position]))
        return number

    def _read(self, cell: str, position: int) -> float:
        codes = self._layout.codes.get(position)
        if codes is not None:
            code = codes.get(cell.strip())
            if code is None:
                raise ValueError(
                    f"the feature `{self._layout.names[position]}` is {clip(cell.strip(), 40)!r}, "
                    "which is not among its declared values"
                )
            return code
        try:
            return self._layout.form_of(position).read(cell)
        except ValueError:
            raise _TextFault(
                f"the feature `{self._layout.names[position]}` is {clip(cell.strip(), 40)!r}, which is not a number"
            ) from None

    def _note_text(self, line_number: int, cells: Sequence[str]) -> None:
        self.rows_with_text += 1
        if self.first_text is not None:
            return
        text_of_column = {}
        for position in self._layout.features:
            try:
                self._read(cells[position], position)
            except _TextFault:
                text_of_column[self._layout.names[position]] = cells[position].strip()
            except ValueError:
                continue
        self.first_text = TextInFeatures(line_number, text_of_column)


class _TextFault(ValueError):
    """Text in a feature column that should hold numbers."""


def wrong_count(came: int, expected: int) -> str:
    """The reason to refuse a row that has a different number of cells than there are columns."""
    return f"the row has {came} cell{'' if came == 1 else 's'} and the file {expected} columns"
