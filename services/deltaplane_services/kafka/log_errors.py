"""The errors of the client, as a reader of logs treats them: those that pass by themselves, and those that end it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.client_errors import PASSING, Answer, codes
from deltaplane_services.kafka.membership import ANYBODY, Principal, is_refusal

__all__ = [
    "REQUEST_TIMEOUT_SECONDS",
    "SETTLING_SECONDS",
    "UNKNOWN",
    "LogUnavailable",
    "RecordsDeleted",
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
    """A topic that cannot be read: it is missing or out of reach, or its beginning is gone."""


class RecordsDeleted(LogUnavailable):
    """Records that were there when a reader chose where to begin have been deleted since."""


_DELETED = {"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"}

UNKNOWN = codes(Answer.SETTLES)


def is_end(message: Message) -> bool:
    """Whether a message is the event that the end of its partition, its offset, has been reached."""
    error = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def is_of_group(message: Message) -> bool:
    """Whether a message is the error that the client may not use its group, which a reader by offset does not need."""
    error = message.error()
    return error is not None and error.name() == "GROUP_AUTHORIZATION_FAILED"


def patience(fault: KafkaException) -> float:
    """The seconds for which a call that failed may be repeated; 0 if the fault does not pass by itself."""
    error = fault.args[0] if fault.args else None
    if not isinstance(error, KafkaError):
        return 0.0
    if error.code() in UNKNOWN:
        return SETTLING_SECONDS
    return REQUEST_TIMEOUT_SECONDS if error.code() in PASSING or error.retriable() else 0.0


def text_of(fault: KafkaException) -> str:
    """The message of a fault, with the name of its error."""
    error = fault.args[0] if fault.args else None
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(fault)


def is_passing(message: Message) -> bool:
    """Whether a message is an error that passes by itself, or an event: the end of a partition, a broker away."""
    error = message.error()
    return error is not None and error.code() in PASSING


def raise_if_error(message: Message, party: Principal = ANYBODY) -> None:
    """Raise :class:`LogUnavailable` if a message is an error, and :class:`NotAllowed` if it is about missing rights."""
    error = message.error()
    if error is None:
        return
    if is_refusal(error):
        raise party.not_allowed(
            "Read", f"topic {message.topic()}" if message.topic() else f"group {party.group}", error
        )
    raise (RecordsDeleted if error.name() in _DELETED else LogUnavailable)(
        f"{message.topic()}-{message.partition()}: {error.str()} ({error.name()}); if the offset is out of range,"
        " retention has deleted records that are still needed"
    )
