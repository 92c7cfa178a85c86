"""A merger that stands by, for the first time or again, has its clients fetch nothing of what the elected one reads.

And it does not stand by for ever where its client hears nothing of the group.

What a client fetches is asked of its own statistics: of what it was told, librdkafka may have its own opinion.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from deltaplane_services.kafka import log, member
from deltaplane_services.kafka.clients import merger_clients
from deltaplane_services.kafka.merger_loop import MergerPace, MergerService
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream

STATISTICS_MILLISECONDS = 100


class WatchedConsumer(Consumer):
    """A consumer that knows what librdkafka fetches for it."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.rounds = 0
        self.fetched: set[str] = set()
        super().__init__(
            {**properties, "statistics.interval.ms": STATISTICS_MILLISECONDS, "stats_cb": self._take_statistics}
        )

    def _take_statistics(self, text: str) -> None:
        self.rounds += 1
        self.fetched = {
            f"{name}-{number}"
            for name, topic in json.loads(text)["topics"].items()
            for number, partition in topic["partitions"].items()
            if partition["fetch_state"] not in {"none", "stopped"}
        }

    def fetched_by_now(self) -> set[str]:
        """The topics and partitions that are fetched, by statistics made after this was asked."""
        until, deadline = self.rounds + 3, time.monotonic() + PATIENCE_SECONDS
        while self.rounds < until:
            assert time.monotonic() < deadline, "no statistics came"
            self.poll(STATISTICS_MILLISECONDS / 1000)
        return self.fetched


def step_until(merger: MergerService, so: Callable[[], bool]) -> None:
    """Let a merger work until it has come to something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < deadline, "the merger never came to that"
        merger.step(100, 0.05)


def test_a_merger_fetches_nothing_before_its_election_and_after_it(
    kafka: RunningKafka, stream_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "Consumer", WatchedConsumer)
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        merger = MergerService(stream.definition, merger_clients(stream.settings), MergerPace(0.1, 10.0))
        reader = merger._reader._consumer
        assert isinstance(reader, WatchedConsumer)
        try:
            producer = Producer({"bootstrap.servers": kafka.bootstrap})
            producer.produce(f"{stream_name}.models", b"no model", key=b"any")
            assert producer.flush(PATIENCE_SECONDS) == 0
            assert reader.fetched_by_now() == set()
            step_until(merger, lambda: merger.elected)
            everything = {f"{stream_name}.models-0", *(f"{stream_name}.deltas-{number}" for number in (0, 1))}
            assert reader.fetched_by_now() == everything
            # It is given up as another member of the group would have it.
            merger._election.client.unsubscribe()
            step_until(merger, lambda: not merger.elected)
            assert reader.fetched_by_now() == set()
        finally:
            merger.close()


def test_a_merger_whose_client_hears_nothing_of_its_group_is_elected_with_another(
    kafka: RunningKafka, stream_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "JOIN_SECONDS", 8.0)
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        clients, made = merger_clients(stream.settings), list[Consumer]()

        def make() -> Consumer:
            # The first asks where nobody answers.
            deaf = Consumer({"bootstrap.servers": "127.0.0.1:9", "group.id": "any", "log_level": 0})
            made.append(clients.consumer() if made else deaf)
            return made[-1]

        merger = MergerService(stream.definition, replace(clients, consumer=make), MergerPace(0.1, 10.0))
        try:
            step_until(merger, lambda: merger.elected)
            # Being let in may take longer than these seconds, too.
            assert len(made) >= 2
            assert merger._election.joined
        finally:
            merger.close()
