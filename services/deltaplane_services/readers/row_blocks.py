"""What readers yield and what they are told: blocks of rows, refused rows, options.

A reader never loses a row without a word: each row of the file is either in a block's arrays or among its refused rows,
with the place it has in the file. Faults of single rows are values; faults of the file are :class:`ReaderError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.errors import DeltaplaneError

__all__ = ["FORMATS", "TIME_UNITS", "ReaderError", "ReaderOptions", "RefusedRow", "RowBlock", "by_line", "merged"]

FORMATS = ("csv", "parquet", "libsvm", "arff")
TIME_UNITS = ("s", "ms", "us", "ns", "days")
"""What a time that is a number may count: since 1970, or days of a spreadsheet."""


class ReaderError(DeltaplaneError):
    """A file cannot be read as it is, or not with these options; rows yielded before it stand."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is not in the block's arrays: where it stands, why it was refused, and how it begins (clipped)."""

    line_number: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """Consecutive rows of a file by columns, and the rows between them that were refused, in file order.

    ``features`` is float64[n, d]; ``labels`` and, where an id column was named, ``ids`` have n strings;
    ``event_times_milliseconds`` is int64[n] since the epoch, UTC, where a time column was named. ``line_numbers`` is
    int64[n]: lines of the file, its first being 1 (a record over several lines has the first of them); in Parquet rows,
    the first being 1. ``refused`` rows carry the same numbers. n may be zero.
    """

    features: Floats
    labels: list[str]
    ids: list[str] | None
    event_times_milliseconds: Int64s | None
    line_numbers: Int64s
    refused: tuple[RefusedRow, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, kept: Flags) -> RowBlock:
        """The rows where ``kept`` (bool[n]) holds, copied; all refused rows stay."""
        if kept.all():
            return self
        rows = np.flatnonzero(kept).tolist()
        times = self.event_times_milliseconds
        return RowBlock(
            self.features[kept],
            [self.labels[row] for row in rows],
            None if self.ids is None else [self.ids[row] for row in rows],
            None if times is None else times[kept],
            self.line_numbers[kept],
            self.refused,
        )

    def cut(self, start: int, stop: int, refused: tuple[RefusedRow, ...] = ()) -> RowBlock:
        """Rows ``start`` to ``stop`` as views of this block's arrays, with the refused rows that go with them."""
        times = self.event_times_milliseconds
        return RowBlock(
            self.features[start:stop],
            self.labels[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if times is None else times[start:stop],
            self.line_numbers[start:stop],
            refused,
        )


def merged(block: RowBlock, other: RowBlock) -> RowBlock:
    """The rows of two blocks of the same columns in one, by line number."""
    if not len(other):
        return replace(block, refused=by_line((*block.refused, *other.refused)))
    line_numbers = np.concatenate((block.line_numbers, other.line_numbers))
    order = np.argsort(line_numbers, kind="stable")
    rows = order.tolist()
    labels = block.labels + other.labels
    ids = None if block.ids is None or other.ids is None else block.ids + other.ids
    times = None
    if block.event_times_milliseconds is not None and other.event_times_milliseconds is not None:
        times = np.concatenate((block.event_times_milliseconds, other.event_times_milliseconds))[order]
    return RowBlock(
        np.concatenate((block.features, other.features))[order],
        [labels[row] for row in rows],
        None if ids is None else [ids[row] for row in rows],
        times,
        line_numbers[order],
        by_line((*block.refused, *other.refused)),
    )


def by_line(refused: tuple[RefusedRow, ...]) -> tuple[RefusedRow, ...]:
    """Refused rows in the order of the file."""
    return tuple(sorted(refused, key=lambda row: row.line_number))


@dataclass(frozen=True)
class ReaderOptions:
    """Which columns of a file are what, and how to read it.

    ``label``, ``id`` and ``time`` name columns; ``features`` names the features in the order wanted, None being all
    other columns in file order but the ``ignored``. ``format`` is one of :data:`FORMATS`, None to tell it from the
    name or the first bytes. ``missing`` says what happens to a row with an empty, ``?``, ``NA`` or NaN feature:
    refused by name, or kept as NaN. ``number_of_features`` is for LIBSVM, None being the highest index of the first
    block. ``delimiter`` is for CSV, None to tell it from the first line. Without ``header`` a CSV file's columns are
    named by position: ``1``... ``nominal`` features of ARFF become a feature for each value, or its place in the
    declaration. ``time_unit`` is one of :data:`TIME_UNITS`, ``time_format`` the form of times that are
    text, both None to tell them from the first rows; ``time_zone`` the zone of local times, None for UTC.
    """

    label: str | None = None
    id: str | None = None
    time: str | None = None
    features: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()
    format: str | None = None
    missing: Literal["refuse", "keep"] = "refuse"
    number_of_features: int | None = None
    delimiter: str | None = None
    header: bool = True
    nominal: Literal["one-hot", "place"] = "one-hot"
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        self._check_times()
        if self.nominal not in ("one-hot", "place"):
            raise ReaderError(f"Nominal features are `one-hot` or numbers by `place`, not `{self.nominal}`.")
        if self.missing not in ("refuse", "keep"):
            raise ReaderError(f"Missing features are treated by `refuse` or `keep`, not by `{self.missing}`.")
        if self.format is not None and self.format not in FORMATS:
            raise ReaderError(f"There is no reader for the format `{self.format}`; choose one of {', '.join(FORMATS)}.")
        if self.number_of_features is not None and self.number_of_features < 1:
            raise ReaderError(f"The number of features is {self.number_of_features}; it must be at least 1.")
        delimiter = self.delimiter
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
            raise ReaderError(
                f"The delimiter {delimiter!r} cannot separate cells; give one ASCII character other than a quote "
                "or a line end."
            )

    def with_ignored(self, names: Sequence[str]) -> ReaderOptions:
        """The same with more columns that are no features."""
        return replace(self, ignored=(*self.ignored, *names)) if names else self

    def _check_times(self) -> None:
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise ReaderError(f"There is no time unit `{self.time_unit}`; choose one of {', '.join(TIME_UNITS)}.")
        if self.time_unit is not None and self.time_format is not None:
            raise ReaderError("Times are numbers that count a unit, or have a format; give `--time-unit` or the other.")
        asked = ("unit", self.time_unit), ("format", self.time_format), ("zone", self.time_zone)
        for what, value in asked if self.time is None else ():
            if value is not None:
                raise ReaderError(f"A time {what} is declared and no column of times; name it with `--time`.")
