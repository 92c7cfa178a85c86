"""Metrics of the whole stream, derived from the models on its topic.

The models are those *read from the topic*, whichever merger published them. What the topic carries survives the
process, so a merger that takes over goes on with the same counters. Its first models may for a moment contain less than
the last one did, until it has read the deltas after its checkpoints. Counters then keep their values, because
Prometheus takes a counter that goes down for one that was reset to zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from prometheus_client.metrics_core import Metric as Family

from deltaplane.arrays import Floats
from deltaplane.log.confusion import (
    Binary,
    Confusion,
    accuracy,
    binary_gmean,
    f_measure,
    gmean,
    imbalance_ratio,
    kappa,
    matthews,
    one_against_rest,
    precision,
    relative_sensitivity,
    sensitivity,
    specificity,
)
from deltaplane.log.delta import still_waiting
from deltaplane.log.headline import headline, positive_of
from deltaplane.log.model import Model
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome, SampleOutcome
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.observe.blend_tables import blend_shares
from deltaplane_services.observe.metrics import label_values, metric_names
from deltaplane_services.observe.metrics.families import ClassNames, Labels, family, single
from deltaplane_services.observe.metrics.metric import Metric
from deltaplane_services.observe.metrics.quality_metrics import RecentScores
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES

__all__ = ["OF_ONE_CLASS", "StreamView", "Totals"]

Totals = dict[tuple[Metric, Labels], int]

OF_ONE_CLASS = {
    metric_names.SENSITIVITY: sensitivity,
    metric_names.SPECIFICITY: specificity,
    metric_names.PRECISION: precision,
    metric_names.F_MEASURE: f_measure,
    metric_names.RELATIVE_SENSITIVITY: relative_sensitivity,
}
"""Measures of one class against all others."""


@dataclass(frozen=True)
class _Seen:
    """Everything that a scrape needs. It is replaced, never changed, because scrapes come from another thread."""

    model: Model
    classes: ClassNames
    scores: Mapping[str, Confusion]
    totals: Totals
    weight_change: float


class StreamView:
    """Collector of the metrics of a stream; exports nothing while ``hidden``, or before there is a model."""

    def __init__(
        self, definition: StreamDefinition, prequential_samples: int = label_values.PREQUENTIAL_SAMPLES
    ) -> None:
        self.hidden = False
        self.deviations: Floats | None = None
        """Standard deviations float64[d] of the features over the live rows, behind this process's newest model."""
        self._definition = definition
        self._prequential_samples = prequential_samples
        self._recent = RecentScores(prequential_samples)
        declared = definition.classes
        binary = (declared.positive, declared.rest) if declared.positive is not None else ()
        self._classes = ClassNames.of(sorted(binary) or declared.names)
        self._seen: _Seen | None = None

    @property
    def model(self) -> Model | None:
        """The newest model."""
        return None if self._seen is None else self._seen.model

    def observe(self, model: Model) -> None:
        """Take the next model of the topic; from one whose version is not higher, only counters that have grown."""
        before = self._seen
        self._recent.see(model.scores)
        self._classes = self._classes.having_seen(_sizes(model))
        totals = dict(before.totals) if before is not None else {}
        for series, count in _totals(model).items():
            totals[series] = max(totals.get(series, 0), count)
        change = math.nan
        if before is not None:
            newer = model.replaces(before.model)
            change = before.weight_change
            if newer and model.plane_version != before.model.plane_version:
                change = _distance(before.model.plane, model.plane)
            model = model if newer else before.model
        scores = dict(zip(label_values.SPANS, (self._recent.total, self._recent.recent), strict=True))
        self._seen = _Seen(model, self._classes, scores, totals, change)

    def collect(self) -> Iterator[Family]:
        """The metrics, for a registry."""
        seen = self._seen
        if seen is None or self.hidden:
            return
        yield from self._quality(seen)
        yield from self._window(seen)
        yield from self._plane(seen)
        for metric in dict.fromkeys(metric for metric, _ in seen.totals):
            series = [(labels, float(count)) for (of, labels), count in seen.totals.items() if of is metric]
            yield family(metric, self._definition.name, series)

    def _quality(self, seen: _Seen) -> Iterator[Family]:
        stream, classes = self._definition.name, seen.classes
        cells: dict[Labels, int] = {(truth, guess): 0 for truth in classes.names for guess in classes.names}
        for (truth, guess), count in seen.scores["all"].counts.items():
            cell = (classes.name(truth), classes.name(guess))
            cells[cell] = cells.get(cell, 0) + count
        yield family(metric_names.CONFUSION, stream, ((cell, float(count)) for cell, count in cells.items()))
        positive = positive_of(self._definition.classes.positive, seen.model.plane, seen.scores["all"])
        of_all: dict[Metric, list[tuple[Labels, float]]] = {}
        for span, scores in seen.scores.items():
            quality = gmean(scores) if positive is None else binary_gmean(Binary.of(scores, positive))
            of_all.setdefault(metric_names.GMEAN, []).append(((span,), quality))
            asked = headline(seen.model.objective, scores, positive)
            of_all.setdefault(metric_names.OBJECTIVE, []).append(((str(seen.model.objective), span), asked))
            of_all.setdefault(metric_names.ACCURACY, []).append(((span,), accuracy(scores)))
            sides = scores if positive is None else one_against_rest(scores, positive)
            of_all.setdefault(metric_names.KAPPA, []).append(((span,), kappa(sides)))
            of_all.setdefault(metric_names.MATTHEWS, []).append(((span,), matthews(sides)))
            of_all.setdefault(metric_names.PREQUENTIAL_ROWS, []).append(((span,), float(scores.rows)))
            for label in classes.names:
                binary = Binary.of(scores, label)
                alarms = binary.false_positives / scores.rows if scores else math.nan
                of_all.setdefault(metric_names.FALSE_ALARMS, []).append(((label, span), alarms))
                for metric, measure in OF_ONE_CLASS.items():
                    of_all.setdefault(metric, []).append(((label, span), measure(binary)))
        for metric, values in of_all.items():
            yield family(metric, stream, values)
        unmet = [((str(seen.model.objective),), float(seen.model.unmet is not None))]
        yield family(metric_names.OBJECTIVE_UNMET, stream, unmet)
        yield single(metric_names.PREQUENTIAL_SPAN, stream, self._prequential_samples)

    def _window(self, seen: _Seen) -> Iterator[Family]:
        stream, model = self._definition.name, seen.model
        live = dict.fromkeys(seen.classes.names, 0) | seen.classes.sums(model.counts)
        yield family(metric_names.WINDOW_SAMPLES, stream, (((label,), float(count)) for label, count in live.items()))
        yield single(metric_names.IMBALANCE, stream, imbalance_ratio(model.counts))
        yield single(metric_names.RETIREMENTS_WAITING, stream, max(0, still_waiting(model.totals)))
        sources = [((p.source.site, str(p.source.partition)), float(p.removed)) for p in model.positions]
        yield family(metric_names.BARRED, stream, sources)

    def _plane(self, seen: _Seen) -> Iterator[Family]:
        stream, model, plane = self._definition.name, seen.model, seen.model.plane
        watermark = math.nan if model.watermark == NO_WATERMARK else model.watermark / 1000.0
        yield single(metric_names.MODEL_VERSION, stream, model.version)
        yield single(metric_names.PLANE_VERSION, stream, 0 if plane is None else model.plane_version)
        yield single(metric_names.MODEL_CREATED, stream, model.created / 1000.0)
        yield single(metric_names.WATERMARK, stream, watermark)
        yield single(metric_names.MODEL_REFUSED, stream, float(model.refusal is not None))
        if plane is None:
            return
        yield single(metric_names.MODEL_C, stream, plane.C)
        yield single(metric_names.CONDITION, stream, plane.condition)
        shares = [
            ((of, choice), share)
            for of, by_choice in (blend_shares(model.leaning, self._definition) or {}).items()
            for choice, share in by_choice.items()
        ]
        yield family(metric_names.BLEND_SHARE, stream, shares)
        yield single(metric_names.WEIGHT_NORM, stream, float(np.linalg.norm(plane.weights)))
        yield single(metric_names.WEIGHT_CHANGE, stream, seen.weight_change)
        named = [label for label in plane.classes if label in seen.classes.names]
        yield family(metric_names.SIGMA, stream, (((label,), plane.sigmas.get(label, math.nan)) for label in named))
        sides = plane.classes if plane.positive is None else (plane.positive,)
        features = self._definition.plane_features[: label_values.MOST_FEATURES]
        weights = [
            ((side, feature), float(weight))
            for side, row in zip(sides, plane.weights, strict=True)
            if side in named
            for feature, weight in zip(features, row, strict=False)
        ]
        yield family(metric_names.WEIGHT, stream, weights)
        deviations = self.deviations
        if deviations is not None and len(deviations) == plane.weights.shape[1]:
            spread = dict(zip(features, deviations.tolist(), strict=False))
            standard = [((side, feature), weight * spread[feature]) for (side, feature), weight in weights]
            yield family(metric_names.STANDARDIZED_WEIGHT, stream, standard)


def _sizes(model: Model) -> dict[str, int]:
    """Class to the number of its scored and live samples together, by which classes are ranked."""
    sizes = dict.fromkeys(model.scores.classes, 0)
    for counts in (model.scores.truths(), model.counts):
        for label, count in counts.items():
            sizes[label] = sizes.get(label, 0) + count
    return sizes


def _distance(before: Plane | None, after: Plane | None) -> float:
    """The Euclidean distance between the weights of two planes; NaN if they are not of the same classes."""
    if before is None or after is None or before.classes != after.classes or before.positive != after.positive:
        return math.nan
    return float(np.linalg.norm(after.weights - before.weights))


def _totals(model: Model) -> Totals:
    """The counters that a model carries; every label value of a closed set is there from the start, with 0."""
    totals: Totals = {}
    raw = model.totals.get
    for outcome in SampleOutcome:
        totals[metric_names.SAMPLES, (label_values.word(outcome),)] = raw(outcome, 0)
    # A delta counts a sample that replaced another as applied, too.
    totals[metric_names.SAMPLES, (label_values.word(SampleOutcome.APPLIED),)] -= raw(SampleOutcome.REPLACED, 0)
    for answer in RetirementOutcome:
        totals[metric_names.RETIREMENTS, (label_values.word(answer),)] = raw(f"retirements {answer}", 0)
    totals[metric_names.RETIREMENTS_FORGOTTEN, ()] = raw("retirements forgotten", 0)
    for reason in label_values.REMOVALS:
        totals[metric_names.REMOVED, (reason,)] = raw(reason, 0)
    met = raw(SampleOutcome.ANNIHILATED, 0)
    totals[metric_names.REMOVED, ("retired",)] = raw("retirements retired", 0) - met
    totals |= {(metric_names.REJECTED, (reason,)): 0 for reason in label_values.REJECTIONS}
    for name, count in model.totals.items():
        if name.startswith("refused "):
            reason = label_values.word(name.removeprefix("refused "))
            reason = reason if reason in label_values.REJECTIONS else label_values.OTHER
            totals[metric_names.REJECTED, (reason,)] += count
    for outcome in (SampleOutcome.LATE, SampleOutcome.RETIRED_ID):
        totals[metric_names.REJECTED, (label_values.word(outcome),)] += raw(outcome, 0)
    for what in (SAMPLES, RETIREMENTS):
        totals[metric_names.MISPLACED, (what,)] = raw(f"{what} misplaced", 0)
    totals[metric_names.FILLED, ()] = raw("values filled in", 0)
    for position in model.positions:
        source = (position.source.site, str(position.source.partition))
        totals[metric_names.TILES, source] = position.sequence
    return totals
