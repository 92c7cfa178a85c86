"""Producers at load: the simulation's, which knows what must become of all that it sends, writing to real Kafka.

That every record comes to lie where the producer said it would is not assumed: every acknowledgement is compared, and
in the end the topics are read back. A part of the load is written in transactions, from the same thread.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from random import Random

from chaos.topics import KafkaTopics
from chaos.transactions import Transactions
from deltaplane_services.definition_file.settings import ServiceSettings
from kafka.background import Background
from kafka.sending import END_SECONDS
from simulation.producer import Producer as Sender

TICK_SECONDS = 0.02
ROWS_OF_A_LOT = 3
"""About as many come with one call of the simulation's producer."""

SIZES = (20, 60, 150)
"""Rows of the larger batches, before they are parted by partition."""


class Load(Background):
    """Sends from a thread of its own, so many rows a second, until it is stopped."""

    def __init__(self, settings: ServiceSettings, seed: int, rows_per_second: float) -> None:
        self.topics = KafkaTopics(settings)
        self.sender = Sender(
            settings.definition,
            self.topics,  # type: ignore[arg-type]
            Random(f"load {seed}"),
            delay_milliseconds=int(1000 * END_SECONDS),
        )
        self.transactions = Transactions(settings, self.topics, self.sender, Random(f"transactions {seed}"))
        self.seconds = 0.0
        self._rows_per_second = rows_per_second
        super().__init__("chaos-load")

    def send(self, rows: int) -> None:
        """Send some more, now that it is stopped, and wait until all has been acknowledged."""
        while rows > 0:
            rows -= self._send_some()
        self.transactions.finish()
        self.topics.flush()

    @property
    def faults(self) -> list[str]:
        """What went wrong with the producers themselves."""
        return self.topics.faults

    @property
    def did(self) -> Counter[str]:
        """What was sent, by kind, and in which transactions."""
        return self.sender.did + self.transactions.did

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
            self.transactions.finish()
        except Exception as fault:  # noqa: BLE001
            self.faults.append(f"producer: {fault!r}")
        self.seconds = time.monotonic() - began
        self.topics.flush()

    def _send_some(self) -> int:
        now = time.time_ns() // 1_000_000
        if lots := self.transactions.step(now):
            return ROWS_OF_A_LOT * lots
        if self.sender.random.random() < 0.85:
            self.sender.publish(now)
            return ROWS_OF_A_LOT
        by_partition = defaultdict(list)
        size = self.sender.random.choice(SIZES)
        for _ in range(size):
            row = self.sender._row(now)
            by_partition[self.sender.definition.partition_of(row.id)].append(row)
        for partition, rows in by_partition.items():
            self.sender._send(partition, rows, now, single=False)
        return size
