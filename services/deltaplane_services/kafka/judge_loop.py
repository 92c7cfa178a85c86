"""The judge's loop on Kafka: predictions of the central cluster and samples of a site in, metrics out.

It has no group and commits nothing. Predictions are read from where their topic begins, so that those that wait for
labels are known again after a restart; samples from where they end when it begins. Before samples are read, predictions
are read to their end: a label must not overtake the answer that it judges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.membership import ANYBODY, Principal
from deltaplane_services.kafka.recoveries import MAY_PASS, Recoveries
from deltaplane_services.observe.metrics import JudgeMetrics
from deltaplane_services.processors.judge_processor import JudgeProcessor
from deltaplane_services.processors.messages import PREDICTIONS, SAMPLES

__all__ = ["JudgeClients", "JudgeService"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeClients:
    """Functions that make the clients of a judge: readers of predictions (central) and of samples (site)."""

    predictions: Callable[[], LogReader]
    samples: Callable[[], LogReader]
    party: Principal = ANYBODY


class JudgeService:
    """One judge process: ``step`` is one turn of its loop. It publishes nothing, so that nothing can be left unsent."""

    def __init__(self, definition: StreamDefinition, clients: JudgeClients, watch: JudgeMetrics | None = None) -> None:
        self._watch, self._recoveries = watch or JudgeMetrics(definition), Recoveries(clients.party)
        self.processor = JudgeProcessor(definition)
        self._predictions, self._samples = clients.predictions(), clients.samples()
        for one in (self._predictions, self._samples):
            one.batch_ends.watch = self._watch
        partitions = range(definition.partitions)
        # Labels of before were held against no answer here, or were judged by the process before this one.
        self._samples.follow([(SAMPLES, at, self._samples.bounds(SAMPLES, at)[1]) for at in partitions])
        self._ends = {at: self._predictions.bounds(PREDICTIONS, at) for at in partitions}
        self._predictions.follow([(PREDICTIONS, at, low) for at, (low, _) in self._ends.items()])
        self._behind = {at for at, (low, end) in self._ends.items() if low < end}

    @property
    def caught_up(self) -> bool:
        """Whether all predictions have been read that were there at the start."""
        return not self._behind

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once for at most ``most`` records of each topic, and join what came.

        Failures that may pass are waited out, and raised if too many come in a row.
        """
        try:
            self._turn(most, timeout_seconds)
        except MAY_PASS as fault:
            pause = self._recoveries.fail(fault, time.monotonic())
            logger.warning("%s; reading on in %.1f s (failure %s)", fault, pause, self._recoveries)
            time.sleep(pause)
        else:
            self._recoveries.succeed()

    def _turn(self, most: int, timeout_seconds: float) -> None:
        answers = self._predictions.poll(most, 0.0)
        self.processor.hear(answers)
        for record in answers:
            if record.offset + 1 >= self._ends[record.partition][1]:
                self._behind.discard(record.partition)
        if len(answers) >= most or self._behind:
            # A label must not overtake an answer.
            if not answers:
                time.sleep(timeout_seconds)
                self._behind -= {at for at in self._behind if self._predictions.has_ended(PREDICTIONS, at)}
            return
        self._watch.judged(self.processor.see(self._samples.poll(most, timeout_seconds)))

    def tell(self) -> None:
        """Give the metrics the state of this judge; called after every turn."""
        self._watch.turn(self.processor, caught_up=self.caught_up)
        self._watch.look_at_lags(lambda: {**self._predictions.lags(), **self._samples.lags()})

    def close(self) -> None:
        """Close all clients."""
        self._watch.ends()
        self._predictions.close()
        self._samples.close()
