"""Batches at which a client goes silent: told by a log that goes on, and got past by finding where the batch ends.

A record with a length below zero, a frame of a codec with bytes behind it: brokers take such batches, and a client of
librdkafka that meets one hands over nothing more of that partition, and says nothing. Nothing of it can be read, so it
is treated as a batch that does not unpack (unpacking.py): one record that nobody can read stands in its place, is
refused, counted and dead-lettered, and every reading of the log finds the same.

Whoever reads a log goes by the one rule of :class:`Listening`: the sources of workers, readers by offset (audits,
mergers, followers of models), and scorers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from confluent_kafka import Consumer, Message, TopicPartition

from deltaplane_services.kafka.log_errors import is_end

__all__ = [
    "ENDS_ASKED_FOR",
    "LOOKED_THROUGH",
    "PROBES_AT_ONCE",
    "PROBE_SECONDS",
    "READING_SECONDS",
    "SILENCE_SECONDS",
    "Found",
    "Listening",
    "Logs",
    "Place",
    "Silence",
    "SilenceWatch",
    "behind_silence",
]

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 20.0
"""How long a client may hand over nothing of a partition before the end of its log is asked for."""

READING_SECONDS = 30.0
"""The same, on the way to an end of the log that is known."""

PROBE_SECONDS = 6.0
"""How long a new client may take to hand over the first record of a place, or to say that there is none."""

PROBES_AT_ONCE = 32
"""Clients that try places at the same time."""

LOOKED_THROUGH = 512
"""Offsets behind a silent one that are tried one by one, so that no row between two such batches is lost. A longer
batch is got past by doubling steps and halves, as if nothing could be read before its end."""

ENDS_ASKED_FOR = 20
"""Ends of logs that are asked for in one go; where more have been quiet for long, the others come next."""


Place = tuple[str, int]

_HEARD = frozenset({"_PARTITION_EOF", "_BAD_COMPRESSION", "_BAD_MSG"})
"""Errors of a client that is not silent: it says where it is."""


class Silence(Enum):
    """What was found where nothing has come for long."""

    NONE = "the log has no more"
    AT_A_BATCH = "no client reads the next batch"
    OF_THE_CLIENT = "another client reads on"


class Logs(Protocol):
    """Answers where logs begin and end, and where batches end that no client reads."""

    def bounds_at(self, place: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and the one that its next record will get."""

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        """The first place behind the batch at a place; None where a new client reads it."""

    def known_behind(self, place: TopicPartition) -> int | None:
        """The offset behind the batch at a place, if clients are known to go silent there."""


class SilenceWatch(Protocol):
    """Whoever wants to know of silence: the metrics of a service."""

    def silent(self, why: str | None) -> None:
        """Nothing has come for too long, and why that is is being looked for; None: it is found out."""

    def passed_over(self, topic: str) -> None:
        """A batch of a topic (with the stream's prefix) is passed over, since no client reads it."""


@dataclass
class Found:
    """Of places where nothing has come for long: the worst that is behind it, and the batches that no client reads.

    ``passed``: the place of each of these batches, and the first place behind it.
    """

    silence: Silence = Silence.NONE
    passed: list[tuple[TopicPartition, TopicPartition]] = field(default_factory=list)


class Listening:
    """When something of each partition was last heard, and where it was heard that its log ends.

    All times are of one monotonic clock, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._heard_at: dict[Place, float] = {}
        self._ends: dict[Place, int] = {}
        self._since = now

    def heard(self, place: Place, now: float) -> None:
        """Note that a partition has been heard of."""
        self._heard_at[place] = now

    def hear(self, messages: Iterable[Message], now: float) -> None:
        """Note what has come with a poll: records, ends of logs, and batches that do not unpack."""
        for message in messages:
            topic, partition, error = message.topic(), message.partition(), message.error()
            if topic is None or partition is None or (error is not None and error.name() not in _HEARD):
                continue
            self._heard_at[topic, partition] = now
            if is_end(message) and (offset := message.offset()) is not None:
                self._ends[topic, partition] = offset

    def has_ended(self, place: Place) -> bool:
        """Whether it has been heard that the log of a partition ends."""
        return place in self._ends

    def find(self, places: Iterable[TopicPartition], logs: Logs, now: float) -> Found:
        """What is behind the silence at the places that a client reads from, where it has lasted for long.

        A place without an offset is the beginning of its log. Looking for the end of a batch takes a minute or so.
        """
        found, asked = Found(), 0
        for place in places:
            log = place.topic, place.partition
            known = place.offset >= 0 and logs.known_behind(place) is not None
            if not known and (asked >= ENDS_ASKED_FOR or now - self._heard_at.get(log, self._since) < SILENCE_SECONDS):
                continue
            asked += 1
            self.heard(log, now)
            begin, end = logs.bounds_at(place)
            # A log may end with marks of transactions, which are no records: a client is at its end before them.
            at = TopicPartition(place.topic, place.partition, max(begin, place.offset, self._ends.get(log, 0)))
            if at.offset >= end:
                continue
            behind = logs.behind_silence(at, end)
            if behind is None:
                found.silence = Silence.OF_THE_CLIENT
                return found
            found.silence = Silence.AT_A_BATCH
            found.passed.append((at, behind))
        return found


def behind_silence(
    properties: Mapping[str, object], place: TopicPartition, end: int, alive: Callable[[], object]
) -> int | None:
    """The offset behind the batch at a place that no client can read; None where there is no such batch.

    ``end``: the end of the log. Each offset is tried by a client of its own, since one that has met such a batch is of
    no use any more. A broker that is away or slow is silent everywhere, so a batch is passed over only between two
    silences at its beginning, with an answer from behind it. ``alive`` is called again and again meanwhile.
    """

    def first_heard(offsets: Sequence[int]) -> int | None:
        for at in range(0, len(offsets), PROBES_AT_ONCE):
            alive()
            answers = _heard(properties, place, offsets[at : at + PROBES_AT_ONCE])
            if answers:
                return min(answers)
        return None

    begin = place.offset
    if first_heard([begin, end]) != end:
        return None
    heard = first_heard(range(begin + 1, min(begin + LOOKED_THROUGH, end) + 1))
    if heard is None:
        silent, step = begin + LOOKED_THROUGH, LOOKED_THROUGH
        steps = [offset for doubled in range(48) if (offset := silent + (step << doubled)) < end]
        heard = first_heard([*steps, end])
        if heard is None:
            return None
        silent = max([silent, *(offset for offset in steps if offset < heard)])
        while heard - silent > 1:
            width = -(-(heard - silent) // PROBES_AT_ONCE)
            between = range(silent + width, heard, width) if width > 1 else range(silent + 1, heard)
            answer = first_heard(between)
            silent = max([silent, *(offset for offset in between if answer is None or offset < answer)])
            heard = heard if answer is None else answer
    alive()
    if min(_heard(properties, place, sorted({begin, heard - 1, heard})), default=end) != heard:
        return None
    logger.warning("%s-%d: no client reads offsets %d to %d", place.topic, place.partition, begin, heard - 1)
    return heard


def _heard(properties: Mapping[str, object], place: TopicPartition, offsets: Sequence[int]) -> set[int]:
    """The offsets at which a client that begins there hands over a record, or says that the log ends there."""
    probes, heard = {offset: Consumer(dict(properties)) for offset in offsets}, set[int]()
    try:
        for offset, probe in probes.items():
            probe.assign([TopicPartition(place.topic, place.partition, offset)])
        until = time.monotonic() + PROBE_SECONDS
        while len(heard) < len(probes) and time.monotonic() < until:
            heard |= {offset for offset in probes.keys() - heard if _has_come(probes[offset])}
            time.sleep(0.02)
    finally:
        for probe in probes.values():
            probe.close()
    return heard


def _has_come(probe: Consumer) -> bool:
    """Whether a record has come, or word of the end of the log, or of a batch that does not unpack."""
    errors = [message.error() for message in probe.consume(1, timeout=0.0)]
    return any(error is None or error.name() in _HEARD for error in errors)
