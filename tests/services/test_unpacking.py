"""Batches that do not unpack: one record stands in the place of each, however often it is read."""

from __future__ import annotations

from typing import Any, Self

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from deltaplane_services.kafka import log as log_module
from deltaplane_services.kafka import unpacking
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.unpacking import STAND_IN, BatchEnds

TOPIC, END = "stream.samples", 9
BATCHES = [range(3), range(3, 4), range(5, 8)]
"""Those that do not unpack. Records 4 and 8 are whole."""


class Consumer:
    """Stands before a batch that does not unpack, as librdkafka does, until it is told to read from elsewhere."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.offset = END

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_watermark_offsets(self, _: TopicPartition, **__: object) -> tuple[int, int]:
        return 0, END

    def assign(self, places: list[TopicPartition]) -> None:
        (place,) = places
        assert (place.topic, place.partition) == (TOPIC, 0)
        self.offset = place.offset

    def unassign(self) -> None:
        pass

    def consume(self, _: int, *, timeout: float) -> list[Message]:
        del timeout
        for batch in BATCHES:
            if self.offset in batch:
                return [message(batch.start, "_BAD_COMPRESSION"), message(batch.start, "_BAD_COMPRESSION")]
        if self.offset >= END:
            return [message(self.offset, "_PARTITION_EOF")]
        self.offset += 1
        return [message(self.offset - 1)]


def message(offset: int, error: str | None = None) -> Message:
    fault = None if error is None else KafkaError(getattr(KafkaError, error))
    return Message(topic=TOPIC, partition=0, offset=offset, value=b"whole", error=fault, timestamp=(1, 7))


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "Consumer", Consumer)
    monkeypatch.setattr(unpacking, "Consumer", Consumer)


def test_every_reading_finds_the_same_records_in_the_place_of_batches_that_do_not_unpack() -> None:
    reader = LogReader({}, "stream")
    expected = [(0, STAND_IN), (3, STAND_IN), (4, b"whole"), (5, STAND_IN), (8, b"whole")]

    for start in (0, 0, 3, 4, 5, 5, 8, 0):
        found = [(record.offset, record.value) for record in reader.read("samples", 0, start, END)]
        assert found == [(offset, value) for offset, value in expected if offset >= start], start


def test_who_reads_on_inside_of_a_batch_has_had_what_stands_in_its_place_and_who_begins_there_has_not() -> None:
    ends = BatchEnds({})
    for batch in BATCHES:
        assert ends.behind(message(batch.start, "_BAD_COMPRESSION")).offset == batch.stop
        assert ends.from_there(TopicPartition(TOPIC, 0, batch.start)).offset == batch.start
        assert {ends.from_there(TopicPartition(TOPIC, 0, offset)).offset for offset in batch[1:]} <= {batch.stop}
        assert ends.from_there(TopicPartition(TOPIC, 0, batch.stop)).offset == batch.stop
        assert ends.from_there(TopicPartition(TOPIC, 1, batch.stop - 1)).offset == batch.stop - 1
