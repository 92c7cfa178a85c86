"""Values as series of metrics: an undefined value has no series, and the number of label values is bounded.

A measure that is undefined (of a class that was not seen) is NaN in the core. Exported as 0, 1 or NaN, it would be
taken for a value. A missing series is shown as a gap, as it should be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family

from deltaplane_services.observe.metrics.label_values import MOST_CLASSES, OTHER
from deltaplane_services.observe.metrics.metric import Metric

__all__ = ["ClassNames", "Labels", "family", "histogram", "label_text", "single"]

Labels = tuple[str, ...]

# Otherwise each counter has one more series, with the time of its creation, which Prometheus does not use.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def family(metric: Metric, stream: str, values: Iterable[tuple[Labels, float]]) -> Family:
    """The series of a gauge or counter, from (label values without the stream's, value) pairs; NaN is left out."""
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    made = kind(metric.name, metric.help, labels=("stream", *metric.labels))
    found: dict[Labels, float] = {}
    for labels, value in values:
        if not math.isnan(value):
            shown = tuple(map(label_text, labels))
            # Series with the same labels are added up: Prometheus rejects a scrape with duplicates.
            found[shown] = found.get(shown, 0.0) + value
    for shown, value in found.items():
        made.add_metric((stream, *shown), value)
    return made


def label_text(text: str) -> str:
    """A label value that any terminal can show: characters that cannot be printed are written as escapes.

    Line breaks are kept, because the format of a scrape escapes them itself.
    """
    if text.isprintable():
        return text
    shown = (char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text)
    return "".join(shown)


def single(metric: Metric, stream: str, value: float) -> Family:
    """The only series of a metric without labels of its own; no series if the value is NaN."""
    return family(metric, stream, [((), value)])


def histogram(metric: Metric) -> prometheus_client.Histogram:
    """A histogram that is in no registry; its labels are the stream and those of the metric."""
    return prometheus_client.Histogram(
        metric.name, metric.help, ("stream", *metric.labels), registry=None, buckets=metric.buckets
    )


@dataclass(frozen=True)
class ClassNames:
    """The classes that have series of their own: the declared ones if they are few, else the largest when first seen.

    A class keeps its series, because otherwise the counter of the other classes would go down. If there are more
    classes than may have series, a restart may choose other classes; the counters of ``other`` then jump once. A class
    that is itself named ``other`` is counted with the others.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, declared: Sequence[str]) -> ClassNames:
        """The declared classes; none if there are more than may have series."""
        return cls(tuple(declared) if len(declared) <= MOST_CLASSES else ())

    def having_seen(self, sizes: Mapping[str, int]) -> ClassNames:
        """These names and those of the largest new classes, as long as there is room."""
        new = sorted(sizes.keys() - set(self.names), key=lambda label: (-sizes[label], label))
        return ClassNames((*self.names, *new[: MOST_CLASSES - len(self.names)])) if new else self

    def name(self, label: str) -> str:
        """The label value under which a class is counted."""
        return label if label in self.names else OTHER

    def sums(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Label value to the sum of its counts."""
        total: dict[str, int] = {}
        for label, count in counts.items():
            total[self.name(label)] = total.get(self.name(label), 0) + count
        return total
