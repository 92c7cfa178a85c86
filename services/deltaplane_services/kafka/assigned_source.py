"""A source that a worker works on, and a bound on the records that it holds while it is rebuilt.

A rebuild reads both logs up to the accepted position, and may reach it in one log long before the other. Records behind
it wait in memory, and producers decide how many these are. So beyond a bound, reading of that log pauses. It never
pauses for both logs, since the rebuild is over once both have reached the position.
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

__all__ = ["AssignedSource"]


@dataclass
class AssignedSource:
    """The state of one source that a worker works on.

    - ``next_tile``: the sequence of the delta that it publishes next.
    - ``rebuild_to``: the offsets of samples and retirements to which the rebuild reads; later records wait in memory.
    - ``held_bytes``: topic to the bytes of those that wait.
    - ``held_back``: the topics of which no more is read for now.
    - ``listening``: when something was last heard of its logs.
    - ``readings``: topic to how far the client has delivered since it was last told where to read.
    """

    processor: WorkerProcessor
    next_tile: int
    rebuild_to: tuple[int, int]
    held_back: frozenset[str] = frozenset()
    held_bytes: Counter[str] = field(default_factory=Counter)
    listening: Listening = field(default_factory=lambda: Listening(time.monotonic()))
    readings: dict[str, Reading] = field(default_factory=lambda: {topic: Reading() for topic in (SAMPLES, RETIREMENTS)})

    def hold(self, samples: Sequence[Record], retirements: Sequence[Record]) -> bool:
        """Whether other topics are held back than before, once the records that came have been counted."""
        before, self.held_back = self.held_back, frozenset()
        if not self.processor.serving:
            for records, until in zip((samples, retirements), self.rebuild_to, strict=True):
                for record in records:
                    if record.offset >= until:
                        self.held_bytes[record.topic] += len(record.value or b"") + limits.RECORD_BYTES
            self.held_back = frozenset(topic for topic, held in self.held_bytes.items() if held > limits.HELD_BYTES)
        return self.held_back != before

    def pass_over(self, places: Mapping[str, TopicPartition], came: Arrivals, log: LogReader) -> Silence:
        """The silence found at the places that the client reads from, if nothing came for long though the log goes on.

        For each batch that no client can read, a stand-in record is added to ``came``. While nothing comes, ``log``
        asks the brokers now and then where the logs end.
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
