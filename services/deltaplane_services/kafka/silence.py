"""Batches at which a client goes silent: told by a log that goes on, and got past by finding where the batch ends.

A record with a length below zero, a frame of a codec with bytes behind it: brokers take such batches, and a client of
librdkafka that meets one hands over nothing more of that partition, and says nothing. Nothing of it can be read, so it
is treated as a batch that does not unpack (unpacking.py): one record that nobody can read stands in its place, is
refused, counted and dead-lettered, and every reading of the log finds the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from enum import Enum

from confluent_kafka import Consumer, TopicPartition

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 20.0
"""How long a client may hand over nothing of a partition before the end of its log is asked for."""

PROBE_SECONDS = 6.0
"""How long a new client may take to hand over the first record of a place, or to say that there is none."""


class Silence(Enum):
    """What was found where nothing has come for long."""

    NONE = "the log has no more"
    AT_A_BATCH = "no client reads the next batch"
    OF_THE_CLIENT = "another client reads on"


class Listening:
    """When something of each log was last heard; all times are of one monotonic clock, in seconds."""

    def __init__(self, now: float) -> None:
        self._heard_at: dict[str, float] = {}
        self._since = now

    def heard(self, topic: str, now: float) -> None:
        """Note that a log has been heard of, or that nobody expects to."""
        self._heard_at[topic] = now

    def is_silent(self, topic: str, now: float) -> bool:
        """Whether nothing has been heard of a log for so long that one should look; True once in such a time."""
        if now - self._heard_at.get(topic, self._since) < SILENCE_SECONDS:
            return False
        self._heard_at[topic] = now
        return True


def behind_silence(properties: Mapping[str, object], place: TopicPartition, end: int) -> int | None:
    """The offset behind the batch at a place that no client can read; None where there is no such batch.

    ``end``: the end of the log. Found by doubling steps, then by halves; each place is tried by a client of its own,
    since one that has met such a batch is of no use any more. A broker that is away or slow is silent everywhere, so a
    batch is passed over only between two silences at its beginning, with an answer from behind it.
    """

    def is_heard(offset: int) -> bool:
        return _is_heard(properties, place, offset)

    begin = place.offset
    if is_heard(begin) or not is_heard(end):
        return None
    silent, step = begin, 1
    while silent + step < end and not is_heard(silent + step):
        silent, step = silent + step, 2 * step
    heard = min(silent + step, end)
    while heard - silent > 1:
        middle = (silent + heard) // 2
        if is_heard(middle):
            heard = middle
        else:
            silent = middle
    if is_heard(begin) or (silent > begin and is_heard(silent)) or not is_heard(heard):
        return None
    logger.warning("%s-%d: no client reads offsets %d to %d", place.topic, place.partition, begin, heard - 1)
    return heard


def _is_heard(properties: Mapping[str, object], place: TopicPartition, offset: int) -> bool:
    """Whether a client that begins at an offset hands over a record, or says that the log ends there."""
    until = time.monotonic() + PROBE_SECONDS
    with Consumer(dict(properties)) as probe:
        probe.assign([TopicPartition(place.topic, place.partition, offset)])
        while time.monotonic() < until:
            for message in probe.consume(1, timeout=0.05):
                error = message.error()
                if error is None or error.name() in {"_PARTITION_EOF", "_BAD_COMPRESSION", "_BAD_MSG"}:
                    return True
    return False
