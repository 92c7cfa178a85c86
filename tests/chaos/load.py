"""Producers at load: the simulation's, which knows what must become of all that it sends, writing to real Kafka.

Where a record comes to lie is known before it is acknowledged: nobody else writes to these topics, and an idempotent
producer neither loses nor repeats nor reorders. That this is so is not assumed: every acknowledgement is compared, and
in the end the topics are read back.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from random import Random

from confluent_kafka import KafkaError, Message, Producer

from deltaplane.sample import partition_of
from deltaplane_services.processors.records import RETIREMENTS, SAMPLES, Outgoing
from deltaplane_services.settings import ServiceSettings
from simulation.producer import Producer as Sender

TICK_SECONDS = 0.02
END_SECONDS = 120.0
SIZES = (20, 60, 150)
"""Rows of the larger batches, before they are parted by partition."""


class KafkaTopics:
    """What the simulation's producer takes for a broker: the ends of topics, and a way to append."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.appended: defaultdict[tuple[str, int], list[Outgoing]] = defaultdict(list)
        self.acknowledged: Counter[tuple[str, int]] = Counter()
        self.faults: list[str] = []
        self._name = settings.definition.name
        # Two clients: samples and retirements race each other to the brokers, and one may be held up alone.
        properties = {
            **settings.producer_properties("site"),
            "message.timeout.ms": int(1000 * END_SECONDS),
            "log_level": 0,
        }
        self._producers = {topic: Producer(dict(properties)) for topic in (SAMPLES, RETIREMENTS)}

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        return len(self.appended[topic, partition])

    def append(self, record: Outgoing, now: int) -> int:
        """Send a record; the offset that it will get."""
        del now
        place = (record.topic, record.partition)
        expected = len(self.appended[place])
        self.appended[place].append(record)

        def delivered(error: KafkaError | None, message: Message) -> None:
            # No offset comes with the acknowledgement of a record that a broker had already when it was sent again.
            if error is not None or message.offset() not in (expected, None):
                self.faults.append(f"producer: {place} at {expected}: {error or message.offset()}")
            self.acknowledged[place] += 1

        producer = self._producers[record.topic]
        while True:
            try:
                producer.produce(
                    f"{self._name}.{record.topic}",
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    on_delivery=delivered,
                )
            except BufferError:
                producer.poll(0.05)
            else:
                return expected

    def poll(self) -> None:
        """Serve acknowledgements."""
        for producer in self._producers.values():
            producer.poll(0)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        for topic, producer in self._producers.items():
            if left := producer.flush(END_SECONDS):
                self.faults.append(f"producer: {left} records of {topic} were never acknowledged")


class Load:
    """Sends from a thread of its own, so many rows a second, until it is stopped."""

    def __init__(self, settings: ServiceSettings, seed: int, rows_per_second: float) -> None:
        self.topics = KafkaTopics(settings)
        self.sender = Sender(settings.definition, self.topics, Random(f"load {seed}"))  # type: ignore[arg-type]
        self.seconds = 0.0
        self._rows_per_second = rows_per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, name="chaos-load")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until all has been acknowledged."""
        self._stopping.set()
        self._thread.join()

    def send(self, rows: int) -> None:
        """Send some more, now that it is stopped, and wait until all has been acknowledged."""
        while rows > 0:
            rows -= self._send_some()
        self.topics.flush()

    @property
    def faults(self) -> list[str]:
        """What went wrong with the producers themselves."""
        return self.topics.faults

    def _send(self) -> None:
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
            by_partition[partition_of(row.id, self.sender.definition.partitions)].append(row)
        for partition, rows in by_partition.items():
            self.sender._send(partition, rows, now, single=False)
        return size
