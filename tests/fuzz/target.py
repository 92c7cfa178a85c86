"""What a target of the fuzzer is, and what may come of an input."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltaplane.errors import DeltaplaneError


class Broken(Exception):
    """A target did not stop at an input, and went wrong all the same: the text says how."""


Reshape = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """Something that takes bytes from outside.

    ``take`` reads an input and uses what it has read; it gives a word for what came of it, raises a DeltaplaneError
    where it refuses, and anything else is a crash. ``reshape`` damages an input where it knows what it means, such as
    one field of a record. ``share`` of all inputs go here, relative to those of others.
    """

    name: str
    seeds: Sequence[bytes]
    take: Callable[[bytes], str]
    share: float = 1.0
    words: Sequence[bytes] = field(default=())
    reshape: Reshape | None = None

    def outcome(self, data: bytes) -> str:
        """What comes of an input, in a word or two. Whatever is no refusal is raised."""
        try:
            return self.take(data)
        except DeltaplaneError as refusal:
            if not str(refusal):
                raise Broken("a refusal without a word") from refusal
            return f"refused: {type(refusal).__name__}"
