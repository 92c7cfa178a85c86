"""Groups of windows, and of choices, that are solved together: those that are alike, as many as the cache holds."""

from __future__ import annotations

from collections.abc import Sequence

from deltaplane.errors import SolveRefused
from deltaplane.exact.blocks import tiles
from deltaplane.exact.grid import Grid
from deltaplane.solve.solver import Grams, live_counts
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["by_penalty", "solved_together"]

_ENTRIES_AT_ONCE = 2**17
"""Entries of the Gram matrices of windows that are solved together: a megabyte, or one window if it has more."""


def solved_together(
    grams_by_window: Sequence[Grams], left_out: Sequence[int], grid: Grid, positive: str | None
) -> tuple[list[list[int]], list[str]]:
    """Groups of windows with the same live classes, to be solved together; and why other windows have no plane.

    Windows in ``left_out`` are in no group. Windows whose sums need more than 64 bits have groups of their own, since
    the arithmetic of the others is faster.
    """
    alike: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    refusals = []
    for window, grams in enumerate(grams_by_window):
        if window not in left_out:
            try:
                classes = tuple(live_counts(grams, grid, positive))
                int64 = all(grams[label].fits_int64 for label in classes)
                alike.setdefault((int64, classes), []).append(window)
            except SolveRefused as refused:
                refusals.append(str(refused))
    together = []
    for (_, classes), windows in alike.items():
        entries = 2 * len(classes) * (grid.features + 1) ** 2
        together += [windows[part] for part, _ in tiles(len(windows), 1, entries, _ENTRIES_AT_ONCE)]
    return together, refusals


def by_penalty(options: Sequence[SolverOptions]) -> list[tuple[SolverOptions, list[int], list[float]]]:
    """Groups of options that differ in C alone: the options of the first one, all their indices, and all their C."""
    groups: list[tuple[SolverOptions, list[int], list[float]]] = []
    for choice, each in enumerate(options):
        but_for_c = {**vars(each), "C": None}
        alike = next((group for group in groups if {**vars(group[0]), "C": None} == but_for_c), None)
        if alike is None:
            groups.append((each, [choice], [each.C]))
        else:
            alike[1].append(choice)
            alike[2].append(each.C)
    return groups
