"""A writer's definition beside its records, as a header: what a reader with another definition shows to people.

Headers are no part of a message, so that every byte of it, and every digest, is what it was without them.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from confluent_kafka import Message

from deltaplane.stream.mismatch import ANNOUNCEMENT_BYTES
from deltaplane_services.processors.topics import TOPICS

__all__ = ["EVERY_SECONDS", "HEADER", "Announcements", "Headers", "announced_by"]

HEADER = "deltaplane-definition"

EVERY_SECONDS = 60.0
"""Of records that are many, one in so long carries it, for each partition."""

_ALWAYS = frozenset(name for name, topic in TOPICS.items() if topic.announced == "always")
_SOMETIMES = frozenset(name for name, topic in TOPICS.items() if topic.announced == "sometimes")
"""Not queries: what stands beside them comes back beside the answers."""

Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class Announcements:
    """Says which records of one publisher carry its announcement; none does where that is empty."""

    def __init__(self, announcement: bytes) -> None:
        self._headers: Headers = [(HEADER, announcement)] if 0 < len(announcement) <= ANNOUNCEMENT_BYTES else []
        self._announced: dict[tuple[str, int], float] = {}

    def always(self) -> Headers:
        """The headers of a record that carries it whenever it was carried last: a claim."""
        return self._headers

    def beside(self, topic: str, partition: int) -> Headers:
        """The headers of the next record of a topic, without the stream's prefix."""
        if topic in _ALWAYS:
            return self._headers
        if not self._headers or topic not in _SOMETIMES:
            return []
        now = time.monotonic()
        if now - self._announced.get((topic, partition), float("-inf")) < EVERY_SECONDS:
            return []
        self._announced[topic, partition] = now
        return self._headers


def announced_by(message: Message) -> bytes | None:
    """What the writer of a message says of its definition; None where it says nothing, or too much."""
    try:
        headers = message.headers()
    except (UnicodeDecodeError, SystemError):
        # Where the name of one is no text, the client makes nothing of any of them.
        return None
    if not headers:
        return None
    found = next((header[1] for header in headers if header[0] == HEADER), None)
    return found if isinstance(found, bytes) and len(found) <= ANNOUNCEMENT_BYTES else None
