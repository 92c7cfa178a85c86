"""Make ``electricity.csv.gz`` from the ``elec.csv`` that scikit-multiflow 0.4.1 carries.

The problem: Elec2 as published has no time stamp, only the half-hour of the day. The rows are consecutive half-hours,
the first of them midnight of 7 May 1996, so the time of row i is that instant plus i half-hours. This script puts it
in front of each line as the column ``event_time`` and leaves every other byte of the line as it came, so that all
values parse to the same doubles. It refuses any input but the one it was written for.

How to run it again, from the source archive of scikit-multiflow 0.4.1::

    python examples/make_electricity.py scikit-multiflow-0.4.1/src/skmultiflow/data/datasets/elec.csv
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from datetime import datetime, timedelta
from pathlib import Path

SOURCE_SHA256 = "ebdfe5480ae25a43a7d054286135e3a9484697a2850d5158a333b1578c28bb97"
FIRST_HALF_HOUR = datetime(1996, 5, 7)  # noqa: DTZ001 - the market's own wall clock, which the source gives no zone for.
HALF_HOUR = timedelta(minutes=30)


def with_event_time(source: bytes) -> bytes:
    """Return the lines of ``source`` (header first) with the column ``event_time`` put in front."""
    header, *rows = source.decode("ascii").splitlines()
    lines = [f"event_time,{header}"]
    for position, row in enumerate(rows):
        event_time = FIRST_HALF_HOUR + position * HALF_HOUR
        lines.append(f"{event_time:%Y-%m-%d %H:%M},{row}")
    return ("\n".join(lines) + "\n").encode("ascii")


def main() -> None:
    """Read ``elec.csv``, check that it is the right one, and write the compressed example beside this script."""
    parser = argparse.ArgumentParser(description="Make electricity.csv.gz from scikit-multiflow's elec.csv.")
    parser.add_argument("source", type=Path, help="elec.csv of scikit-multiflow 0.4.1")
    source = parser.parse_args().source.read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if digest != SOURCE_SHA256:
        parser.error(f"expected the elec.csv of scikit-multiflow 0.4.1 (SHA-256 {SOURCE_SHA256}), got {digest}")
    target = Path(__file__).with_name("electricity.csv.gz")
    # No time stamp and no file name inside: the same zlib writes the same bytes whenever and wherever it is run.
    with target.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as compressed:
        compressed.write(with_event_time(source))
    print(f"wrote {target} ({target.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
