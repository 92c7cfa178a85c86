"""What the client's errors mean to a reader of logs: which pass by themselves, and which it cannot go on after."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.client_errors import Answer, codes
from deltaplane_services.kafka.membership import ANYBODY, Party, is_refusal

__all__ = [
    "REQUEST_TIMEOUT_SECONDS",
    "SETTLING_SECONDS",
    "UNKNOWN",
    "LogUnavailable",
    "is_end",
    "is_of_group",
    "is_passing",
    "patience",
    "raise_if_error",
    "text_of",
]

REQUEST_TIMEOUT_SECONDS = 30.0
SETTLING_SECONDS = 5.0
"""How long a topic that was just made may be unknown to a broker."""


class LogUnavailable(DeltaplaneError):
    """A topic cannot be read: it is missing, out of reach, or its beginning is gone."""


_PASSING, UNKNOWN = codes(Answer.PASSES), codes(Answer.SETTLES)


def is_end(message: Message) -> bool:
    """Whether a message says that the end of its partition has been reached, at its offset."""
    error = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def is_of_group(message: Message) -> bool:
    """Whether a message says that the client's group is closed to it: a reader by offset has no use for its group."""
    error = message.error()
    return error is not None and error.name() == "GROUP_AUTHORIZATION_FAILED"


def patience(fault: KafkaException) -> float:
    """For how many seconds a call may be made again: a broker is away, or leadership is moving."""
    error = fault.args[0] if fault.args else None
    if not isinstance(error, KafkaError):
        return 0.0
    if error.code() in UNKNOWN:
        return SETTLING_SECONDS
    return REQUEST_TIMEOUT_SECONDS if error.code() in _PASSING or error.retriable() else 0.0


def text_of(fault: KafkaException) -> str:
    """What a fault says, and its name."""
    error = fault.args[0] if fault.args else None
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(fault)


def is_passing(message: Message) -> bool:
    """Whether a message is an event that the client gets over by itself: the end of a partition, a broker away."""
    error = message.error()
    return error is not None and error.code() in _PASSING


def raise_if_error(message: Message, party: Party = ANYBODY) -> None:
    """Raise :class:`LogUnavailable` where a message is an error that reading cannot go on after.

    :class:`NotAllowed` where ``party`` may not read what it tried to read.
    """
    error = message.error()
    if error is None:
        return
    if is_refusal(error):
        raise party.may_not("Read", f"topic {message.topic()}" if message.topic() else f"group {party.group}", error)
    raise LogUnavailable(
        f"{message.topic()}-{message.partition()}: {error.str()} ({error.name()}); where the offset is out of range,"
        " retention has eaten records that are still needed"
    )
