"""``Sample`` messages by the ten thousand: the one record that is written and read for every single row.

The problem: the general decoder makes a Python object of each feature and a batch of each message, which takes ten
times as long as all that is done with the row afterwards. How it is solved: any Avro library writes a ``Sample`` in one
shape,

    header, fingerprint | id | event time | label | features in one block: their number, d x float64, end of blocks

so that a message of this shape is cut by position, and the features of many messages become one array at once. Any
other message (several blocks, a long label, damage) is left to the general decoder. A test compares the two, byte for
byte.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from deltaplane.stream.sample import Samples

__all__ = ["SingleSamples", "encoded_bytes", "encoded_long", "encoded_sample"]

_SHORT = 0x81
"""Bits that are 0 in the first byte of a text's length if the length takes one byte: the sign, and 'more follows'."""

_LAST_SHIFT = 56
"""The shift of the ninth byte of a long; after it, only a tenth byte may come."""


def encoded_long(value: int) -> bytes:
    """The bytes of an Avro long: zigzag, seven bits a byte, lowest first. Raises OverflowError beyond int64."""
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} does not fit int64")
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encoded_bytes(data: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    """The two parts of Avro bytes, or of a text in UTF-8: their number, and the bytes themselves."""
    return encoded_long(len(data)), data


def encoded_sample(head: bytes, sample_id: str, event_time: int, label: str, features: Sequence[float]) -> bytes:
    """A ``Sample`` message that begins with ``head``, its header and fingerprint.

    Raises AttributeError, OverflowError, TypeError, UnicodeEncodeError or struct.error for a value of the wrong type,
    or beyond its range.
    """
    name, word, count = sample_id.encode(), label.encode(), len(features)
    block = encoded_long(count) + struct.pack(f"<{count}d", *features) if count else b""
    return b"".join((head, *encoded_bytes(name), encoded_long(event_time), *encoded_bytes(word), block, b"\0"))


class SingleSamples:
    """Gathers ``Sample`` messages of the usual shape and d = ``features``; each must begin with ``head``.

    ``head`` is the header and the data fingerprint.
    """

    def __init__(self, head: bytes, features: int) -> None:
        self._head = head
        self._features = features
        self._count = encoded_long(features)
        # Bytes of a message after its label: the number of features, the features, and the end of blocks.
        self._tail = len(self._count) + 8 * features + 1
        self._clear()

    def _clear(self) -> None:
        self._ids: list[str] = []
        self._times: list[int] = []
        self._codes: list[int] = []
        self._table: dict[str, int] = {}
        self._blocks: list[bytes] = []
        self._offsets: list[int] = []
        self._log_times: list[int] = []

    def __len__(self) -> int:
        return len(self._ids)

    def take(self, data: bytes | None, offset: int, log_time: int) -> bool:
        """Whether a message was taken, which lies at ``offset`` and was appended at ``log_time``, in milliseconds.

        A message of another shape is not taken. This never raises.
        """
        head, tail = len(self._head), self._tail
        if data is None or not data.startswith(self._head) or data[-1:] != b"\0" or len(data) < head + 3 + tail:
            return False
        stop = len(data) - tail
        if not data.startswith(self._count, stop) or data[head] & _SHORT:
            return False
        at = head + 1 + (data[head] >> 1)
        try:
            sample_id = data[head + 1 : at].decode()
            shift = zigzag = 0
            while data[at] & 0x80:
                if shift > _LAST_SHIFT:
                    return False
                zigzag |= (data[at] & 0x7F) << shift
                shift += 7
                at += 1
            zigzag |= data[at] << shift
            length = data[at + 1]
            if length & _SHORT or at + 2 + (length >> 1) != stop or zigzag >> 64:
                return False
            label = data[at + 2 : stop].decode()
        except (IndexError, UnicodeDecodeError):
            return False
        self._ids.append(sample_id)
        self._times.append((zigzag >> 1) ^ -(zigzag & 1))
        self._codes.append(self._table.setdefault(label, len(self._table)))
        self._blocks.append(data[stop + len(self._count) : -1])
        self._offsets.append(offset)
        self._log_times.append(log_time)
        return True

    def samples(self) -> Samples:
        """The rows that were taken since the last call, as one batch."""
        count = len(self)
        samples = Samples(
            ids=self._ids,
            event_times=np.array(self._times, dtype=np.int64),
            label_table=tuple(self._table),
            label_codes=np.array(self._codes, dtype=np.int32),
            features=np.frombuffer(b"".join(self._blocks), dtype="<f8").reshape(count, self._features),
            offsets=np.array(self._offsets, dtype=np.int64),
            rows=np.zeros(count, dtype=np.int64),
            log_times=np.array(self._log_times, dtype=np.int64),
        )
        self._clear()
        return samples
