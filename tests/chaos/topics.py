"""The topics that a run writes to, as the producers know them: what lies at which offset, and where nothing does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing
from kafka.sending import CheckedProducer, Place

Append = Callable[[Outgoing, int], object]
"""Takes a record, and the offset that it will get."""


class KafkaTopics(CheckedProducer):
    """What the simulation's producer takes for a broker: the ends of topics, and a way to append.

    ``appended``: by place, offset to record. Offsets that are left out are gaps: of transactions' marks, and of what
    was aborted.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        super().__init__(settings, (SAMPLES, RETIREMENTS))
        self.appended: defaultdict[Place, dict[int, Outgoing]] = defaultdict(dict)
        self._divert: Append | None = None

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        return self.ends[topic, partition]

    def read_to(self, topic: str, partition: int) -> int:
        """The offset behind the last record, where a reader of committed records is when it has read them all."""
        return max(self.appended[topic, partition], default=-1) + 1

    def append(self, record: Outgoing, now: int) -> int:
        """Send a record; the offset that it will get."""
        del now
        place = (record.topic, record.partition)
        offset = self.ends[place]
        self.appended[place][offset] = record
        if self._divert is None:
            return self.send(record)
        self.ends[place] += 1
        self._divert(record, offset)
        return offset

    @contextmanager
    def diverted(self, to: Append) -> Iterator[None]:
        """Have another producer send what is appended."""
        self._divert = to
        try:
            yield
        finally:
            self._divert = None
