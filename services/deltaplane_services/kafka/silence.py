"""Batches at which a client goes silent: how they are noticed, and how reading goes on behind them.

Brokers take batches that are broken inside: with a record of negative length, or bytes behind a frame of a codec. A
client of librdkafka that meets one delivers nothing more of that partition, and reports no error. It is noticed by a
log that goes on while nothing comes. Such a batch is treated like one that does not unpack (unpacking.py): one stand-in
record that nobody can read takes its place, and is refused, counted and dead-lettered, so that every reading of the log
gives the same.

All readers of logs use :class:`Listening` for this: the sources of workers, readers by offset (audits, mergers,
followers of models), and scorers.
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
"""How long a client may deliver nothing of a partition before the brokers are asked where its log ends."""

READING_SECONDS = 30.0
"""How long a client may deliver nothing if the log is known to go on."""

PROBE_SECONDS = 6.0
"""How long a new client may take to deliver the first record at an offset, or to report the end of the log."""

PROBES_AT_ONCE = 32
"""The number of clients that try offsets at the same time."""

LOOKED_THROUGH = 512
"""Offsets behind a silent one that are tried one by one, so that no row between two such batches is lost. The end of a
longer batch is found by doubling steps and halving, as if nothing before it could be read."""

ENDS_ASKED_FOR = 20
"""The most ends of logs that are asked for at a time; if more partitions are silent, the others come next."""


Place = tuple[str, int]

_HEARD = frozenset({"_PARTITION_EOF", "_BAD_COMPRESSION", "_BAD_MSG"})
"""The errors that show that a client is not silent, since they say at which offset it is."""


class Silence(Enum):
    """The cause found if nothing has come for long."""

    NONE = "the log has no more"
    AT_A_BATCH = "no client reads the next batch"
    OF_THE_CLIENT = "another client reads on"


class Logs(Protocol):
    """The beginnings and ends of logs, and the ends of batches that no client can read."""

    def bounds_at(self, place: TopicPartition) -> tuple[int, int]:
        """(the first offset of a partition, the offset that its next record will get)."""

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        """The first place behind the batch at a place; None if a new client can read it."""

    def known_behind(self, place: TopicPartition) -> int | None:
        """The offset behind the batch at a place, if clients are known to go silent there."""


class SilenceWatch(Protocol):
    """An observer of silence, such as the metrics of a service."""

    def silent(self, why: str | None) -> None:
        """Take note that nothing has come for too long and the cause is searched for; None once it is found."""

    def passed_over(self, topic: str) -> None:
        """Take note that a batch of a topic (with the stream's prefix) is skipped, since no client can read it."""


@dataclass
class Found:
    """The worst cause of silence found at some places, and the batches that no client can read.

    ``passed``: (place of the batch, first place behind it) for each of these batches.
    """

    silence: Silence = Silence.NONE
    passed: list[tuple[TopicPartition, TopicPartition]] = field(default_factory=list)


class Listening:
    """When something last came for each partition, and the ends of logs that have come.

    All times are of one monotonic clock, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._heard_at: dict[Place, float] = {}
        self._ends: dict[Place, int] = {}
        self._since = now

    def heard(self, place: Place, now: float) -> None:
        """Take note that something has come for a partition."""
        self._heard_at[place] = now

    def hear(self, messages: Iterable[Message], now: float) -> None:
        """Take note of what a poll has brought: records, ends of logs, and batches that do not unpack."""
        for message in messages:
            topic, partition, error = message.topic(), message.partition(), message.error()
            if topic is None or partition is None or (error is not None and error.name() not in _HEARD):
                continue
            self._heard_at[topic, partition] = now
            if is_end(message) and (offset := message.offset()) is not None:
                self._ends[topic, partition] = offset

    def has_ended(self, place: Place) -> bool:
        """Whether the end of a partition has ever come."""
        return place in self._ends

    def find(self, places: Iterable[TopicPartition], logs: Logs, now: float) -> Found:
        """The cause of silence at the places that a client reads from, for those that have been silent for long.

        A place without an offset is the beginning of its log. Finding the end of a batch takes about a minute.
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
            # A log may end with marks of transactions, which are no records; a client reports the end before them.
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
    """The offset behind the batch at a place, if no client can read the batch; None if one can.

    ``end`` is the end of the log. Each offset is tried by a client of its own, since one that has met such a batch
    delivers nothing more. A broker that is away or slow is silent everywhere. So a batch is skipped only if its
    beginning is silent at the start of the search and again at its end, while an offset behind the batch answers.
    ``alive`` is called again and again meanwhile.
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
    """The offsets at which a client that begins there delivers a record, or reports the end of the log."""
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
    """Whether a record has come, or the end of the log, or a batch that does not unpack."""
    errors = [message.error() for message in probe.consume(1, timeout=0.0)]
    return any(error is None or error.name() in _HEARD for error in errors)
