"""A producer by hand: one record batch of Kafka's second format, byte by byte, as anyone who may write can send it.

The clients number the records of a batch 0, 1, 2 …; here the numbers are whatever a test says.
"""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Sequence

import pyarrow as pa

from kafka.clients import PATIENCE_SECONDS

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Names of codecs, and the attribute of a batch that says which it is packed by."""

_HEADER_BYTES = 4 + 1 + 4
"""Leader epoch, format, and checksum: what the length of a batch counts beside what is checked."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def _checksum(data: bytes) -> int:
    """CRC-32C, by Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """A number as Kafka writes it in a record: zigzag, seven bits a byte."""
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def batch(values: Sequence[bytes], deltas: Sequence[int], codec: str = "none") -> bytes:
    """A batch of records without keys, each with the offset within the batch that ``deltas`` says."""
    records = b"".join(record(value, delta) for value, delta in zip(values, deltas, strict=True))
    return batch_of(len(values), packed(records, codec), codec)


def batch_of(count: int, content: bytes, codec: str) -> bytes:
    """A batch that says that it holds so many records, packed by a codec, whatever its content is."""
    now = time.time_ns() // 1_000_000
    head = struct.pack(">hiqqqhii", CODECS[codec], count - 1, now, now, -1, -1, -1, count)
    checked = head + content
    return struct.pack(">qiibI", 0, _HEADER_BYTES + len(checked), -1, 2, _checksum(checked)) + checked


def record(value: bytes, delta: int, key_length: int = -1, key: bytes = b"", value_length: int | None = None) -> bytes:
    """A record without headers. ``key_length`` is what it says of a key that is not there, -1 by rights.

    ``value_length`` is what it says of the length of its value, which is the length by rights.
    """
    length = len(value) if value_length is None else value_length
    body = b"\0\0" + varint(delta) + varint(len(key) or key_length) + key + varint(length) + value + b"\0"
    return varint(len(body)) + body


def packed(records: bytes, codec: str) -> bytes:
    """Records as a codec packs them."""
    if codec == "none":
        return records
    return gzip.compress(records) if codec == "gzip" else bytes(pa.Codec(codec).compress(records, asbytes=True))


_NOT_YET = {3, 5, 6}
"""Error codes of a topic that was just made: its broker has not heard of it, or that it leads it."""


def produce(bootstrap: str, topic: str, record_batch: bytes, partition: int = 0) -> tuple[int, int]:
    """Send a batch: the broker's error code (0 is none), and the offset that it gave the first record."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := _ask(bootstrap, topic, record_batch, partition))[0] in _NOT_YET:
        assert time.monotonic() < deadline, f"{topic} is not there"
        time.sleep(0.05)
    return answer


def _ask(bootstrap: str, topic: str, record_batch: bytes, partition: int) -> tuple[int, int]:
    host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", maxsplit=1)
    name = topic.encode()
    asked = struct.pack(">hhi", -1, -1, 30_000) + struct.pack(">ih", 1, len(name)) + name
    asked += struct.pack(">iii", 1, partition, len(record_batch)) + record_batch
    request = struct.pack(">hhih", 0, 7, 1, -1) + asked
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        answer = _exactly(connection, size)
    # Correlation, one topic with its name, one partition: index, error, offset.
    at = 4 + 4 + 2 + len(name) + 4
    _, error, offset = struct.unpack(">ihq", answer[at : at + 14])
    return error, offset


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, "the broker has closed the connection"
        data += piece
    return data
