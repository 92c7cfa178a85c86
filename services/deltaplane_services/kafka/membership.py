"""The errors that end a client for good: its group has shut it out, or the brokers do not allow its work.

Neither passes by itself, so neither is tried again: the service ends with a message, and a start of it says what is
missing (start.py). A reader that went on would get the error once, and then nothing for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.client_errors import Answer, codes

__all__ = ["ANYBODY", "REFUSALS", "MembershipLost", "NotAllowed", "Principal", "is_refusal", "refuse_fatal"]

REFUSALS = codes(Answer.ENDS_REFUSED)
"""The codes of the errors that say that a client has no right to something. The last of them is what a client gets that
may not write any topic."""


class MembershipLost(DeltaplaneError):
    """A group that has shut this member out for good."""


class NotAllowed(DeltaplaneError):
    """A client that the brokers do not allow to do its work."""


@dataclass(frozen=True)
class Principal:
    """The principal of a client, as far as the client knows it, and its consumer group."""

    who: str = "this client"
    group: str = "(its own)"

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Principal:
        """The principal of a client with these properties; only names are read from them, and no password."""
        group = str(properties.get("group.id", "(none)"))
        if user := properties.get("sasl.username"):
            return cls(f"user {str(user)[:100]!r}", group)
        for name in ("ssl.certificate.location", "ssl.keystore.location"):
            if name in properties:
                return cls(f"the holder of {properties[name]}", group)
        return cls("this client, which gave no name,", group)

    def not_allowed(self, operation: str, what: str, error: object = None) -> NotAllowed:
        """The error to raise if the brokers refuse an operation on ``what``."""
        said = f" ({error.name()})" if isinstance(error, KafkaError) else ""
        return NotAllowed(
            f"kafka: {self.who} may not {operation} {what}{said}; what each role needs is printed by: deltaplane topics"
            " acls"
        )


ANYBODY = Principal()


def is_refusal(error: object) -> bool:
    """Whether an error says that a right is missing."""
    return isinstance(error, KafkaError) and error.code() in REFUSALS


def refuse_fatal(errors: Iterable[object], party: Principal = ANYBODY) -> None:
    """Raise :class:`MembershipLost` if after one of these errors the client can do nothing more.

    In a poll such an error comes once, is not marked as fatal, and may stand behind others. Raises :class:`NotAllowed`
    if ``party`` may not use its group.
    """
    for error in errors:
        if not isinstance(error, KafkaError):
            continue
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise party.not_allowed("Read", f"group {party.group}", error)
        if error.fatal() or error.name() == "_FATAL":
            raise MembershipLost(
                f"kafka: {error.str()} ({error.name()}); this member cannot go on. If another process runs under the"
                " same instance name, give each its own; otherwise start this one again"
            )
