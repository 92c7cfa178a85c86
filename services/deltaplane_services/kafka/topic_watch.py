"""A watch over brokers and topics: whether brokers answer, and whether topics are still the ones that they were.

A client that reads a partition learns little of this. While no broker answers, it reports nothing. A topic that was
deleted and made again has its old name, and other records under the old offsets: a reader that goes on behind the last
one that it read silently misses all before it. But the topic has another id. So brokers are asked for it now and then,
without waiting for the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from deltaplane_services.kafka.admin_questions import AdminQuestions, Answers
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

_POLL_SECONDS = 0.01


class TopicWatch:
    """A watch over topics, given by their full names, through clients from ``make``.

    The last answer gave: ``ids``, topic to id, as far as brokers report ids; ``partitions``, topic to their number; and
    ``missing``, the topics that do not exist. ``silence`` is why there was no answer since, in words, or None.
    """

    def __init__(
        self,
        make: Callable[[Callable[[KafkaError], None]], AdminClient],
        topics: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ids: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        self.missing: frozenset[str] = frozenset()
        self.silence: str | None = None
        self._topics, self._clock = list(topics), clock
        self._questions = AdminQuestions(make, clock)
        self._ask_at = clock()

    def turn(self) -> None:
        """Process an answer that has come, and ask again if it is time to; never waits."""
        if not self._questions.asked and self._clock() >= self._ask_at:
            self._questions.begin(self._ask, ANSWER_SECONDS)
        if (answered := self._questions.turn()) is not None:
            self._ask_at = self._clock() + ASK_SECONDS
            self._take(answered)

    def _ask(self, client: AdminClient, seconds: float) -> Answers:
        return client.describe_topics(TopicCollection(self._topics), request_timeout=seconds)

    def ask_now(self, seconds: float) -> None:
        """Ask now, and wait for the answer for so long; without one, nothing changes."""
        until = time.monotonic() + seconds
        self._ask_at = self._clock()
        self.turn()
        while self._questions.asked and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            self.turn()

    def _take(self, answered: Answers) -> None:
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
            self._questions.close()
            self._ask_at = self._clock()

    def close(self) -> None:
        """Stop asking."""
        self._questions.close()
