"""What a judge exports: the scores of what was predicted when people asked, and what waits for labels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric as Family

from deltaplane.log.confusion import Confusion, gmean
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.observe.health import State
from deltaplane_services.observe.metrics import label_values, metric_names
from deltaplane_services.observe.metrics.families import ClassNames, Labels, family
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics
from deltaplane_services.observe.metrics.quality_metrics import RecentScores
from deltaplane_services.processors.judge_processor import JudgeProcessor

__all__ = ["JudgeMetrics"]


class JudgeMetrics(ServiceMetrics):
    """Metrics of one judge process."""

    def __init__(
        self, definition: StreamDefinition, site: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(definition, "judge", site, clock=clock)
        declared = definition.classes
        binary = (declared.positive, declared.rest) if declared.positive is not None else ()
        self._classes = ClassNames.of(sorted(binary) or declared.names)
        self._recent = RecentScores(label_values.PREQUENTIAL_SAMPLES)
        self._waiting = self._forgotten = 0
        self._seen = (self._classes, Confusion(), Confusion())

    def judged(self, count: int) -> None:
        """Count predictions whose labels have come."""
        self.took(count)

    def turn(self, processor: JudgeProcessor, *, caught_up: bool) -> None:
        """One turn is over; ``caught_up``: predictions of before the start have been read."""
        served = processor.served
        self._recent.see(served.scores)
        self._classes = self._classes.having_seen(served.scores.truths())
        self._waiting, self._forgotten = served.waiting, served.forgotten
        # Replaced in one go: scrapes come from another thread.
        self._seen = (self._classes, self._recent.total, self._recent.recent)
        why = "reading the predictions of before" if not caught_up else f"{served.waiting} predictions wait for labels"
        self.turned(State(good=caught_up, why=f"judge: {why}"))

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        stream, (classes, total, recent) = self._stream, self._seen
        cells: dict[Labels, int] = {(truth, guess): 0 for truth in classes.names for guess in classes.names}
        for (truth, guess), count in total.counts.items():
            cell = (classes.name(truth), classes.name(guess))
            cells[cell] = cells.get(cell, 0) + count
        counts = [((self._site, *cell), float(count)) for cell, count in cells.items()]
        yield family(metric_names.SERVED, stream, counts)
        spans = zip(label_values.SPANS, (total, recent), strict=True)
        yield family(metric_names.SERVED_GMEAN, stream, [((self._site, span), _gmean(one)) for span, one in spans])
        yield family(metric_names.SERVED_WAITING, stream, [((self._site,), float(self._waiting))])
        yield family(metric_names.SERVED_FORGOTTEN, stream, [((self._site,), float(self._forgotten))])


def _gmean(scores: Confusion) -> float:
    """The G-mean over all classes; NaN if the truth has fewer than two, since it measures balance between classes."""
    return gmean(scores) if len(scores.truths()) > 1 else math.nan
