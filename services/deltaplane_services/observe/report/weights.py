"""Weights that can be ranked: standardized ones, a raw weight times the live standard deviation of its feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.exact.deviations import ranked, standardized
from deltaplane_services.observe.report.record import Run, Span
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = ["MOST_FEATURES_IN_A_TABLE", "Weights"]

MOST_FEATURES_IN_A_TABLE = 200


class Weights:
    """The weights of some classes' planes along a run, which must have at least one plane.

    ``standardized``: the weights are in standardized units. ``of_the_end``: deviations are known only for the end (as
    for a run on Kafka, whose statistics are held elsewhere), and are used for all spans. If no deviations are known,
    weights are raw.
    """

    def __init__(self, run: Run, most_classes: int) -> None:
        with_plane = {label for span in run.spans for label in span.weights}
        shown = [label for label in run.main_classes(most_classes) if label in with_plane]
        self.classes: tuple[str, ...] = tuple(shown or sorted(with_plane)[:most_classes])
        with_weights = [span.deviations for span in run.spans if span.weights]
        self._last = with_weights[-1] if with_weights else None
        self.standardized = self._last is not None
        self.of_the_end = self.standardized and not all(with_weights)
        self._run = run

    @cached_property
    def by_class(self) -> Mapping[str, Floats]:
        """Class to float64[spans, features]; NaN if a span has no plane with the class on its positive side."""
        return {label: self._of(label) for label in self.classes}

    def _of(self, label: str) -> Floats:
        gap = (math.nan,) * len(self._run.features)
        raw = np.asarray([span.weights.get(label, gap) for span in self._run.spans], dtype=np.float64)
        if not self.standardized:
            return raw
        return standardized(raw, np.asarray([self._deviations(span) for span in self._run.spans], dtype=np.float64))

    def _deviations(self, span: Span) -> tuple[float, ...]:
        assert self._last is not None, "only known ones are asked for"
        return self._last if self.of_the_end else span.deviations or (math.nan,) * len(self._run.features)

    def strongest(self, most: int) -> list[int]:
        """The features with the largest mean magnitude of weights along the run and over the classes."""
        sizes = [np.nan_to_num(np.abs(weights)).mean(axis=0) for weights in self.by_class.values()]
        order: list[int] = np.argsort(-np.mean(sizes, axis=0), kind="stable")[:most].tolist()
        return order

    def name(self, feature: int, label: str) -> str:
        """The feature's name, followed by the class if there are several classes."""
        name = self._run.features[feature]
        return name if len(self.classes) == 1 else f"{name}, {label}"

    @cached_property
    def last_table(self) -> Table:
        """The last plane: features sorted by the size of their weights, with raw weights beside them."""
        last = max(at for at, span in enumerate(self._run.spans) if span.weights)
        span, classes = (
            self._run.spans[last],
            [label for label in self.classes if label in self._run.spans[last].weights],
        )
        shown = {label: self.by_class[label][last] for label in classes}
        body = []
        for feature in ranked(np.array([*shown.values()]))[:MOST_FEATURES_IN_A_TABLE].tolist():
            row = [cell(float(values[feature])) for values in shown.values()]
            if self.standardized and span.deviations is not None:
                row += [cell(span.deviations[feature]), *(cell(span.weights[label][feature]) for label in classes)]
            body.append((self._run.features[feature], *row))
        return Table(("feature", *_head(classes, standard=self.standardized)), tuple(body))


def _head(classes: Sequence[str], *, standard: bool) -> list[str]:
    of = [""] if len(classes) == 1 else [f", {label}" for label in classes]
    if not standard:
        return [f"raw weight{label}" for label in of]
    return [*(f"weight{label}" for label in of), "deviation", *(f"raw weight{label}" for label in of)]
