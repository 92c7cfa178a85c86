"""What ends a client for good: a group that has shut it out, and brokers that do not allow what it is there for.

Neither passes by itself, so neither is tried again: the service ends with a message, and whoever starts it again is
told at the start what is missing (start.py). A reader that went on would be told once, and then hear nothing for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.client_errors import Answer, codes

__all__ = ["ANYBODY", "REFUSALS", "MembershipLost", "NotAllowed", "Party", "is_refusal", "refuse_fatal"]

REFUSALS = codes(Answer.ENDS_REFUSED)
"""Codes of the errors by which brokers say that somebody may not do something. The last is what a client hears that
may write no topic at all."""


class MembershipLost(DeltaplaneError):
    """The group has shut this member out for good."""


class NotAllowed(DeltaplaneError):
    """The brokers do not allow this client what it is there for."""


@dataclass(frozen=True)
class Party:
    """Whom the brokers take a client for, as far as it knows itself, and its consumer group."""

    who: str = "this client"
    group: str = "(its own)"

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Party:
        """The party that a client of these properties is. A name is no secret; a password is, and is not looked at."""
        group = str(properties.get("group.id", "(none)"))
        if user := properties.get("sasl.username"):
            return cls(f"user {str(user)[:100]!r}", group)
        for name in ("ssl.certificate.location", "ssl.keystore.location"):
            if name in properties:
                return cls(f"the holder of {properties[name]}", group)
        return cls("this client, which gave no name,", group)

    def may_not(self, operation: str, what: str, error: object = None) -> NotAllowed:
        """What to raise where the brokers refuse an operation on ``what``."""
        said = f" ({error.name()})" if isinstance(error, KafkaError) else ""
        return NotAllowed(
            f"kafka: {self.who} may not {operation} {what}{said}; what each role needs is printed by: deltaplane topics"
            " acls"
        )


ANYBODY = Party()


def is_refusal(error: object) -> bool:
    """Whether an error says that somebody may not do something."""
    return isinstance(error, KafkaError) and error.code() in REFUSALS


def refuse_fatal(errors: Iterable[object], party: Party = ANYBODY) -> None:
    """Raise :class:`MembershipLost` if one of these is an error after which the client is of no use any more.

    In a poll such an error comes once, is not marked as fatal, and may stand behind others. :class:`NotAllowed` where
    the group is closed to ``party``.
    """
    for error in errors:
        if not isinstance(error, KafkaError):
            continue
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise party.may_not("Read", f"group {party.group}", error)
        if error.fatal() or error.name() == "_FATAL":
            raise MembershipLost(
                f"kafka: {error.str()} ({error.name()}); this member cannot go on. If another process runs under the"
                " same instance name, give each its own; otherwise start this one again"
            )
