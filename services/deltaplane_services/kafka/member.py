"""A member of a consumer group that gets back into the group after it was dropped.

If a group has dropped a client (its process or the broker was frozen), the client asks to join again by itself. If a
broker was frozen for most of a minute, that request has been seen to be lost: the group was empty, the client waited
for an answer (for up to max.poll.interval.ms, five minutes), and a merger that called itself ready was not elected. So
a member that has waited for half a minute asks again, with a new client.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

__all__ = ["JOIN_SECONDS", "Change", "Member"]

logger = logging.getLogger(__name__)

JOIN_SECONDS = 30.0
"""How long a member waits to join before it asks with a new client. The group may have reason to let it wait (a member
that is busy holds up all others, for up to max.poll.interval.ms); asking again does no harm then."""

Change = Callable[[Consumer, list[TopicPartition]], None]


def _nothing(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Leave the change to the client."""


class Member:
    """A member that subscribes to ``topics``, with a client from ``make``.

    ``assigned``, ``revoked`` and ``lost`` are called, within :meth:`consume`, when partitions come and go, and ``lost``
    when the client that had them is replaced. ``joined``: whether the group has given this member its partitions,
    perhaps none, and has not taken them back. ``client`` is the client in use, which the next :meth:`consume` may
    replace.
    """

    def __init__(
        self,
        make: Callable[[], Consumer],
        topics: Sequence[str],
        *,
        assigned: Change = _nothing,
        revoked: Change = _nothing,
        lost: Change = _nothing,
    ) -> None:
        self.client = make()
        self.joined = False
        self._make, self._topics = make, list(topics)
        self._assigned, self._revoked, self._lost = assigned, revoked, lost
        self._asked_at: float | None = None
        self._given: list[TopicPartition] = []

    @property
    def asked(self) -> bool:
        """Whether this member has asked to join."""
        return self._asked_at is not None

    def join(self) -> None:
        """Ask to join the group."""
        self.joined, self._asked_at = False, time.monotonic()
        self.client.subscribe(
            self._topics,
            on_assign=self._noting(self._assigned, joined=True),
            on_revoke=self._noting(self._revoked, joined=False),
            on_lost=self._noting(self._lost, joined=False),
        )

    def _noting(self, change: Change, *, joined: bool) -> Change:
        def told(consumer: Consumer, places: list[TopicPartition]) -> None:
            # A client that was replaced may still call, even from another thread; that is ignored.
            if consumer is self.client:
                self.joined, self._asked_at = joined, time.monotonic()
                self._given = places if joined else []
                change(consumer, places)

        return told

    def join_anew(self) -> None:
        """Ask to join with a new client, and close the old one in the background.

        What the group had given to the old one is lost: it may give the new one other partitions, and takes none back.
        """
        old, self.client = self.client, self._make()
        if given := self._given:
            self._given = []
            self._lost(old, given)
        # Closing may wait for a broker that does not answer.
        threading.Thread(target=_leave, args=(old,), name="deltaplane-leaving", daemon=True).start()
        self.join()

    def consume(self, most: int, timeout_seconds: float) -> list[Message]:
        """At most ``most`` messages, within ``timeout_seconds``. Raises what the client raises."""
        if not self.joined and self._asked_at is not None and time.monotonic() - self._asked_at > JOIN_SECONDS:
            logger.warning(
                "%s: not let into the group for %.0f s; asking anew, with a new client", self._topics, JOIN_SECONDS
            )
            self.join_anew()
        return self.client.consume(most, timeout=timeout_seconds)

    def close(self) -> None:
        """Leave the group."""
        self.client.close()


def _leave(client: Consumer) -> None:
    with contextlib.suppress(KafkaException):
        client.close()
