"""The screening of a block that was read by columns: rows that must be refused are taken out.

The reasons and their order are those of the row-by-row path (:mod:`.row_by_row_path`): label, id, time, then the
features in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int64s
from deltaplane.stream.sample import usable_each
from deltaplane_services.readers.cells import excerpt
from deltaplane_services.readers.row_blocks import RefusedRow, RowBlock, by_line

__all__ = [
    "ID_MISSING",
    "LABEL_MISSING",
    "TextOfLines",
    "feature_missing",
    "id_unusable",
    "reasons_to_refuse",
    "without_refused",
]

LABEL_MISSING = "the label is missing"
ID_MISSING = "the id is empty"


def id_unusable(row_id: str) -> str:
    """The reason to refuse a row whose id no batch can carry."""
    if not row_id:
        return ID_MISSING
    return f"the id takes {len(row_id.encode()):,} bytes, expected at most {limits.ID_BYTES}; shorten it"


def feature_missing(name: str) -> str:
    """The reason to refuse a row whose feature ``name`` is missing."""
    return f"the feature `{name}` is missing"


def reasons_to_refuse(
    block: RowBlock, feature_names: Sequence[str], faults: Mapping[int, str], *, refuse_nan: bool
) -> dict[int, str]:
    """Row (from 0) to the reason to refuse it.

    A row is refused if its label is empty, its id is empty or too long, it is in ``faults``, or, with ``refuse_nan``,
    a feature is NaN.
    """
    reasons: dict[int, str] = {}
    if "" in block.labels:
        reasons.update((row, LABEL_MISSING) for row, label in enumerate(block.labels) if not label)
    if block.ids is not None:
        for row in np.flatnonzero(~usable_each(block.ids, limits.BATCH_ID_BYTES)).tolist():
            reasons.setdefault(row, id_unusable(block.ids[row]))
    for row, reason in faults.items():
        reasons.setdefault(row, reason)
    # The least of all values is NaN if any is, and takes a tenth of the time.
    if refuse_nan and block.features.size and np.isnan(block.features.min()):
        missing = np.isnan(block.features)
        rows = np.flatnonzero(missing.any(axis=1))
        texts = [feature_missing(name) for name in feature_names]
        for row, feature in zip(rows.tolist(), missing[rows].argmax(axis=1).tolist(), strict=True):
            reasons.setdefault(row, texts[feature])
    return reasons


def without_refused(block: RowBlock, reasons: Mapping[int, str], text_of: Callable[[int], str]) -> RowBlock:
    """The block with the rows that have a reason moved to its refused rows, with the text of their lines."""
    if not reasons:
        return block
    kept: Flags = np.ones(len(block), dtype=np.bool_)
    kept[list(reasons)] = False
    refused = [
        RefusedRow(line_number, reasons[row], text_of(line_number))
        for row, line_number in ((row, int(block.line_numbers[row])) for row in sorted(reasons))
    ]
    return replace(block.where(kept), refused=by_line((*block.refused, *refused)))


class TextOfLines:
    """The lines of a block by number; their ends are searched for when the first one is asked for."""

    def __init__(self, data: bytes, first_line_number: int) -> None:
        self._data = data
        self._first_line_number = first_line_number
        self._starts: Int64s | None = None

    def __call__(self, line_number: int) -> str:
        """The excerpt of one line."""
        return excerpt(self.line(line_number))

    def line(self, line_number: int) -> bytes:
        """One line with its end."""
        if self._starts is None:
            ends = np.flatnonzero(np.frombuffer(self._data, dtype=np.uint8) == ord("\n"))
            self._starts = np.concatenate(([0], ends + 1, [len(self._data)]))
        line = line_number - self._first_line_number
        return self._data[self._starts[line] : self._starts[line + 1]]
