"""Announcements: a writer's definition, sent as a header of its records, which readers of other definitions show.

Headers are no part of a message, so that announcements change no byte of it, and no digest.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TypeAlias

from confluent_kafka import Message

from deltaplane.stream.mismatch import ANNOUNCEMENT_BYTES
from deltaplane_services.processors.topics import TOPICS

__all__ = ["EVERY_SECONDS", "HEADER", "Announcements", "Headers", "announced_by", "announced_in"]

HEADER = "deltaplane-definition"

EVERY_SECONDS = 60.0
"""Seconds between two announcements in one partition, on topics with many records."""

_ALWAYS = frozenset(name for name, topic in TOPICS.items() if topic.announced == "always")
_SOMETIMES = frozenset(name for name, topic in TOPICS.items() if topic.announced == "sometimes")
"""Topics whose records carry it always, and now and then. Queries never do, since answers return their headers."""

Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class Announcements:
    """Decides which records of one publisher carry its announcement; none does if it is empty or too long."""

    def __init__(self, announcement: bytes) -> None:
        self._headers: Headers = [(HEADER, announcement)] if 0 < len(announcement) <= ANNOUNCEMENT_BYTES else []
        self._announced: dict[tuple[str, int], float] = {}

    def always(self) -> Headers:
        """The headers of a record that always carries the announcement, such as a claim."""
        return self._headers

    def beside(self, topic: str, partition: int) -> Headers:
        """The headers of the next record in a partition of ``topic``, which is without the stream's prefix."""
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
    """The announcement in a message's headers; None if there is none, or it is too long."""
    try:
        headers = message.headers()
    except (UnicodeDecodeError, SystemError):
        # If the name of one header is no text, the client returns none of them.
        return None
    return announced_in(headers.items() if isinstance(headers, dict) else headers or ())


def announced_in(headers: Collection[tuple[str, str | bytes | None]]) -> bytes | None:
    """The announcement in headers that were read; None if there is none, or it is too long."""
    if not headers:
        return None
    found = next((value for name, value in headers if name == HEADER), None)
    return found if isinstance(found, bytes) and len(found) <= ANNOUNCEMENT_BYTES else None
