"""Which rows of a table count where ids come several times: the last admitted version of each, minus the retired ids.

That is what a window over everything holds: first a row is admitted, then the last version of its id counts, then a
retired id counts no more. So a refused correction leaves the older version, and of a retired id nothing is left.

What the files add up to holds every admitted row. Of each only a hash of its id is held here; where two hashes are
equal the ids themselves are read again, and rows that do not count are taken out, exactly. So a table without repeated
ids is read once, in 8 bytes of memory a row (16 while they are sorted).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from deltaplane.arrays import Int64s

__all__ = ["LastBy", "Losers", "Versions", "losers_of", "suspects_of"]

LastBy = Literal["place", "time"]
"""What makes a version the last: its place in the table, or its event time, and of equal ones its place."""


class Versions(NamedTuple):
    """Rows of one file whose ids may come several times: their ``ordinals`` int64[n], ids, and ``times`` int64[n]."""

    ordinals: Int64s
    ids: Sequence[str]
    times: Int64s


class Losers(NamedTuple):
    """Rows of one file that do not count, by their ordinals int64[n], which ascend: older versions, and retired ids."""

    replaced: Int64s
    retired: Int64s


def suspects_of(hashes: Sequence[Int64s], retired: Int64s) -> list[Int64s]:
    """For each file the ordinals of its rows whose hash comes twice in all, or is that of a retired id.

    ``hashes`` int64[rows] are those of each file's rows, ``retired`` int64[k] those of the retired ids.
    """
    every = np.concatenate([np.zeros(0, dtype=np.int64), *hashes])
    every.sort()
    wanted = np.union1d(every[1:][every[1:] == every[:-1]], retired)
    if not len(wanted):
        return [np.zeros(0, dtype=np.int64) for _ in hashes]
    return [np.flatnonzero(np.isin(of_file, wanted)).astype(np.int64) for of_file in hashes]


def losers_of(versions: Mapping[int, Versions], retired: Collection[str], last_by: LastBy) -> dict[int, Losers]:
    """Number of a file to its rows that do not count; ``versions`` are the suspects of each file, by its number."""
    last: dict[str, tuple[int, int, int]] = {}
    for file, of_file in sorted(versions.items()):
        for key, sample_id in _keyed(file, of_file, last_by):
            last[sample_id] = max(key, last.get(sample_id, key))
    losers = {}
    for file, of_file in versions.items():
        replaced, gone = [], []
        for key, sample_id in _keyed(file, of_file, last_by):
            if sample_id in retired:
                gone.append(key[2])
            elif key != last[sample_id]:
                replaced.append(key[2])
        if replaced or gone:
            losers[file] = Losers(np.array(replaced, dtype=np.int64), np.array(gone, dtype=np.int64))
    return losers


def _keyed(file: int, versions: Versions, last_by: LastBy) -> Iterable[tuple[tuple[int, int, int], str]]:
    """((time or nothing, number of the file, ordinal), id) of each row; the largest of an id is its last version."""
    times = versions.times.tolist() if last_by == "time" else [0] * len(versions.ids)
    for time, ordinal, sample_id in zip(times, versions.ordinals.tolist(), versions.ids, strict=True):
        yield (time, file, ordinal), sample_id
