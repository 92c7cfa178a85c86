"""Whether brokers answer, and whether the topics are still the ones they were: asked now and then, never waited for.

A client that reads a partition hears little of what befalls it. While no broker answers it says nothing at all. A topic
that was deleted and made again has its old name, and under the old offsets other records: whoever goes on behind the
last one that it read has missed all that came before, and nothing says so. But the topic has another id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from deltaplane_services.kafka.client_errors import Answer, codes

__all__ = ["ANSWER_SECONDS", "ASK_SECONDS", "TopicWatch"]

ASK_SECONDS = 2.0
"""From an answer to the next question."""

ANSWER_SECONDS = 4.0
"""How long a broker may take."""

_NOT_THERE = "UNKNOWN_TOPIC_OR_PART"
_NO_ANSWER = codes(Answer.PASSES) | {KafkaError._DESTROY}  # noqa: SLF001 - public all the same.

_NO_ID = {"None", "A" * 22}
"""What a broker tells that has none to tell."""

_Descriptions = Mapping[str, "Future[TopicDescription]"]


class TopicWatch:
    """Watches topics by their full names, through clients from ``make``.

    ``ids``: the id of each topic that there is, as far as brokers tell ids, and ``partitions``: how many it has;
    ``missing``: the topics that there are not. These are what the last answer said. ``silence`` is why there was none
    since, or None.
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
        """Take in what has been answered, and ask again if it is time to. Never waits."""
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
        """Ask, and wait so long for an answer; what is not answered by then is what it was."""
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
            # A client that has lost its brokers may not find back to them: see LogReader.
            self._client, self._ask_at = None, self._clock()

    def close(self) -> None:
        """Ask no more."""
        self._client = self._asked = None
