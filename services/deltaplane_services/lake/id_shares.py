"""Which rows of a table do not count, told bucket by bucket: for an engine none of whose tasks sees all ids.

An id has its bucket by its CRC-32, so that all versions of it are in one. Who reads rows passes their ids on in
*shares*, one for each bucket; who gets all shares of a bucket applies the rules of
:mod:`deltaplane_services.lake.last_versions`. A share is four strings of bytes, 20 bytes a row beside its id.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.stream.sample import AdmittedSamples
from deltaplane_services.lake.file_sums import hashes_of
from deltaplane_services.lake.last_versions import LastBy, Losers, Versions, losers_of, suspects_of

__all__ = ["Share", "Shares", "bucket_of", "losers_of_bucket"]

_ROWS_AT_ONCE, _BYTES_AT_ONCE = 2**18, 2**24
"""Of so many rows or bytes of ids the shares are passed on: they are small beside what a process takes anyway."""


def _bytes_of(sample_id: str) -> bytes:
    return sample_id.encode("utf-8", "surrogatepass")


def bucket_of(sample_id: str, buckets: int) -> int:
    """The bucket of an id, the same in every process."""
    return zlib.crc32(_bytes_of(sample_id)) % buckets


class Share(NamedTuple):
    """Rows of one portion of a table and of one bucket, in order.

    ``ids``: the ids one behind the other in UTF-8; ``lengths``: int32[n] of these, in bytes. ``ordinals``: int64[n];
    ``times``: int64[n] in milliseconds.
    """

    ids: bytes
    lengths: bytes
    ordinals: bytes
    times: bytes

    @property
    def ends(self) -> Int64s:
        """int64[n]: where each id ends."""
        return np.cumsum(np.frombuffer(self.lengths, dtype=np.int32), dtype=np.int64)

    def each_id(self) -> Iterator[bytes]:
        """The ids, one after the other."""
        ends = self.ends.tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            yield self.ids[begin:end]


class Shares:
    """Gathers the ids of one portion's rows by bucket."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._first = 0
        self._begin()

    def _begin(self) -> None:
        self._ids: list[bytes] = []
        self._times: list[Int64s] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether they should be passed on now."""
        return len(self._ids) >= _ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE

    def add(self, admitted: AdmittedSamples) -> None:
        """Take the next admitted rows of the portion."""
        ids = [_bytes_of(one) for one in admitted.ids]
        self._ids += ids
        self._times.append(admitted.event_times)
        self._bytes += sum(map(len, ids))

    def take(self) -> Iterator[tuple[int, Share]]:
        """(bucket, its share) of the rows since this was called last, as far as buckets have some."""
        ids, first = self._ids, self._first
        if not ids:
            return
        times = np.concatenate(self._times)
        self._first += len(ids)
        self._begin()
        buckets = np.fromiter(map(zlib.crc32, ids), dtype=np.int64, count=len(ids)) % self._buckets
        lengths = np.fromiter(map(len, ids), dtype=np.int32, count=len(ids))
        order = np.argsort(buckets, kind="stable")
        present, begins = np.unique(buckets[order], return_index=True)
        for bucket, rows in zip(present.tolist(), np.split(order, begins[1:]), strict=True):
            of_bucket = b"".join([ids[row] for row in rows.tolist()])
            yield bucket, Share(of_bucket, lengths[rows].tobytes(), (first + rows).tobytes(), times[rows].tobytes())


def losers_of_bucket(
    shares: Sequence[tuple[int, Share]], retired: Collection[str], last_by: LastBy
) -> tuple[Mapping[int, Losers], frozenset[str]]:
    """(number of a portion to its rows that do not count, the ``retired`` ids that have rows) of one bucket.

    ``shares`` are all of the bucket, each with the number of its portion, in any order. Portions are numbered in the
    order of the table. Only ids whose hash comes twice become objects; hashes do not leave this process.
    """
    hashes = [hashes_of(share.each_id(), len(share.lengths) // 4) for _, share in shares]
    wanted = hashes_of(map(_bytes_of, retired), len(retired))
    found: dict[int, list[Versions]] = {}
    for (number, share), suspects in zip(shares, suspects_of(hashes, wanted), strict=True):
        if len(suspects):
            found.setdefault(number, []).append(_versions(share, suspects))
    versions = {number: _together(several) for number, several in found.items()}
    gone = frozenset(one for of_portion in versions.values() for one in of_portion.ids if one in retired)
    return losers_of(versions, retired, last_by), gone


def _versions(share: Share, rows: Int64s) -> Versions:
    ordinals, times = (np.frombuffer(data, dtype=np.int64)[rows] for data in (share.ordinals, share.times))
    ends = share.ends
    begins = np.concatenate([[0], ends[:-1]])
    places = zip(begins[rows].tolist(), ends[rows].tolist(), strict=True)
    ids = [share.ids[begin:end].decode("utf-8", "surrogatepass") for begin, end in places]
    return Versions(ordinals, ids, times)


def _together(several: Sequence[Versions]) -> Versions:
    """The rows of all shares of a portion in the order of their ordinals, as :class:`Losers` are."""
    ordinals = np.concatenate([one.ordinals for one in several])
    times = np.concatenate([one.times for one in several])
    ids = [sample_id for one in several for sample_id in one.ids]
    order = np.argsort(ordinals)
    return Versions(ordinals[order], [ids[at] for at in order.tolist()], times[order])
