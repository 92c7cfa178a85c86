"""Prequential counts: the hits of candidate planes on samples that they had not learned; pure.

Workers send these counts, and mergers add them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["Choice", "PrequentialCounts"]


class Choice(NamedTuple):
    """The options of one candidate plane of a window; ``weighting`` is ``explicit`` if weights are given by class.

    ``curved``: whether the plane is over the units of a mixed map, too, and not over the row's own features alone.
    """

    C: float
    weighting: str
    curved: bool = False

    @classmethod
    def of(cls, options: SolverOptions) -> Choice:
        """The choice that ``options`` stand for, not curved."""
        return cls(options.C, options.weighting if isinstance(options.weighting, str) else "explicit")


@dataclass(frozen=True, eq=False)
class PrequentialCounts:
    """The counts of every candidate on some samples that it had not learned. Counts of the same choices can be added.

    Each mapping goes from a class label to the counts of the candidates for that class against the rest, by window w,
    choice c and side (the class itself, the rest). ``hits`` int64[w, c, 2 thresholds, 2 sides]: rows classified right.
    ``rows`` int64[w, c, 2 sides]: rows scored, 0 if there was no candidate. ``scores`` int64[w * c + 1, 2 sides, bins]:
    histograms of scores if candidates are weighed by them (see ``score_histograms``), else empty. ``choices``: the c
    choices of C and weighting.
    """

    choices: tuple[Choice, ...]
    hits: Mapping[str, Int64s]
    rows: Mapping[str, Int64s]
    scores: Mapping[str, Int64s] = field(default_factory=dict)

    def fits(self, windows: int, choices: tuple[Choice, ...]) -> bool:
        """Whether these are counts of candidates of so many windows and of these choices."""
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
