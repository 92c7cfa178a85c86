"""Streams to read from and whole files read into one value, for the tests of the readers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from deltaplane_services.readers import ReaderOptions, RefusedRow, RowBlock, bounds, open_rows


class Trickle(io.RawIOBase):
    """A pipe: it cannot be wound back, and gives at most ``piece`` bytes at a time."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data = io.BytesIO(data)
        self._piece = piece

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._data.read(min(len(buffer), self._piece))
        buffer[: len(data)] = data
        return len(data)


def trickle(data: bytes, piece: int) -> BinaryIO:
    return cast("BinaryIO", Trickle(data, piece))


class Rows:
    """All blocks of a file joined: what a test compares."""

    def __init__(self, blocks: Iterable[RowBlock]) -> None:
        parts = list(blocks)
        self.features = np.concatenate([part.features for part in parts])
        self.labels = [label for part in parts for label in part.labels]
        self.ids = None if parts[0].ids is None else [row_id for part in parts for row_id in part.ids or ()]
        times = [part.event_times_milliseconds for part in parts if part.event_times_milliseconds is not None]
        self.times = [int(time) for part in times for time in part]
        self.line_numbers = [int(number) for part in parts for number in part.line_numbers]
        self.refused: list[RefusedRow] = [row for part in parts for row in part.refused]

    @property
    def reasons(self) -> dict[int, str]:
        return {row.line_number: row.reason for row in self.refused}


def read(data: bytes, options: ReaderOptions, block_bytes: int = bounds.BLOCK_BYTES) -> Rows:
    """The rows of a file with these bytes, read in blocks of about ``block_bytes``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "BLOCK_BYTES", block_bytes)
        with open_rows(io.BytesIO(data), options) as reader:
            return Rows(reader)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two float64 arrays are equal bit for bit, all NaN being one."""
    return left.shape == right.shape and np.array_equal(
        np.where(np.isnan(left), np.nan, left).view(np.int64), np.where(np.isnan(right), np.nan, right).view(np.int64)
    )
