"""Questions to the brokers of a cluster, by an admin client that is replaced if it waits for a dead broker.

A request of librdkafka's admin client is for one broker: the controller, as the last metadata name it, or the broker
that the request is about. If that broker is dead, the client calls it again at once each time that it refuses,
whatever ``reconnect.backoff.ms`` says, until the time of the request is over: that costs 1.3 processors (seen with
librdkafka 2.6 to 2.16), which the broker may need to start again, and every other request of the client waits, too. So
a client that has lost a broker gets only a moment to answer. Then it is closed, and after a pause a new one asks, which
is told anew who the controller is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from deltaplane_services.definition_file.kafka_properties import ClusterName, client_refused

__all__ = [
    "FIRST_MOMENT_SECONDS",
    "LONGEST_MOMENT_SECONDS",
    "PAUSE_SECONDS",
    "AdminQuestions",
    "Answers",
    "Ask",
    "admin_client",
]

FIRST_MOMENT_SECONDS = 0.25
LONGEST_MOMENT_SECONDS = 4.0
"""How long a client that has lost a broker may take for an answer. Each further one gets twice as long, up to this,
until one is answered: brokers that are far away, or busy, take seconds to let a new client in."""

PAUSE_SECONDS = 2.0
"""Seconds between closing a client and asking with a new one."""

_LOST = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
_LAST_SECONDS = 0.5
"""The least time that a request is given."""

_POLL_SECONDS = 0.02

Answers = Mapping[Any, "Future[Any]"]
"""What was asked about to the answer, or to the error in its place."""

Ask = Callable[[AdminClient, float], Answers]
"""Sends a question, which must change nothing, since it may be sent again; the second argument is its time limit."""


def _leave(error: KafkaError) -> None:
    """Leave an error to the answer of the request, instead of to standard error."""


def admin_client(
    properties: Mapping[str, Any], cluster: ClusterName, note: Callable[[KafkaError], None] = _leave
) -> AdminClient:
    """An admin client of a cluster with these properties, whose errors are given to ``note`` and logged nowhere.

    Raises :class:`DefinitionError` if librdkafka refuses its properties.
    """
    given: dict[str, Any] = {**properties, "error_cb": note, "log_level": 0}
    try:
        return AdminClient(given)
    except (KafkaException, TypeError, ValueError) as fault:
        raise client_refused(fault, properties, cluster) from None


class AdminQuestions:
    """Asks one question at a time, with clients from ``make``, which must report their errors to its argument.

    ``last_error`` is the last error that a client reported, in words. ``turned_away``: whether a password or a
    certificate was refused, which does not pass by itself.
    """

    def __init__(
        self,
        make: Callable[[Callable[[KafkaError], None]], AdminClient],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last_error, self.turned_away = "", False
        self._make, self._clock = make, clock
        self._client: AdminClient | None = None
        self._has_lost_a_broker = False
        self._moment_seconds = FIRST_MOMENT_SECONDS
        self._ask: Ask | None = None
        self._answers: Answers | None = None
        self._ask_at = self._asked_at = self._until = 0.0

    @property
    def asked(self) -> bool:
        """Whether a question has been begun, and not been answered yet."""
        return self._ask is not None

    def begin(self, ask: Ask, seconds: float) -> None:
        """Begin a question, to be answered within so many seconds; :meth:`turn` asks it."""
        now = self._clock()
        self._ask, self._answers, self._ask_at, self._until = ask, None, now, now + seconds

    def turn(self) -> Answers | None:
        """The answers, or errors, once all are there; None before. Never waits. Raises what ``make`` raises."""
        now = self._clock()
        if self._ask is not None and self._answers is None and now >= self._ask_at:
            self._client = self._client or self._make(self._note)
            self._answers = self._ask(self._client, max(_LAST_SECONDS, self._until - now))
            self._asked_at = now
        if self._client is not None:
            self._client.poll(0)
        if self._answers is None:
            return None
        if all(answer.done() for answer in self._answers.values()):
            answers, self._ask, self._answers = self._answers, None, None
            if any(map(_is_of_a_broker, answers.values())):
                self._moment_seconds = FIRST_MOMENT_SECONDS
            return answers
        if self._has_lost_a_broker and now - self._asked_at >= self._moment_seconds and now < self._until:
            self._close_client()
            self._answers, self._ask_at = None, min(now + PAUSE_SECONDS, self._until)
            self._moment_seconds = min(2.0 * self._moment_seconds, LONGEST_MOMENT_SECONDS)
        return None

    def wait(self, ask: Ask, seconds: float) -> Answers:
        """The answers to a question. They may be missing if the client was turned away, which ends the wait at once.

        Raises what ``make`` raises.
        """
        self.begin(ask, seconds)
        while (answers := self.turn()) is None:
            if self.turned_away and self._answers is not None:
                answers, self._ask, self._answers = self._answers, None, None
                return answers
            if self._answers is None:
                time.sleep(_POLL_SECONDS)
            else:
                wait(self._answers.values(), _POLL_SECONDS)
        return answers

    def close(self) -> None:
        """Forget the question, and close the client, with whatever it waits for; the next question has a new one."""
        self._ask, self._answers = None, None
        self._close_client()

    def _close_client(self) -> None:
        self._client, self._has_lost_a_broker = None, False

    def _note(self, error: KafkaError) -> None:
        # "All brokers are down" is less specific than the error before it.
        if error.name() != "_ALL_BROKERS_DOWN" or not self.last_error:
            self.last_error = error.str()
        self.turned_away |= error.name() in {"_AUTHENTICATION", "_SSL"}
        self._has_lost_a_broker |= error.name() in _LOST


def _is_of_a_broker(answer: Future[Any]) -> bool:
    """Whether a broker has answered, if only by refusing; the client's own errors have negative codes."""
    fault = answer.exception()
    error = fault.args[0] if isinstance(fault, KafkaException) and fault.args else None
    return fault is None or (isinstance(error, KafkaError) and error.code() >= 0)
