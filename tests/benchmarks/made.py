"""Small data made for these tests: archives as a registry would give them, data sets, and a bench without a network."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from deltaplane_benchmarks.bench import Bench, Settings
from deltaplane_benchmarks.data.archives import Archive, Cache
from deltaplane_benchmarks.data.catalogue import DataSet


def wheel(members: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return written.getvalue()


def tarball(members: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def archive_of(data: bytes, file: str = "made-1.0.whl") -> Archive:
    return Archive("pip", "made", "1.0", file, hashlib.sha256(data).hexdigest())


def cache_with(place: Path, data: bytes, file: str = "made-1.0.whl") -> tuple[Cache, Archive]:
    (place / file).write_bytes(data)
    return Cache(place, None), archive_of(data, file)


def bench_without_data(place: Path, *, rounds: int = 3, quick: bool = False, seed: int = 0) -> Bench:
    return Bench(Settings(rounds=rounds, quick=quick, seed=seed), Cache(place, None))


def clouds(name: str, counts: dict[str, int], features: int, *, apart: float, seed: int) -> DataSet:
    """One normal cloud for each class, their centres ``apart`` from one another."""
    generator = np.random.default_rng(seed)
    parts = [generator.normal(at * apart, 1.0, (count, features)) for at, count in enumerate(counts.values())]
    labels = np.repeat(list(counts), list(counts.values()))
    return DataSet(name, np.vstack(parts), labels, "made for a test")
