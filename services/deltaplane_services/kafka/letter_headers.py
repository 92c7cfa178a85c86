"""Headers of dead letters: those of the refused record, and behind them where it came from and why it was refused.

The latter have the names that Kafka Connect gives them, so that tools for its dead letters read ours, too.
"""

from __future__ import annotations

from deltaplane.log.records import DeadLetter
from deltaplane_services.processors.messages import DEAD_LETTERS, TOPICS, Headers, Outgoing

__all__ = ["headers_beside", "original_headers"]

_FIRST = "__connect.errors.topic"
_BEFORE = "__connect.errors."


def headers_beside(record: Outgoing, before: str) -> Headers:
    """The headers that say where the cause of a dead letter lies; none for another record.

    ``before`` stands before the names of the stream's own topics.
    """
    letter = record.message
    if record.topic != DEAD_LETTERS or not isinstance(letter, DeadLetter):
        return ()
    topic = f"{before}{letter.topic}" if letter.topic in TOPICS else letter.topic
    said = {
        "topic": topic,
        "partition": str(letter.partition),
        "offset": str(letter.offset),
        "exception.class.name": letter.kind,
        "exception.message": letter.reason,
    }
    return tuple((f"{_BEFORE}{name}", value.encode("utf-8", "replace")) for name, value in said.items())


def original_headers(headers: Headers) -> Headers | None:
    """The headers of a refused record, of all that its letter has; None of a letter that does not say.

    What a record brings may have these names, too, if it was a dead letter before: ours are the last ones.
    """
    at = next((at for at in reversed(range(len(headers))) if headers[at][0] == _FIRST), None)
    return None if at is None else headers[:at]
