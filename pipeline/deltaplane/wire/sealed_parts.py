"""Several byte strings as one that shows when it is damaged: the form of files of streams and of histories.

magic, then parts of 8 bytes of length and the part itself, then the SHA-256 of all before it
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator

from deltaplane.errors import WireError

__all__ = ["open_sealed", "seal"]

_DIGEST_BYTES = 32


def seal(magic: bytes, parts: Iterable[bytes]) -> bytes:
    """The bytes of some parts, in order, behind the ``magic`` that says what they are."""
    body = magic + b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return body + hashlib.sha256(body).digest()


def open_sealed(what: str, magic: bytes, data: bytes, cure: str) -> Iterator[bytes]:
    """The parts that :func:`seal` was given; ``what`` begins the message of an error, and ``cure`` ends it.

    Raises :class:`WireError` for bytes of another kind, and for bytes that were changed or cut off.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(magic):
        raise WireError(f"{what}: expected bytes that begin with {magic!r}, got {data[:32]!r}; {cure}")
    if hashlib.sha256(body).digest() != digest:
        raise WireError(f"{what}: its {len(data)} bytes are not those that were written; {cure}")
    at = len(magic)
    while at < len(body):
        (length,) = struct.unpack_from("<Q", body, at) if at + 8 <= len(body) else (len(body),)
        if at + 8 + length > len(body):
            raise WireError(f"{what}: expected a part of {length} bytes at {at}, got fewer; {cure}")
        yield body[at + 8 : at + 8 + length]
        at += 8 + length
