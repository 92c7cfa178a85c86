"""Bytes on the wire: what a reader of a topic receives for its records, against their bytes before compression.

A broker hands batches on as the producer compressed them, so what comes to a reader is what was sent and what lies in
the log. librdkafka counts the bytes that came in through its sockets: batch headers, keys and the answers' own framing
are among them. A batch that does not fit into the rest of an answer comes twice; answers are large, so that this is
at most a hundredth or two.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.kafka_properties import MEGABYTE, ClusterName
from deltaplane_services.definition_file.settings import ServiceSettings

__all__ = ["ANSWER_BYTES", "STALLED_SECONDS", "STATISTICS_MILLISECONDS", "Traffic", "traffic"]

ANSWER_BYTES = 64 * MEGABYTE
STATISTICS_MILLISECONDS = 100
STALLED_SECONDS = 60.0


@dataclass(frozen=True)
class Traffic:
    """Of all records of a topic: their number, their bytes before compression (values alone), and those on the wire."""

    records: int
    bytes: int
    wire_bytes: int


def traffic(settings: ServiceSettings, cluster: ClusterName, topic: str) -> Traffic:
    """Read partition 0 of a topic from end to end. Raises :class:`DeltaplaneError` where it does not come through."""
    counted = [0]

    def count(statistics: str) -> None:
        counted[0] = int(json.loads(statistics)["rx_bytes"])

    name = settings.definition.name
    properties: dict[str, Any] = {
        **settings.consumer_properties(cluster, f"{name}.bytes"),
        "fetch.max.bytes": ANSWER_BYTES,
        "fetch.message.max.bytes": ANSWER_BYTES,
        "queued.max.messages.kbytes": 2 * ANSWER_BYTES // 1024,
        "statistics.interval.ms": STATISTICS_MILLISECONDS,
        "stats_cb": count,
    }
    with closing(Consumer(properties)) as consumer:
        place = TopicPartition(f"{name}.{topic}", 0)
        begin, end = consumer.get_watermark_offsets(place, timeout=STALLED_SECONDS)
        _next_count(consumer, counted)
        before = counted[0]
        consumer.assign([TopicPartition(place.topic, 0, begin)])
        records, size = _read(consumer, place, end)
        _next_count(consumer, counted)
    return Traffic(records, size, counted[0] - before)


def _read(consumer: Consumer, place: TopicPartition, end: int) -> tuple[int, int]:
    """Records and bytes up to an offset: all that is delivered, in a log without gaps."""
    records = size = 0
    heard = time.monotonic()
    while consumer.position([place])[0].offset < end:
        for message in consumer.consume(10_000, 0.2):
            if message.error() is None:
                records, size, heard = records + 1, size + len(message.value() or b""), time.monotonic()
        if time.monotonic() - heard > STALLED_SECONDS:
            raise DeltaplaneError(f"bench: {place.topic} could not be read to its end in {STALLED_SECONDS:g} s")
    return records, size


def _next_count(consumer: Consumer, counted: list[int]) -> None:
    """Wait until the client has counted anew, twice: the first may have been under way."""
    for _ in range(2):
        last, until = counted[0], time.monotonic() + 10 * STATISTICS_MILLISECONDS / 1000
        while counted[0] == last and time.monotonic() < until:
            consumer.poll(STATISTICS_MILLISECONDS / 1000)
