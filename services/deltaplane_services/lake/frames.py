"""What passes between a command and the processes that sum files for it: a line of JSON, and byte strings behind it.

Nothing in it is code: a process can be killed, or write nonsense, and its command says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

__all__ = ["Frame", "read_frame", "write_frame"]

_LINE_BYTES = 2**26


class Frame(NamedTuple):
    """``head`` in plain values of JSON, and ``parts`` in bytes."""

    head: Mapping[str, Any]
    parts: Sequence[bytes]


def write_frame(file: IO[bytes], head: Mapping[str, Any], *parts: bytes) -> None:
    """Write one frame, so that the reader has all of it."""
    line = json.dumps({**head, "sizes": [len(part) for part in parts]}).encode()
    file.write(b"".join((line, b"\n", *parts)))
    file.flush()


def read_frame(file: IO[bytes]) -> Frame | None:
    """The next frame; None at the end of the file. Raises ValueError for anything else, and for one that is cut off."""
    line = file.readline(_LINE_BYTES)
    if not line:
        return None
    head = json.loads(line)
    parts = []
    for size in head.pop("sizes"):
        parts.append(file.read(size))
        if len(parts[-1]) < size:
            raise ValueError(f"a part of {size} bytes is cut off after {len(parts[-1])}")
    return Frame(head, parts)
