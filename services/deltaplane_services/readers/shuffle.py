"""The rows of a file in a random order, every order equally likely, in bounded memory.

Each row is put on one of 256 heaps at random, and then each heap is mixed by itself. The heaps are in memory up to
:data:`SHUFFLE_BYTES`, and beyond that in a temporary file, so that memory holds no more than that and one heap. The
order depends on the seed and the rows alone, not on the bound or on the blocks in which rows come.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO

import numpy as np

from deltaplane.arrays import Int64s, Positions
from deltaplane_services.readers.bounds import rows_of_a_block
from deltaplane_services.readers.row_blocks import ReaderError, RowBlock

__all__ = ["HEAPS", "SHUFFLE_BYTES", "shuffled"]

SHUFFLE_BYTES = 2**28
"""The most bytes of rows that are held in memory; one heap of a file of 64 GiB takes so much."""

HEAPS = 256
_TEXT_BYTES = 100
"""Bytes that the label and the id of a row take in memory beside their characters, approximately."""


def shuffled(blocks: Iterable[RowBlock], seed: int, most_bytes: int = SHUFFLE_BYTES) -> Iterator[RowBlock]:
    """The rows in blocks, in a random order by ``seed``; refused rows come first, in blocks without rows.

    All rows are read before the first is yielded. If the file is damaged, the rows before that come first, and then the
    ReaderError is raised.
    """
    random = np.random.default_rng(seed)
    fault: ReaderError | None = None
    with ExitStack() as stack:
        heaps = _Heaps(stack, most_bytes)
        try:
            for block in blocks:
                heaps.deal(block, np.floor(random.random(len(block)) * HEAPS).astype(np.intp))
                if block.refused:
                    yield block.cut(0, 0, block.refused)
        except ReaderError as damage:
            fault = damage
        for number in range(HEAPS):
            yield from heaps.mixed(number, seed)
    if fault is not None:
        raise fault


class _Heaps:
    """The rows of each heap, in the order in which they came."""

    def __init__(self, stack: ExitStack, most_bytes: int) -> None:
        self._stack = stack
        self._most_bytes = most_bytes
        self._held: list[list[RowBlock]] = [[] for _ in range(HEAPS)]
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._places: list[list[int]] = [[] for _ in range(HEAPS)]
        self._labels: dict[str, int] = {}
        self._has_ids = False

    def deal(self, block: RowBlock, heap_of: Positions) -> None:
        """Put the rows of a block on their heaps; ``heap_of`` intp[n] has the number of each row's heap."""
        self._has_ids = block.ids is not None
        order = np.argsort(heap_of, kind="stable")
        ends = np.searchsorted(heap_of[order], np.arange(HEAPS + 1))
        for number in np.unique(heap_of).tolist():
            self._held[number].append(_rows(block, order[ends[number] : ends[number + 1]]))
        texts = sum(map(len, block.labels)) + sum(map(len, block.ids or ())) + _TEXT_BYTES * len(block)
        self._held_bytes += block.features.nbytes + block.line_numbers.nbytes + texts
        if self._held_bytes > self._most_bytes:
            self._put_down()

    def _put_down(self) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is
        for number, held in enumerate(self._held):
            if held:
                self._places[number].append(self._file.tell())
                self._write(self._file, _joined(held))
        self._held = [[] for _ in range(HEAPS)]
        self._held_bytes = 0

    def _write(self, file: IO[bytes], block: RowBlock) -> None:
        codes = [self._labels.setdefault(label, len(self._labels)) for label in block.labels]
        ids = [row_id.encode() for row_id in block.ids or ()]
        text = b"".join(ids)
        for part in (
            np.array([*block.features.shape, len(ids), len(text)], dtype=np.int64),
            np.ascontiguousarray(block.features),
            np.array(codes, dtype=np.int64),
            block.line_numbers.astype(np.int64, copy=False),
            np.array(list(map(len, ids)), dtype=np.int64),
        ):
            file.write(part.tobytes())
        file.write(text)

    def _read(self, file: IO[bytes], place: int, names: list[str]) -> RowBlock:
        file.seek(place)
        rows, width, number_of_ids, text_bytes = _numbers(file, 4).tolist()
        features = np.frombuffer(file.read(8 * rows * width)).reshape(rows, width)
        codes, lines, lengths = _numbers(file, rows), _numbers(file, rows), _numbers(file, number_of_ids)
        data = file.read(text_bytes)
        ends = np.cumsum(lengths).tolist()
        # Either all rows have ids, or none.
        ids = [data[end - length : end].decode() for end, length in zip(ends, lengths.tolist(), strict=True)]
        return RowBlock(features, [names[code] for code in codes.tolist()], ids if self._has_ids else None, None, lines)

    def mixed(self, number: int, seed: int) -> Iterator[RowBlock]:
        """The rows of a heap in a random order, in blocks of bounded size; the heap is empty afterwards."""
        held, self._held[number] = self._held[number], []
        parts = []
        if self._file is not None:
            names = list(self._labels)
            parts = [self._read(self._file, place, names) for place in self._places[number]]
        if not parts + held:
            return
        whole = _joined(parts + held)
        order = np.random.default_rng((seed, number)).permutation(len(whole))
        most = rows_of_a_block(whole.features.shape[1])
        for start in range(0, len(order), most):
            yield _rows(whole, order[start : start + most])


def _numbers(file: IO[bytes], count: int) -> Int64s:
    return np.frombuffer(file.read(8 * count), dtype=np.int64)


def _rows(block: RowBlock, rows: Positions) -> RowBlock:
    places = rows.tolist()
    return RowBlock(
        block.features[rows],
        [block.labels[row] for row in places],
        None if block.ids is None else [block.ids[row] for row in places],
        None,
        block.line_numbers[rows],
    )


def _joined(parts: list[RowBlock]) -> RowBlock:
    ids = [row_id for part in parts for row_id in part.ids or ()]
    return RowBlock(
        np.concatenate([part.features for part in parts]),
        [label for part in parts for label in part.labels],
        None if parts[0].ids is None else ids,
        None,
        np.concatenate([part.line_numbers for part in parts]),
    )
