"""When a group has shut a member out for good: a fenced static member, or a client that is broken beyond repair."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError

from deltaplane.errors import DeltaplaneError


class MembershipLost(DeltaplaneError):
    """The group has shut this member out for good."""


def refuse_fatal(errors: Iterable[object]) -> None:
    """Raise :class:`MembershipLost` if one of these is an error after which the client is of no use any more.

    In a poll such an error comes once, is not marked as fatal, and may stand behind others.
    """
    for error in errors:
        if isinstance(error, KafkaError) and (error.fatal() or error.name() == "_FATAL"):
            raise MembershipLost(
                f"kafka: {error.str()} ({error.name()}); this member cannot go on. If another process runs under the"
                " same instance name, give each its own; otherwise start this one again"
            )
