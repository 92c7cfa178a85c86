"""The partition that an id belongs to: the rule by which every producer of a stream places samples and retirements.

All versions of a row, and the retirement of it, must meet in one partition. So the partition follows from the id alone,
by Kafka's own default: what Java's producer, kafkajs, and librdkafka's ``murmur2`` make of a key.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from deltaplane.arrays import Int64s, UInt32s

__all__ = ["PARTITIONERS", "Partitioner", "murmur2", "murmur2_each", "partition_of", "partitions_of"]

Partitioner = Literal["murmur2", "crc32"]
"""``murmur2``: Kafka's default. ``crc32``: librdkafka's ``consistent``, the rule of streams that were begun before."""

PARTITIONERS: tuple[Partitioner, ...] = ("murmur2", "crc32")

_SEED, _FACTOR, _WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF
_FEW = 16
"""So many ids are hashed one by one: array operations would take longer to begin."""

_LONG = 1024
"""Characters beyond which ids are hashed one by one: no sample may have such an id, and every four bytes are a step."""

_TAILS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)


def partition_of(sample_id: str, partitions: int, partitioner: Partitioner = "murmur2") -> int:
    """The partition, from 0, of samples and retirements with this id: a hash of its UTF-8 bytes."""
    data = sample_id.encode()
    return (zlib.crc32(data) if partitioner == "crc32" else murmur2(data) & 0x7FFFFFFF) % partitions


def partitions_of(ids: Sequence[str], partitions: int, partitioner: Partitioner = "murmur2") -> Int64s:
    """int64[n]: the partition of each of n ids, as :func:`partition_of` has it."""
    if partitions == 1:
        return np.zeros(len(ids), dtype=np.int64)
    if partitioner == "crc32":
        codes = np.fromiter((zlib.crc32(one.encode()) for one in ids), dtype=np.uint32, count=len(ids))
    else:
        codes = murmur2_each(ids) & np.uint32(0x7FFFFFFF)
    return (codes % np.uint32(partitions)).astype(np.int64)


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit MurmurHash2 of a key, from 0; Java has the same 32 bits with a sign."""
    code = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> 24) * _FACTOR & _WORD
        code = code * _FACTOR & _WORD ^ word
    if whole < len(data):
        code = (code ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _WORD
    code = (code ^ code >> 13) * _FACTOR & _WORD
    return code ^ code >> 15


def murmur2_each(texts: Sequence[str]) -> UInt32s:
    """uint32[n]: :func:`murmur2` of the UTF-8 bytes of n texts, a word of all of them at a time."""
    count = len(texts)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=count)
    if count < _FEW or lengths.max() > _LONG:
        return np.fromiter((murmur2(text.encode()) for text in texts), dtype=np.uint32, count=count)
    joined = "".join(texts)
    data = joined.encode()
    if len(data) > len(joined):
        lengths = np.fromiter((len(text.encode()) for text in texts), dtype=np.int64, count=count)
    starts = np.cumsum(lengths) - lengths
    # Where the longest come first, those that have another word are always the first ones.
    order = None if lengths.min() == lengths.max() else np.argsort(-lengths, kind="stable")
    if order is not None:
        lengths, starts = lengths[order], starts[order]
    # The four bytes from every byte on, as one word; behind the last text they are zeros.
    words: UInt32s = np.ndarray((len(data) + 1,), "<u4", data + b"\0\0\0\0", strides=(1,)).astype(np.uint32)
    factor, whole = np.uint32(_FACTOR), lengths >> 2
    fewer = -whole
    codes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    for at in range(int(whole[0])):
        some = count if order is None else int(np.searchsorted(fewer, -at))
        word = words[starts[:some] + 4 * at] * factor
        word = (word ^ word >> np.uint32(24)) * factor
        codes[:some] = codes[:some] * factor ^ word
    rest = lengths & 3
    tails = words[starts + 4 * whole] & _TAILS[rest]
    codes = np.where(rest > 0, (codes ^ tails) * factor, codes)
    codes = (codes ^ codes >> np.uint32(13)) * factor
    codes ^= codes >> np.uint32(15)
    if order is None:
        return codes
    in_order = np.empty_like(codes)
    in_order[order] = codes
    return in_order
