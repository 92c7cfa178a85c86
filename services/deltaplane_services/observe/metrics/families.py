"""From values to series: what is undefined has no series, and labels stay few.

A measure that is not defined (a class that was not seen) is NaN in the core. Exported as 0, as 1, or as NaN it would be
taken for a value; a series that is absent is a gap in every picture, which is what it should be.
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

# The time at which a counter was made would be one more series for each; Prometheus has no use for it.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def family(metric: Metric, stream: str, values: Iterable[tuple[Labels, float]]) -> Family:
    """The series of a gauge or counter: label values without the stream's, and a value; NaN is left out."""
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    made = kind(metric.name, metric.help, labels=("stream", *metric.labels))
    found: dict[Labels, float] = {}
    for labels, value in values:
        if not math.isnan(value):
            shown = tuple(map(label_text, labels))
            # Two that are shown alike are one series, or no scrape would be taken any more.
            found[shown] = found.get(shown, 0.0) + value
    for shown, value in found.items():
        made.add_metric((stream, *shown), value)
    return made


def label_text(text: str) -> str:
    """A label value as text for any terminal: what cannot be printed is written as its escape.

    But for a line break, which the format of a scrape escapes by itself.
    """
    if text.isprintable():
        return text
    shown = (char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text)
    return "".join(shown)


def single(metric: Metric, stream: str, value: float) -> Family:
    """The one series of a metric without labels of its own; none where the value is NaN."""
    return family(metric, stream, [((), value)])


def histogram(metric: Metric) -> prometheus_client.Histogram:
    """A histogram in no registry; its labels are the stream and those of the metric."""
    return prometheus_client.Histogram(
        metric.name, metric.help, ("stream", *metric.labels), registry=None, buckets=metric.buckets
    )


@dataclass(frozen=True)
class ClassNames:
    """Which classes have series of their own: the declared ones if they are few, else the largest when first seen.

    A class that has a name keeps it, or the counter of the others would go down. With more classes than names, a
    restart may choose others, and the counters of ``other`` then show one jump. A class that is called ``other`` itself
    is counted with them.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, declared: Sequence[str]) -> ClassNames:
        """The declared classes, or none where there are more than may have series."""
        return cls(tuple(declared) if len(declared) <= MOST_CLASSES else ())

    def having_seen(self, sizes: Mapping[str, int]) -> ClassNames:
        """Names for the largest of the classes that have none, while there are names to give."""
        new = sorted(sizes.keys() - set(self.names), key=lambda label: (-sizes[label], label))
        return ClassNames((*self.names, *new[: MOST_CLASSES - len(self.names)])) if new else self

    def name(self, label: str) -> str:
        """The label value that a class is counted under."""
        return label if label in self.names else OTHER

    def sums(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Counts by label value."""
        total: dict[str, int] = {}
        for label, count in counts.items():
            total[self.name(label)] = total.get(self.name(label), 0) + count
        return total
