"""The partition of an id: the rule by which every producer of a stream places samples and retirements.

All versions of a row, and its retirement, must be in one partition. So the partition follows from the id alone, by
Kafka's default partitioner, which Java's producer, kafkajs, and librdkafka's ``murmur2`` use for keys.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from deltaplane.arrays import Int64s, UInt32s

__all__ = ["PARTITIONERS", "Partitioner", "murmur2", "murmur2_each", "partition_of", "partitions_of"]

Partitioner = Literal["murmur2", "crc32"]
"""``murmur2``: Kafka's default. ``crc32``: librdkafka's ``consistent``, the rule of streams of earlier versions."""

PARTITIONERS: tuple[Partitioner, ...] = ("murmur2", "crc32")

_SEED, _FACTOR, _WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF
_FEW = 16
"""Fewer ids than this are hashed one by one, which is faster than array operations."""

_LONG = 1024
"""If an id has more characters, ids are hashed one by one: no sample may have such an id, and every four bytes would be
a step for all of them."""

_TAILS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)


def partition_of(sample_id: str, partitions: int, partitioner: Partitioner = "murmur2") -> int:
    """The partition, from 0, of samples and retirements with this id: a hash of its UTF-8 bytes."""
    data = sample_id.encode()
    return (zlib.crc32(data) if partitioner == "crc32" else murmur2(data) & 0x7FFFFFFF) % partitions


def partitions_of(ids: Sequence[str], partitions: int, partitioner: Partitioner = "murmur2") -> Int64s:
    """int64[n]: the partition of each of n ids, as by :func:`partition_of`."""
    if partitions == 1:
        return np.zeros(len(ids), dtype=np.int64)
    if partitioner == "crc32":
        codes = np.fromiter((zlib.crc32(one.encode()) for one in ids), dtype=np.uint32, count=len(ids))
    else:
        codes = murmur2_each(ids) & np.uint32(0x7FFFFFFF)
    return (codes % np.uint32(partitions)).astype(np.int64)


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit MurmurHash2 of a key, as an unsigned number; Java reads the same 32 bits with a sign."""
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
    """uint32[n]: :func:`murmur2` of the UTF-8 bytes of n texts, computed word by word for all texts at once."""
    count = len(texts)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=count)
    if count < _FEW or lengths.max() > _LONG:
        return np.fromiter((murmur2(text.encode()) for text in texts), dtype=np.uint32, count=count)
    joined = "".join(texts)
    data = joined.encode()
    if len(data) > len(joined):
        lengths = np.fromiter((len(text.encode()) for text in texts), dtype=np.int64, count=count)
    starts = np.cumsum(lengths) - lengths
    # Texts are sorted by length, the longest first, so that those with a further word are always the first ones.
    order = None if lengths.min() == lengths.max() else np.argsort(-lengths, kind="stable")
    if order is not None:
        lengths, starts = lengths[order], starts[order]
    # The four bytes from each position on, as one word; after the last text they are zeros.
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
