"""Seeded rows of the small stream of services.py: as a file, as samples, and told to the batch account."""

from __future__ import annotations

import csv
import secrets
from pathlib import Path

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.reference import Reference
from deltaplane.stream.placement import partitions_of
from deltaplane.stream.sample import Samples

FIRST_TIME = 1_700_000_000_000
"""Event time of row 0, in milliseconds; each row is a second later."""


class Rows:
    """n rows of two overlapping classes, features float64[n, 3]; ids are ``row-<number>``."""

    def __init__(self, count: int, seed: int, ids_from: int = 0) -> None:
        random = np.random.default_rng(seed)
        positive = random.random(count) < 0.3
        self.features: Floats = random.normal(size=(count, 3)) + positive[:, None] * [1.0, 0.5, -0.5]
        self.features = np.round(self.features * 100.0, 6)
        self.labels = ["yes" if one else "no" for one in positive]
        self.ids = [f"row-{ids_from + number}" for number in range(count)]
        self.times = FIRST_TIME + 1000 * np.arange(ids_from, ids_from + count, dtype=np.int64)

    @classmethod
    def single(cls, sample_id: str, label: str, features: Floats, time: int = FIRST_TIME) -> Rows:
        """One row."""
        row = cls(1, 0)
        row.ids, row.labels, row.features, row.times = [sample_id], [label], features, np.array([time])
        return row

    @staticmethod
    def stream_name(what: str) -> str:
        """A name that no other stream has."""
        return f"{what}-{secrets.token_hex(4)}"

    def __len__(self) -> int:
        return len(self.ids)

    def write(self, path: Path) -> Path:
        """As a CSV file with a heading."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "time", "height", "weight", "age", "label"])
            for row, sample_id in enumerate(self.ids):
                writer.writerow([sample_id, self.times[row] / 1000, *self.features[row].tolist(), self.labels[row]])
        return path

    def samples(self, at: Int64s | None = None) -> Samples:
        """Those rows, or all, as one batch."""
        rows = np.arange(len(self)) if at is None else at
        table = tuple(dict.fromkeys(["no", "yes", *self.labels]))
        codes = np.array([table.index(self.labels[row]) for row in rows.tolist()], dtype=np.int32)
        ids = [self.ids[row] for row in rows.tolist()]
        return Samples.of_record(ids, self.times[rows], table, codes, self.features[rows], log_time=2**60)

    def partitioned(self, partitions: int) -> dict[int, Samples]:
        """The rows of each partition that has any, in order."""
        home = partitions_of(self.ids, partitions)
        return {partition: self.samples(np.flatnonzero(home == partition)) for partition in np.unique(home).tolist()}

    def tell(self, reference: Reference) -> None:
        """Add all rows to the batch account."""
        for partition, samples in self.partitioned(reference.definition.partitions).items():
            reference.add(partition, samples)
