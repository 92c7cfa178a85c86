"""What candidate planes made of samples that they had not learned: counts that workers send and mergers add; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["Choice", "PrequentialCounts"]


class Choice(NamedTuple):
    """What one candidate plane of a window is solved with; the weighting is ``explicit`` where weights are given.

    ``curved``: over the units of a mixed map, too, where others have the row's own features alone.
    """

    C: float
    weighting: str
    curved: bool = False

    @classmethod
    def of(cls, options: SolverOptions) -> Choice:
        """The choice that some options stand for."""
        return cls(options.C, options.weighting if isinstance(options.weighting, str) else "explicit")


@dataclass(frozen=True, eq=False)
class PrequentialCounts:
    """What every candidate made of some samples that it had not learned. A value that adds.

    Class label to counts: of the candidates for that class against the rest, ``hits`` int64[w, c, 2 cuts, 2 sides] and
    ``rows`` int64[w, c, 2 sides] by window, choice and side (the class itself, the rest); zero rows where there was no
    candidate. ``choices`` are c choices of C and weighting: counts under others do not add. ``scores``: where
    candidates are weighed by their scores int64[w * c + 1, 2 sides, bins], see ``score_histograms``; else empty.
    """

    choices: tuple[Choice, ...]
    hits: Mapping[str, Int64s]
    rows: Mapping[str, Int64s]
    scores: Mapping[str, Int64s] = field(default_factory=dict)

    def fits(self, windows: int, choices: tuple[Choice, ...]) -> bool:
        """Whether these are trials of candidates of so many windows, and of these choices."""
        planes = windows * len(choices) + 1
        return (
            self.choices == choices
            and all(len(rows) == windows for rows in self.rows.values())
            and all(len(scores) == planes for scores in self.scores.values())
        )

    def __add__(self, other: PrequentialCounts) -> PrequentialCounts:
        assert self.choices == other.choices, "trials of other candidates were added"
        return PrequentialCounts(
            self.choices, _sum(self.hits, other.hits), _sum(self.rows, other.rows), _sum(self.scores, other.scores)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrequentialCounts):
            return NotImplemented
        return self.choices == other.choices and all(
            mine.keys() == theirs.keys() and all(np.array_equal(mine[label], theirs[label]) for label in mine)
            for mine, theirs in ((self.hits, other.hits), (self.rows, other.rows), (self.scores, other.scores))
        )

    __hash__ = None  # type: ignore[assignment]


def _sum(mine: Mapping[str, Int64s], theirs: Mapping[str, Int64s]) -> dict[str, Int64s]:
    total = dict(mine)
    for label, counts in theirs.items():
        total[label] = total[label] + counts if label in total else counts
    return total
