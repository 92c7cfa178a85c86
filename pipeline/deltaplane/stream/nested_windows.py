"""The windows of a stream, which are nested: one buffer of rows serves all of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.table_values import UNIT_MILLISECONDS, amount, span_text

__all__ = [
    "AUTOMATIC_LONGEST",
    "AUTOMATIC_ROWS",
    "AUTOMATIC_SHARE",
    "FEWEST_UNITS",
    "ROWS_OF_A_UNIT",
    "NestedWindows",
    "Window",
    "WindowKind",
]

WindowKind = Literal["count", "time", "all"]

AUTOMATIC_ROWS = 100
"""The rows of the shortest window of the automatic mode; each next window is four times as long."""

AUTOMATIC_LONGEST = 102_400
"""The rows of the longest window of the automatic mode if none is given: six windows, and a bounded memory."""

AUTOMATIC_SHARE = 25
"""The least rows of a partition in the shortest automatic window: with very few, statistics are mostly noise."""


ROWS_OF_A_UNIT = 8
"""A window of a count of rows has one unit of a mixed map for this number of rows."""

FEWEST_UNITS = 16
"""With fewer units, a curved plane is no better than a flat one, and costs about as much."""


@dataclass(frozen=True)
class Window:
    """One window of a stream: the last ``length`` rows (count), milliseconds of event time (time), or everything."""

    kind: WindowKind
    length: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("count", "time", "all"):
            raise DefinitionError(f"window: kind must be count, time or all, got {self.kind!r}")
        if self.kind == "all" and self.length:
            raise DefinitionError(f"window: a window over everything has no length, got {self.length}")
        if self.kind != "all" and not 0 < self.length < limits.WINDOW_LENGTH:
            raise DefinitionError(
                f"window: length must be above 0 and below {limits.WINDOW_LENGTH}, got {self.length};"
                " 'all' is a window over everything"
            )

    @classmethod
    def parse(cls, text: str) -> Window:
        """The window of a text: ``20000`` (rows), ``7d`` (a span of event time; or ms, s, m, h, w), or ``all``.

        Raises :class:`DefinitionError` for any other text.
        """
        if text.strip() == "all":
            return cls("all")
        number, unit = amount(text, "window", "a number of rows (20000), a span (7d, 12h, 90s) or 'all'")
        return cls("time", number * UNIT_MILLISECONDS[unit]) if unit else cls("count", number)

    def __str__(self) -> str:
        """The text that :meth:`parse` reads as this window."""
        if self.kind == "time":
            return span_text(self.length)
        return str(self.length) if self.kind == "count" else self.kind

    def units(self, most: int) -> int:
        """The number of units of a mixed map that the window has statistics of, at most ``most``.

        A plane with as many weights as rows fits any labels. So a window of a count of rows has one unit per
        ``ROWS_OF_A_UNIT`` rows, an even number, and a short window has none. Other windows have all units.
        """
        if not self.counted:
            return most
        units = min(most, self.length // ROWS_OF_A_UNIT // 2 * 2)
        return units if units >= min(FEWEST_UNITS, most) else 0

    @property
    def counted(self) -> bool:
        """Whether rows leave the window when others come."""
        return self.kind == "count"

    @property
    def timed(self) -> bool:
        """Whether rows leave the window when event time passes."""
        return self.kind == "time"

    @property
    def endless(self) -> bool:
        """Whether no row ever leaves the window."""
        return self.kind == "all"

    def share(self, partition: int, partitions: int) -> int:
        """The rows of a count window in one partition, numbered from 0; the shares add up to the length."""
        return self.length // partitions + (partition < self.length % partitions)


@dataclass(frozen=True)
class NestedWindows:
    """The windows that one buffer of rows serves, each with its own statistics.

    ``pane_rows``: the oldest rows leave count windows in panes of this number of rows of a source; with 1, they leave
    one by one. It decides which rows are live. It is kept for streams that have it, and saves no time.

    ``keep_rows``: whether each live row is held, so that it can be retired by id. Without it (possible only if all
    windows are over everything) no row is held, ids are not read, and no row can be retired.

    Raises :class:`DefinitionError` if the windows cannot be nested, or a setting does not fit them.
    """

    windows: tuple[Window, ...]
    pane_rows: int = 1
    keep_rows: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.windows) <= limits.WINDOWS:
            raise DefinitionError(f"window: expected 1 to {limits.WINDOWS} windows, got {len(self.windows)}")
        kinds = {window.kind for window in self.windows} - {"all"}
        if len(kinds) > 1:
            raise DefinitionError("window: nested windows are of counts or of spans of time, got both; use one kind")
        if len(set(self.windows)) != len(self.windows):
            raise DefinitionError(f"window: windows must differ, got {', '.join(map(str, self.windows))}")
        counts = [window.length for window in self.windows if window.counted]
        if not 1 <= self.pane_rows <= min(counts, default=1):
            raise DefinitionError(
                f"window: pane must be from 1 to {min(counts, default=1)} rows (the shortest window of a count of rows;"
                f" other windows have no panes), got {self.pane_rows}"
            )
        if not self.keep_rows and kinds:
            raise DefinitionError("window: rows can only be let go of where the window is 'all'; set keep_rows = true")

    @classmethod
    def automatic(cls, longest: int, partitions: int = 1, most: int = limits.WINDOWS) -> NestedWindows:
        """Windows of 100, 400, 1600, ... rows and ``longest``, from the first that gives a partition 25 rows.

        If there are more than ``most`` windows, every second one is left out, repeatedly. Raises
        :class:`DefinitionError` if ``longest`` is below 100 rows.
        """
        if longest < AUTOMATIC_ROWS:
            raise DefinitionError(
                f"window: the longest of the automatic mode must have {AUTOMATIC_ROWS} rows or more, got {longest};"
                " raise max, or fix the length"
            )
        lengths = [AUTOMATIC_ROWS * 4**step for step in range(limits.WINDOWS)]
        chosen = [rows for rows in lengths if AUTOMATIC_SHARE * partitions <= rows < longest] + [longest]
        while len(chosen) > max(most, 1):
            chosen = chosen[::-2][::-1]
        return cls(tuple(Window("count", rows) for rows in chosen))

    @functools.cached_property
    def longest(self) -> int:
        """The index of the window that holds the rows of all others."""
        lengths = [2**63 if window.endless else window.length for window in self.windows]
        return lengths.index(max(lengths))

    def units(self, number: int) -> tuple[int, ...]:
        """The number of units of a mixed map of ``number`` units that each window has statistics of.

        Raises :class:`DefinitionError` if no window has all of them.
        """
        units = tuple(window.units(number) for window in self.windows)
        if (most := max(units)) < number:
            cure = f"set units = {most}" if most else "leave the map out"
            raise DefinitionError(
                f"feature_map.units: the longest window has statistics of {most} units, one for {ROWS_OF_A_UNIT} of its"
                f" rows, and there are {number}; {cure}, or have a longer window"
            )
        return units

    @property
    def counted(self) -> bool:
        """Whether any window is of a count of rows."""
        return any(window.counted for window in self.windows)

    @functools.cached_property
    def timed(self) -> bool:
        """Whether any window is a span of event time."""
        return any(window.timed for window in self.windows)

    @property
    def endless(self) -> bool:
        """Whether any window is over everything."""
        return any(window.endless for window in self.windows)

    @property
    def shortest_timed(self) -> Window | None:
        """The shortest window of event time, or None if there is none."""
        return min((window for window in self.windows if window.timed), key=lambda window: window.length, default=None)

    @functools.cached_property
    def fitting_skew_milliseconds(self) -> int:
        """The default of ``max_skew``, how far ahead of the log an event time may be: a tenth of the shortest window.

        An event time that is ahead ends the windows of all sources early by as much. So the limit follows from the
        windows: it is at least five seconds, or half the shortest window if that is less, and at most a day. Without
        windows of event time it is a day, since no window ends early.
        """
        if self.shortest_timed is None:
            return limits.LONGEST_SKEW_MILLISECONDS
        shortest = self.shortest_timed.length
        least = min(limits.SHORTEST_SKEW_MILLISECONDS, shortest // 2)
        return min(max(shortest // limits.SKEW_SHARE, least), limits.LONGEST_SKEW_MILLISECONDS)

    @functools.cached_property
    def longest_milliseconds(self) -> int | None:
        """The longest span of event time, or None unless all windows are spans of event time."""
        return max(window.length for window in self.windows) if all(window.timed for window in self.windows) else None
