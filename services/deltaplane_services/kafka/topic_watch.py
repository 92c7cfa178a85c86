"""A watch over brokers and topics: whether brokers answer, and whether topics are still the ones that they were.

A client that reads a partition learns little of this. While no broker answers, it reports nothing. A topic that was
deleted and made again has its old name, and other records under the old offsets: a reader that goes on behind the last
one that it read silently misses all before it. But the topic has another id. So brokers are asked for it now and then,
without waiting for the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from deltaplane_services.kafka.client_errors import PASSING

__all__ = ["ANSWER_SECONDS", "ASK_SECONDS", "TopicWatch"]

ASK_SECONDS = 2.0
"""Seconds from an answer to the next question."""

ANSWER_SECONDS = 4.0
"""How long a broker may take to answer."""

_NOT_THERE = "UNKNOWN_TOPIC_OR_PART"
_NO_ANSWER = PASSING | {KafkaError._DESTROY}  # noqa: SLF001 - public all the same.

_NO_ID = {"None", "A" * 22}
"""The ids that a broker reports if it knows none."""

_Descriptions = Mapping[str, "Future[TopicDescription]"]


class TopicWatch:
    """A watch over topics, given by their full names, through clients from ``make``.

    The last answer gave: ``ids``, topic to id, as far as brokers report ids; ``partitions``, topic to their number; and
    ``missing``, the topics that do not exist. ``silence`` is why there was no answer since, in words, or None.
    """

    def __init__(
        self, make: Callable[[], AdminClient], topics: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.ids: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        self.missing: frozenset[str] = frozenset()
        self.silence: str | None = None
        self._make, self._topics, self._clock = make, list(topics), clock
        self._client: AdminClient | None = None
        self._asked: _Descriptions | None = None
        self._ask_at = clock()

    def turn(self) -> None:
        """Process an answer that has come, and ask again if it is time to; never waits."""
        if self._asked is None and self._clock() >= self._ask_at:
            self._client = self._client or self._make()
            self._asked = self._client.describe_topics(TopicCollection(self._topics), request_timeout=ANSWER_SECONDS)
        if self._client is not None:
            self._client.poll(0)
        if self._asked is not None and all(future.done() for future in self._asked.values()):
            answered, self._asked = self._asked, None
            self._ask_at = self._clock() + ASK_SECONDS
            self._take(answered)

    def ask_now(self, seconds: float) -> None:
        """Ask now, and wait for the answer for so long; without one, nothing changes."""
        until = time.monotonic() + seconds
        self._ask_at = self._clock()
        self.turn()
        while self._asked is not None and self._client is not None and time.monotonic() < until:
            self._client.poll(0.01)
            self.turn()

    def _take(self, answered: _Descriptions) -> None:
        ids, partitions, missing, silence = {}, {}, set(), None
        for topic, future in answered.items():
            try:
                described = future.result()
            except KafkaException as fault:
                error = fault.args[0] if fault.args else None
                name = error.name() if isinstance(error, KafkaError) else ""
                if name == _NOT_THERE:
                    missing.add(topic)
                elif isinstance(error, KafkaError) and error.code() in _NO_ANSWER:
                    silence = f"{error.str()} ({name})"
            else:
                partitions[topic] = len(described.partitions)
                if (told := str(described.topic_id)) not in _NO_ID:
                    ids[topic] = told
        self.silence = silence
        if silence is None:
            self.ids, self.partitions, self.missing = ids, partitions, frozenset(missing)
        else:
            # A client that has lost its brokers may not find them again: see LogReader.
            self._client, self._ask_at = None, self._clock()

    def close(self) -> None:
        """Stop asking."""
        self._client = self._asked = None
