"""When a merger writes checkpoints: once it has caught up, and once a model that has come as far is acknowledged.

Prequential counts of tiles travel in models. A merger that starts from checkpoints ahead of every model would not read
these tiles again, and would lose their counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deltaplane.log.delta import Claim, Source
from deltaplane.wire import read_checkpoint, read_model, write_claim
from deltaplane_services.kafka.clients import merger_clients
from deltaplane_services.kafka.merger_loop import MergerPace, MergerService
from deltaplane_services.kafka.publishing import Answered, Publisher
from deltaplane_services.processors.messages import CHECKPOINTS, MODELS, Outgoing
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream
from kafka.test_standby import step_until

AT_ONCE = MergerPace(refresh_seconds=3600.0, checkpoint_seconds=0.0)


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch) -> list[Outgoing | None]:
    """The records that publishers hand over, in order, with None when all before are acknowledged."""
    records: list[Outgoing | None] = []
    publish, flush = Publisher.publish, Publisher.flush

    def watched(self: Publisher, handed: Iterable[Outgoing], answered: Answered | None = None) -> None:
        handed = list(handed)
        records.extend(handed)
        publish(self, handed, answered)

    def acknowledged(self: Publisher) -> None:
        flush(self)
        records.append(None)

    monkeypatch.setattr(Publisher, "publish", watched)
    monkeypatch.setattr(Publisher, "flush", acknowledged)
    return records


def claim(kafka: RunningKafka, stream: Stream, site: str) -> None:
    """Some worker claims a source, which changes the merger's state."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    record = write_claim(Claim(Source(site, 0), f"worker-{site}", stream.definition.stream_fingerprint))
    producer.produce(f"{stream.definition.name}.deltas", record, key=b"any", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_a_checkpoint_goes_out_once_a_model_that_has_come_as_far_is_acknowledged(
    kafka: RunningKafka, stream_name: str, tmp_path: Path, course: list[Outgoing | None]
) -> None:
    def checkpoints_of(site: str) -> list[int]:
        return [
            at
            for at, record in enumerate(course)
            if record is not None
            and record.topic == CHECKPOINTS
            and record.value is not None
            and read_checkpoint(record.value, stream.definition.dimensions).state.source.site == site
        ]

    def both_of(site: str) -> bool:
        return len(checkpoints_of(site)) == 2

    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        merger = MergerService(stream.definition, merger_clients(stream.settings), AT_ONCE)
        try:
            for site in ("first", "second"):
                claim(kafka, stream, site)
                step_until(merger, partial(both_of, site))
                empty, first = checkpoints_of(site)
                models = [
                    at
                    for at, record in enumerate(course[:empty])
                    if record is not None
                    and record.topic == MODELS
                    and record.value is not None
                    and Source(site, 0) in read_model(record.value).come_to
                ]
                assert models, "the model that knows of the source comes before its checkpoints"
                assert None in course[models[0] : empty], "and is acknowledged before them"
                assert None in course[empty:first], "the empty one is acknowledged before the other"
        finally:
            merger.close()


def test_a_merger_that_has_not_caught_up_writes_no_checkpoint(
    kafka: RunningKafka,
    stream_name: str,
    tmp_path: Path,
    course: list[Outgoing | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        claim(kafka, stream, "first")
        behind = True
        caught_up = MergerService._has_caught_up
        monkeypatch.setattr(MergerService, "_has_caught_up", lambda *a: caught_up(*a) and not behind)
        merger = MergerService(stream.definition, merger_clients(stream.settings), AT_ONCE)
        try:
            step_until(merger, lambda: merger.processor is not None and bool(merger.processor.merger.sources()))
            merger.step(100, 0.05)
            assert course == []
            behind = False
            step_until(merger, lambda: any(record is not None and record.topic == CHECKPOINTS for record in course))
        finally:
            merger.close()
