"""Producers at load: the simulation's, which knows what must become of all that it sends, writing to real Kafka.

That every record comes to lie where the producer said it would is not assumed: every acknowledgement is compared, and
in the end the topics are read back.
"""

from __future__ import annotations

import time
from collections import defaultdict
from random import Random

from deltaplane_services.processors.records import RETIREMENTS, SAMPLES, Outgoing
from deltaplane_services.settings import ServiceSettings
from kafka.background import Background
from kafka.sending import CheckedProducer
from simulation.producer import Producer as Sender

TICK_SECONDS = 0.02
SIZES = (20, 60, 150)
"""Rows of the larger batches, before they are parted by partition."""


class KafkaTopics(CheckedProducer):
    """What the simulation's producer takes for a broker: the ends of topics, and a way to append."""

    def __init__(self, settings: ServiceSettings) -> None:
        super().__init__(settings, (SAMPLES, RETIREMENTS))
        self.appended: defaultdict[tuple[str, int], list[Outgoing]] = defaultdict(list)

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        return len(self.appended[topic, partition])

    def append(self, record: Outgoing, now: int) -> int:
        """Send a record; the offset that it will get."""
        del now
        self.appended[record.topic, record.partition].append(record)
        return self.send(record)


class Load(Background):
    """Sends from a thread of its own, so many rows a second, until it is stopped."""

    def __init__(self, settings: ServiceSettings, seed: int, rows_per_second: float) -> None:
        self.topics = KafkaTopics(settings)
        self.sender = Sender(settings.definition, self.topics, Random(f"load {seed}"))  # type: ignore[arg-type]
        self.seconds = 0.0
        self._rows_per_second = rows_per_second
        super().__init__("chaos-load")

    def send(self, rows: int) -> None:
        """Send some more, now that it is stopped, and wait until all has been acknowledged."""
        while rows > 0:
            rows -= self._send_some()
        self.topics.flush()

    @property
    def faults(self) -> list[str]:
        """What went wrong with the producers themselves."""
        return self.topics.faults

    def _work(self) -> None:
        began = time.monotonic()
        rows = 0
        try:
            while not self._stopping.is_set():
                rows_due = (time.monotonic() - began) * self._rows_per_second
                while rows < rows_due:
                    rows += self._send_some()
                self.topics.poll()
                time.sleep(TICK_SECONDS)
        except Exception as fault:  # noqa: BLE001
            self.faults.append(f"producer: {fault!r}")
        self.seconds = time.monotonic() - began
        self.topics.flush()

    def _send_some(self) -> int:
        now = time.time_ns() // 1_000_000
        if self.sender.random.random() < 0.85:
            self.sender.publish(now)
            return 3
        by_partition = defaultdict(list)
        size = self.sender.random.choice(SIZES)
        for _ in range(size):
            row = self.sender._row(now)
            by_partition[self.sender.definition.partition_of(row.id)].append(row)
        for partition, rows in by_partition.items():
            self.sender._send(partition, rows, now, single=False)
        return size
