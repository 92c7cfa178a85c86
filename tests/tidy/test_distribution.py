"""What is installed and shipped is what it should be: the wheel's files, and the example's rows."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zipfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tidy.sources import PACKAGES, TOP, files

ELEC_CSV_SHA256 = "ebdfe5480ae25a43a7d054286135e3a9484697a2850d5158a333b1578c28bb97"
"""Of ``elec.csv`` in the source archive of scikit-multiflow 0.4.1."""


SHIPPED = {package: place for package, place in PACKAGES.items() if package != "deltaplane_benchmarks"}


def test_the_wheel_holds_its_three_packages_whole_and_nothing_else(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(TOP)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = next(name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        commands = archive.read(entry_points).decode()
    expected = {
        package + path.removeprefix(place)
        for package, place in SHIPPED.items()
        for path in files()
        if path.startswith(f"{place}/")
    }
    assert packed == expected
    assert {f"{package}/py.typed" for package in SHIPPED} <= packed
    assert "deltaplane = deltaplane_services.cli:main" in commands
    assert "[deltaplane.commands]\nbench = deltaplane_benchmarks.bench_cli:app" in commands
    assert "[deltaplane.public]\nreplay = deltaplane_services.replay.in_python:replay" in commands


def test_the_electricity_example_is_its_source_with_half_hours_put_in_front() -> None:
    with gzip.open(TOP / "examples" / "electricity.csv.gz", "rt", encoding="ascii", newline="") as file:
        lines = file.read().splitlines()
    event_times, rest = zip(*(line.split(",", maxsplit=1) for line in lines), strict=True)
    assert event_times[0] == "event_time"
    assert hashlib.sha256(("\n".join(rest) + "\n").encode()).hexdigest() == ELEC_CSV_SHA256
    first = datetime(1996, 5, 7)  # noqa: DTZ001 - the market's own wall clock.
    half_hours = [first + timedelta(minutes=30) * position for position in range(len(lines) - 1)]
    assert [datetime.fromisoformat(time) for time in event_times[1:]] == half_hours


def test_the_electricity_example_has_the_rows_and_labels_its_readme_states() -> None:
    with gzip.open(TOP / "examples" / "electricity.csv.gz", "rt", encoding="ascii", newline="") as file:
        labels = Counter(row["target"] for row in csv.DictReader(file))
    assert labels == {"0": 26_075, "1": 19_237}
    readme = (TOP / "examples" / "README.md").read_text(encoding="utf-8")
    size = (TOP / "examples" / "electricity.csv.gz").stat().st_size
    assert all(f"{number:,}" in readme for number in (45_312, 26_075, 19_237, size))
