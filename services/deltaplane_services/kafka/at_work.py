"""A source that a worker works on, and how much of its logs it may hold while it is rebuilt.

A rebuild reads both logs up to the accepted position, and one of them may be there long before the other. What comes
behind waits in memory, and a producer decides how much that is; so beyond a bound no more of that log is read. Never of
both: where both have come as far, the rebuild is over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from deltaplane import limits
from deltaplane_services.kafka.arrivals import Arrivals
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.reading import Reading
from deltaplane_services.kafka.silence import Listening, Silence
from deltaplane_services.kafka.unpacking import not_read
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["SourceAtWork"]


@dataclass
class SourceAtWork:
    """Its state, the number of the tile that it publishes next, and the topics of which no more is read for now.

    ``readings``: by topic, how far the client has come since it was last told where to read.

    Samples and retirements from ``rebuild_to`` on wait in memory, ``held_bytes`` of them by topic.
    """

    processor: WorkerProcessor
    next_tile: int
    rebuild_to: tuple[int, int]
    held_back: frozenset[str] = frozenset()
    held_bytes: Counter[str] = field(default_factory=Counter)
    listening: Listening = field(default_factory=lambda: Listening(time.monotonic()))
    readings: dict[str, Reading] = field(default_factory=lambda: {topic: Reading() for topic in (SAMPLES, RETIREMENTS)})

    def hold(self, samples: Sequence[Record], retirements: Sequence[Record]) -> bool:
        """Take note of what came; whether other topics are held back now than before."""
        before, self.held_back = self.held_back, frozenset()
        if not self.processor.serving:
            for records, until in zip((samples, retirements), self.rebuild_to, strict=True):
                for record in records:
                    if record.offset >= until:
                        self.held_bytes[record.topic] += len(record.value or b"") + limits.RECORD_BYTES
            self.held_back = frozenset(topic for topic, held in self.held_bytes.items() if held > limits.HELD_BYTES)
        return self.held_back != before

    def pass_over(self, places: Mapping[str, TopicPartition], came: Arrivals, log: LogReader) -> Silence:
        """Whether the client has gone silent at one of the places that it reads from, though the log goes on.

        What stands in the place of a batch that no client reads is added to what came. ``log`` asks the brokers where
        logs end, now and then, while nothing comes.
        """
        now = time.monotonic()
        for topic, place in places.items():
            if came.records[topic] or topic in came.ends:
                self.listening.heard((place.topic, place.partition), now)
        found = self.listening.find(places.values(), log, now)
        for place, _ in found.passed:
            topic = log.topic_of(place)
            came.records[topic].append(not_read(topic, place))
        return found.silence
