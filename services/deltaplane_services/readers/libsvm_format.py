"""LIBSVM (svmlight): lines of ``label index:value ...``; a feature that is not written is 0.

Blocks are read into sparse rows (:mod:`.libsvm_rows`) and made dense here. A first pass over the file finds the highest
index; of a pipe, its first block does. Features are named ``f1``, ``f2``, ... by their index, and ``f0`` is the first
if the file has an index 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from deltaplane import limits
from deltaplane_services.readers.bounds import LEAF_ROWS, LINE_BYTES, rows_of_a_block
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import excerpt
from deltaplane_services.readers.layout import choose_features
from deltaplane_services.readers.libsvm_rows import (
    SparseRows,
    extreme_indices,
    read_lines,
    read_regular_lines,
)
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock
from deltaplane_services.readers.row_blocks import UNLABELLED, ReaderError, ReaderOptions, RefusedRow, RowBlock
from deltaplane_services.readers.screen import TextOfLines, reasons_to_refuse, without_refused

__all__ = ["LABEL", "open_libsvm"]

_INDEX = re.compile(r"f[0-9]{1,9}")
LABEL = "label"
"""The name of the label, for callers that name a label whatever the format."""


def open_libsvm(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if no row of the first block can be read."""
    for role, name in (("label", options.label), ("id", options.id), ("time", options.time)):
        if name not in (None, LABEL if role == "label" else None):
            raise ReaderError(
                f"{source.name} is a LIBSVM file: its rows are a `{LABEL}` and numbered features, without a column "
                f"`{name}` for the {role}. Leave `--{role}` out."
            )
    if options.fill_in:
        raise ReaderError(
            f"{source.name} is a LIBSVM file, where what is left out is 0 and no column has a rule: `--missing median`"
            " is for tables; fill the grid's offset in with `--missing offset`, or leave the option out."
        )
    if options.encoder is not None:
        raise ReaderError(
            f"{source.name} is a LIBSVM file, where what is left out is 0 and no column has a rule; the definition has"
            " [columns]: take them out, or write the rows as a table with these columns."
        )
    cutter = LineCutter(source)
    beginning: list[SparseRows] = []
    while not beginning and (piece := cutter.next_piece()) is not None:
        beginning = list(_sparse_rows(piece))
    if not beginning:
        raise ReaderError(f"{source.name} is empty; lines of `label index:value ...` were expected.")
    found, origin = _indices_of(source, options, beginning)
    base = found.base if options.libsvm_base == "auto" else int(options.libsvm_base)
    if options.libsvm_base == "auto" and base == 0:
        source.notes.append("indices count from 0, as the file has one; say `--libsvm-base 0` to have it so always")
    highest = base + options.number_of_features - 1 if options.number_of_features else found.highest
    if highest is None:
        raise _no_feature(beginning, source.name)
    if options.features is None and highest - base + 1 > limits.FEATURES:
        raise ReaderError(
            f"{highest - base + 1} features were asked for of {source.name}, and a stream may have {limits.FEATURES}."
        )
    names = _Names(base, highest, options.features)
    dense = _DenseRows(names, choose_features(names.names, (), options, source.name), options, origin)
    return dense.feature_names, _blocks(beginning, cutter, dense)


def _indices_of(source: ByteSource, options: ReaderOptions, beginning: list[SparseRows]) -> tuple[_Indices, str]:
    """(the indices that a file has, how they are known in words). Raises ReaderError if they are too many."""
    found = _Indices()
    for rows in beginning:
        found.add(rows)
    again = None if options.features is not None else source.again()
    if again is not None and _may_have_others(again, options, found) and (again := source.again()):
        found = _Indices()
        for rows in _rows_of(again, options):
            found.add(rows)
    if options.number_of_features:
        return found, "asked for"
    if options.features is None:
        found.refuse_what_is_too_wide(source.name)
    return found, "of the first rows" if again is None else "of the file"


def _may_have_others(source: ByteSource, options: ReaderOptions, found: _Indices) -> bool:
    """Whether a quick look at a whole file finds what may be an index beyond those of its beginning."""
    with suppress(ReaderError):
        source.decode(options.encoding)
        cutter = LineCutter(source)
        while (piece := cutter.next_piece()) is not None:
            has_zero, highest = extreme_indices(piece.data if isinstance(piece, TextBlock) else b"")
            if (has_zero and found.base) or highest > (found.highest or 0):
                return True
    return False


def _rows_of(source: ByteSource, options: ReaderOptions) -> Iterator[SparseRows]:
    """All rows of a file, to find their indices; if the file is damaged, the rows before that."""
    with suppress(ReaderError):
        source.decode(options.encoding)
        cutter = LineCutter(source)
        while (piece := cutter.next_piece()) is not None:
            yield from _sparse_rows(piece)


class _Indices:
    """The lowest and the highest index of a file."""

    def __init__(self) -> None:
        self.base = 1
        self.highest: int | None = None
        self._rows = self._too_wide = self._highest_of_all = 0

    def add(self, rows: SparseRows) -> None:
        """Take note of the indices of some rows."""
        if not len(rows.indices):
            self._rows += len(rows.labels)
            return
        if not rows.indices.min():
            self.base = 0
        allowed = rows.indices[rows.indices <= limits.FEATURES]
        if len(allowed):
            self.highest = max(self.highest or 0, int(allowed.max()))
        above = rows.indices > limits.FEATURES
        row = np.repeat(np.arange(len(rows.labels)), np.diff(rows.starts))
        self._rows += len(rows.labels)
        self._too_wide += len(np.unique(row[above]))
        self._highest_of_all = max(self._highest_of_all, int(rows.indices.max()))

    def refuse_what_is_too_wide(self, where: str) -> None:
        """Raise ReaderError if most rows, and not just a few, have more features than a stream may have."""
        if 2 * self._too_wide > self._rows:
            raise ReaderError(
                f"{where} has features up to `f{self._highest_of_all}` in {self._too_wide} of {self._rows} rows, and a "
                f"stream may have {limits.FEATURES}. Name those to use with `--features`, once for each: "
                "`--features f1 --features f2`."
            )


def _no_feature(beginning: list[SparseRows], where: str) -> ReaderError:
    """The error that says why no row at the beginning of a file has a feature."""
    refused = [row for rows in beginning for row in rows.refused]
    if refused:
        return ReaderError(
            f"No row at the beginning of {where} is a LIBSVM row, `label index:value ...` with indices from 1: in line "
            f"{refused[0].line_number}, {refused[0].reason}. If it is another kind of file, name it with `--format`."
        )
    return ReaderError(
        f"The first {sum(len(rows.labels) for rows in beginning)} rows of {where} have no features of index 1 to "
        f"{limits.FEATURES}, so their number cannot be told."
    )


class _Names:
    """The names of the indices that are read: all from ``base`` to ``highest``, or only ``wanted`` ones."""

    def __init__(self, base: int, highest: int, wanted: tuple[str, ...] | None) -> None:
        self.base = base
        self.highest = highest
        self.names = [f"f{index}" for index in range(base, max(highest, base) + 1)]
        if wanted is not None:
            # Features that were named may come late or never, and may lie far apart.
            given = {int(name[1:]) for name in wanted if _INDEX.fullmatch(name)}
            self.names += [f"f{index}" for index in sorted(given) if index > highest]
        self.indices = np.array([int(name[1:]) for name in self.names], dtype=np.int64)


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


class _DenseRows:
    """Makes dense blocks of sparse rows, with the wanted features as columns."""

    def __init__(self, names: _Names, wanted: tuple[int, ...], options: ReaderOptions, origin: str) -> None:
        self._base, self._highest = names.base, names.highest
        self._any_index = options.features is not None
        self._number_of_features = len(names.names)
        self._refuse_nan = options.missing == "refuse"
        self._labels = options.label_spelling if options.labelled else lambda _: UNLABELLED
        self._form = options.number_form
        self._origin = origin
        self.feature_names = tuple(names.names[position] for position in wanted)
        # The wanted indices in rising order, and the column of each.
        self._sorted = np.sort(names.indices[list(wanted)])
        self._column = np.argsort(names.indices[list(wanted)])

    def blocks(self, rows: SparseRows) -> Iterator[RowBlock]:
        """The rows in blocks of bounded size, with the refused ones."""
        step = rows_of_a_block(self._number_of_features)
        for start in range(0, max(1, len(rows.labels)), step):
            yield self._block(rows, start, min(start + step, len(rows.labels)))

    def _block(self, rows: SparseRows, start: int, stop: int) -> RowBlock:
        first, last = rows.starts[start], rows.starts[stop]
        row = np.repeat(np.arange(stop - start), np.diff(rows.starts[start : stop + 1]))
        indices, values = rows.indices[first:last], self._form.without_missing(rows.values[first:last])
        features = np.zeros((stop - start, len(self._sorted)))
        faults: dict[int, str] = {}
        below = indices < self._base
        above = indices > self._highest
        if below.any() or (above.any() and not self._any_index):
            for row_above, index in zip(row[above].tolist(), indices[above].tolist(), strict=True):
                if not self._any_index:
                    faults.setdefault(
                        row_above,
                        f"the index {index} is above the {self._highest - self._base + 1} features {self._origin}",
                    )
            for row_below in row[below].tolist():
                faults.setdefault(row_below, "it has the index 0, and indices start at 1")
        place = np.minimum(np.searchsorted(self._sorted, indices), len(self._sorted) - 1)
        wanted = self._sorted[place] == indices
        features[row[wanted], self._column[place[wanted]]] = values[wanted]
        spelled = {label: self._labels(label) for label in set(rows.labels[start:stop])}
        # Only lines that were read one by one were refused, and they are few enough for one block.
        assert not rows.refused or stop == len(rows.labels), "refused rows go with the block they stand in"
        block = RowBlock(
            features,
            [spelled[label] for label in rows.labels[start:stop]],
            None,
            None,
            rows.line_numbers[start:stop],
            rows.refused,
        )
        reasons = reasons_to_refuse(block, self.feature_names, faults, refuse_nan=self._refuse_nan)
        return without_refused(block, reasons, TextOfLines(rows.text, rows.first_line_number))
