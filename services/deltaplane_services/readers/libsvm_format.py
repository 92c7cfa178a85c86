"""LIBSVM (svmlight): lines of ``label index:value ...``, features that are not written being zero.

Blocks are read into sparse rows (:mod:`.libsvm_rows`) and laid out densely here, because the number of features may
only be known after the first block. Features are named ``f1``, ``f2``, ... by their index.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deltaplane import limits
from deltaplane_services.readers.bounds import LEAF_ROWS, LINE_BYTES, rows_of_a_block
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import excerpt
from deltaplane_services.readers.layout import choose_features
from deltaplane_services.readers.libsvm_rows import SparseRows, read_lines, read_regular_lines
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RefusedRow, RowBlock
from deltaplane_services.readers.screen import TextOfLines, reasons_to_refuse, without_refused

__all__ = ["LABEL", "open_libsvm"]

LABEL = "label"
"""The name that the label of a LIBSVM row answers to, so that one can be given where all formats are treated alike."""


def open_libsvm(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """Names of the features, and the row blocks; raises ReaderError where no row of the first block can be read."""
    for role, name in (("label", options.label), ("id", options.id), ("time", options.time)):
        if name not in (None, LABEL if role == "label" else None):
            raise ReaderError(
                f"{source.name} is a LIBSVM file: its rows are a `{LABEL}` and numbered features, without a column "
                f"`{name}` for the {role}. Leave `--{role}` out."
            )
    cutter = LineCutter(source)
    beginning: list[SparseRows] = []
    while not beginning and (piece := cutter.next_piece()) is not None:
        beginning = list(_sparse_rows(piece))
    if not beginning:
        raise ReaderError(f"{source.name} is empty; lines of `label index:value ...` were expected.")
    number_of_features = options.number_of_features or _highest_index(beginning, source.name)
    if number_of_features > limits.FEATURES:
        raise ReaderError(
            f"{number_of_features} features were asked for of {source.name}, and a stream may have {limits.FEATURES}."
        )
    names = [f"f{index}" for index in range(1, number_of_features + 1)]
    dense = _DenseRows(names, choose_features(names, (), options, source.name), options)
    return dense.feature_names, _blocks(beginning, cutter, dense)


def _blocks(beginning: list[SparseRows], cutter: LineCutter, dense: _DenseRows) -> Iterator[RowBlock]:
    while beginning:
        yield from dense.blocks(beginning.pop(0))
    while (piece := cutter.next_piece()) is not None:
        for rows in _sparse_rows(piece):
            yield from dense.blocks(rows)


def _sparse_rows(piece: TextBlock | OverlongLine) -> Iterator[SparseRows]:
    """The rows of a piece, halved until the halves are regular or short."""
    if isinstance(piece, OverlongLine):
        reason = f"the line is longer than {LINE_BYTES} bytes"
        yield SparseRows.of_refused(RefusedRow(piece.line_number, reason, excerpt(piece.beginning)))
        return
    data = piece.data
    rows = read_regular_lines(data, piece.first_line_number)
    middle = data.find(b"\n", len(data) // 2) + 1
    if rows is None and data.count(b"\n") > LEAF_ROWS and middle not in (0, len(data)):
        middle_line_number = piece.first_line_number + data.count(b"\n", 0, middle)
        yield from _sparse_rows(TextBlock(piece.first_line_number, data[:middle], final=True))
        yield from _sparse_rows(TextBlock(middle_line_number, data[middle:], final=True))
        return
    rows = rows or read_lines(data, piece.first_line_number)
    if rows.labels or rows.refused:
        yield rows


def _highest_index(beginning: list[SparseRows], where: str) -> int:
    """The highest index of the first block that a stream may have; raises ReaderError where no row has one."""
    indices = np.concatenate([rows.indices for rows in beginning])
    allowed = indices[indices <= limits.FEATURES]
    if len(allowed):
        return int(allowed.max())
    refused = [row for rows in beginning for row in rows.refused]
    if refused:
        raise ReaderError(
            f"No row at the beginning of {where} is a LIBSVM row, `label index:value ...` with indices from 1: in line "
            f"{refused[0].line_number}, {refused[0].reason}. If it is another kind of file, name it with `--format`."
        )
    raise ReaderError(
        f"The first {sum(len(rows.labels) for rows in beginning)} rows of {where} have no features of index 1 to "
        f"{limits.FEATURES}, so their number cannot be told."
    )


class _DenseRows:
    """Lays sparse rows out as blocks, the wanted features as columns."""

    def __init__(self, names: list[str], wanted: tuple[int, ...], options: ReaderOptions) -> None:
        self._number_of_features = len(names)
        self._wanted = None if wanted == tuple(range(len(names))) else list(wanted)
        self._refuse_nan = options.missing == "refuse"
        self._origin = "of the first rows" if options.number_of_features is None else "asked for"
        self.feature_names = tuple(names[position] for position in wanted)

    def blocks(self, rows: SparseRows) -> Iterator[RowBlock]:
        """The rows in blocks of bounded size, refused ones among them."""
        step = rows_of_a_block(self._number_of_features)
        for start in range(0, max(1, len(rows.labels)), step):
            yield self._block(rows, start, min(start + step, len(rows.labels)))

    def _block(self, rows: SparseRows, start: int, stop: int) -> RowBlock:
        first, last = rows.starts[start], rows.starts[stop]
        row = np.repeat(np.arange(stop - start), np.diff(rows.starts[start : stop + 1]))
        indices, values = rows.indices[first:last], rows.values[first:last]
        features = np.zeros((stop - start, self._number_of_features))
        faults: dict[int, str] = {}
        within = indices <= self._number_of_features
        if not within.all():
            for row_above, index in zip(row[~within].tolist(), indices[~within].tolist(), strict=True):
                faults.setdefault(
                    row_above, f"the index {index} is above the {self._number_of_features} features {self._origin}"
                )
            row, indices, values = row[within], indices[within], values[within]
        features[row, indices - 1] = values
        # Only lines that were read one by one were refused, and they are few enough for one block.
        assert not rows.refused or stop == len(rows.labels), "refused rows go with the block they stand in"
        block = RowBlock(
            features if self._wanted is None else np.ascontiguousarray(features[:, self._wanted]),
            rows.labels[start:stop],
            None,
            None,
            rows.line_numbers[start:stop],
            rows.refused,
        )
        reasons = reasons_to_refuse(block, self.feature_names, faults, refuse_nan=self._refuse_nan)
        return without_refused(block, reasons, TextOfLines(rows.text, rows.first_line_number))
