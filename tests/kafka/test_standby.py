"""A merger that stands by, for the first time or again, holds nothing of what the elected one reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from deltaplane_services.kafka.clients import merger_clients
from deltaplane_services.kafka.merger import MergerPace, MergerService
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream


def step_until(merger: MergerService, so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < deadline, "the election never came to that"
        merger.step(100, 0.05)


def test_a_merger_reads_nothing_ahead_before_its_election_and_after_it(
    kafka: RunningKafka, stream_name: str, tmp_path: Path
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        merger = MergerService(stream.definition, merger_clients(stream.settings), MergerPace(0.1, 10.0))
        try:
            assert merger._reader._consumer.assignment() == []
            step_until(merger, lambda: merger.elected)
            followed = {place.topic for place in merger._reader._consumer.assignment()}
            assert followed == {f"{stream_name}.deltas", f"{stream_name}.models"}
            # It is given up as another member of the group would have it.
            merger._election.unsubscribe()
            step_until(merger, lambda: not merger.elected)
            assert merger._reader._consumer.assignment() == []
        finally:
            merger.close()
