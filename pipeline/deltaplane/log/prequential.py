"""Quality along a stream: test-then-train scores in a bounded number of points, whatever the stream's length.

Points are contiguous spans of scored samples. When there are too many, neighbours are merged in pairs; confusion
matrices add, so a merged point is exactly what one long span would have been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deltaplane.arrays import Floats
from deltaplane.log.confusion import Confusion
from deltaplane.log.feature_sums import ClassSums, joined
from deltaplane.log.model import Model
from deltaplane.solve.candidates import Leaning
from deltaplane.solve.solver import Plane

__all__ = ["MOST_POINTS", "Gathered", "Point", "PrequentialSeries"]

MOST_POINTS = 400


@dataclass(frozen=True)
class Gathered:
    """Sums and scores of some samples, beside the scores of the model that has learned them.

    ``sums`` are sums of their features by class, ``served`` the scores of the predictions that were made when they
    came, if their labels came late. Each is None if nobody gathers it.
    """

    sums: ClassSums | None = None
    served: Confusion | None = None

    def __add__(self, other: Gathered) -> Gathered:
        """The sums and scores of the samples of both; None if one of them lacks it."""
        sums = None if self.sums is None or other.sums is None else joined((self.sums, other.sums))
        return Gathered(sums, None if self.served is None or other.served is None else self.served + other.served)


@dataclass(frozen=True)
class Point:
    """The samples between ``rows_from`` and ``rows_to`` of the stream, and what is shown of the model at their end.

    ``scores`` are of those samples alone; ``counts`` are live rows by class; ``version``, ``plane`` and ``leaning`` are
    the model's. ``deviations`` float64[d] are those of the features over the live rows, in raw units, and None if
    they are not known. ``gathered`` is of the samples themselves. The model itself is not held: the statistics behind
    it are many times as large as all of this.
    """

    rows_from: int
    rows_to: int
    scores: Confusion
    counts: Mapping[str, int]
    watermark: int
    version: int
    plane: Plane | None
    leaning: Leaning | None
    deviations: Floats | None = None
    gathered: Gathered = Gathered()

    @property
    def sums(self) -> ClassSums | None:
        """Sums of the features of the samples by class; None if nobody has summed them up."""
        return self.gathered.sums


def _unknown() -> Floats | None:
    """No deviations, until somebody who has the statistics behind a model gives another function."""
    return None


def _nothing() -> Gathered:
    """Nothing, until somebody who sees the samples gives a function with what was gathered since its last call."""
    return Gathered()


class PrequentialSeries:
    """Collects points as a stream goes by; ``points`` is what has been closed so far."""

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most_points = most_points
        self._span = 1
        self._points: list[Point] = []
        self._rows = 0
        self._scores = Confusion()

    def add(
        self,
        rows: int,
        model: Model,
        deviations: Callable[[], Floats | None] = _unknown,
        gather: Callable[[], Gathered] = _nothing,
    ) -> None:
        """Note that ``rows`` samples have gone by, and the model that contains them.

        ``deviations`` works out those of the live rows behind that model, ``gather`` has what was gathered
        of the samples since it was last called; both are called when a span ends.
        """
        if rows - self._rows < self._span:
            return
        self._points.append(self._point(rows, model, deviations, gather))
        self._rows, self._scores = rows, model.scores
        if len(self._points) > self._most_points:
            self._halve()

    def points(
        self,
        rows: int,
        model: Model | None,
        deviations: Callable[[], Floats | None] = _unknown,
        gather: Callable[[], Gathered] = _nothing,
    ) -> list[Point]:
        """Every point, with what is still open as the last one.

        Deviations that were not known when the last span was closed are asked for again.
        """
        if model is None or rows == self._rows:
            if model is not None and self._points and self._points[-1].deviations is None:
                return [*self._points[:-1], replace(self._points[-1], deviations=deviations())]
            return list(self._points)
        return [*self._points, self._point(rows, model, deviations, gather)]

    @property
    def recent(self) -> Confusion:
        """Scores of the last closed points, about a twentieth of the stream."""
        scores = Confusion()
        for point in self._points[-max(1, len(self._points) // 20) :]:
            scores = scores + point.scores
        return scores

    def _point(
        self,
        rows: int,
        model: Model,
        deviations: Callable[[], Floats | None],
        gather: Callable[[], Gathered],
    ) -> Point:
        before = self._scores.counts
        scores = {cell: count - before.get(cell, 0) for cell, count in model.scores.counts.items()}
        since = Confusion({cell: count for cell, count in scores.items() if count})
        return Point(
            rows_from=self._rows,
            rows_to=rows,
            scores=since,
            counts=model.counts,
            watermark=model.watermark,
            version=model.version,
            plane=model.plane,
            leaning=model.leaning,
            deviations=deviations(),
            gathered=gather(),
        )

    def _halve(self) -> None:
        pairs = zip(self._points[::2], self._points[1::2], strict=False)
        merged = [
            replace(
                b,
                rows_from=a.rows_from,
                scores=a.scores + b.scores,
                gathered=a.gathered + b.gathered,
            )
            for a, b in pairs
        ]
        odd = self._points[-1:] if len(self._points) % 2 else []
        self._points = merged + odd
        self._span = max(2 * self._span, merged[0].rows_to - merged[0].rows_from)
