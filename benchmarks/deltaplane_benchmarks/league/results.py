"""What a learner came to on a stream: one line of JSON, with all that it depends on, by which a rerun finds it again.

A line is written when its run is over, so whatever ends a league loses one run at most. A line that was cut off is left
out, and run again. Settings are compared as a whole: with another seed, delay, version or way to use a learner, it is
another line.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane import __version__
from deltaplane.arrays import Flags, Floats
from deltaplane.errors import DeltaplaneError
from deltaplane.log.confusion import Confusion, gmean, kappa, matthews
from deltaplane_benchmarks.league.catalogue import Recipe
from deltaplane_benchmarks.peers import moa
from deltaplane_benchmarks.peers.task import LABELS, Learner, Task, library

__all__ = ["FIRST_ROWS", "MEASURES", "SCHEMA", "Line", "Results", "measured", "settings_of"]

SCHEMA = "deltaplane imbalance 1"
FIRST_ROWS = 1000
"""These are not counted, nor are those after them of which no label has come."""

MEASURES = ("G-mean", "kappa", "MCC", "PR-AUC")


@dataclass(frozen=True)
class Line:
    """A run: its settings, measures by name (None: not defined), microseconds of the processor a row, the load then."""

    settings: Mapping[str, Any]
    measures: Mapping[str, float | None]
    cpu_microseconds: float
    load: float
    date: str

    @property
    def key(self) -> str:
        """The settings as one text."""
        return _key(self.settings)


class Results:
    """The lines of a file. Only ``add`` changes it. Raises :class:`DeltaplaneError` for a file of something else."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._lines = {line.key: line for line in _lines(place)}

    def find(self, settings: Mapping[str, Any]) -> Line | None:
        """The newest run with just these settings, or None."""
        return self._lines.get(_key(settings))

    def add(self, line: Line) -> None:
        """Keep a run, and write it down."""
        document = {"schema": SCHEMA, **vars(line)}
        text = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            cut = self._place.exists() and self._place.read_bytes()[-1:] not in {b"", b"\n"}
            with self._place.open("a", encoding="utf-8") as file:
                file.write(("\n" if cut else "") + text)
        except OSError as fault:
            raise DeltaplaneError(f"--results {self._place}: cannot be written: {fault.strerror}") from None
        self._lines[line.key] = line

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def __len__(self) -> int:
        return len(self._lines)


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, ensure_ascii=False)


def _lines(place: Path) -> Iterator[Line]:
    if not place.exists():
        return
    for number, text in enumerate(place.read_text("utf-8").splitlines(), start=1):
        try:
            document = json.loads(text)
        except json.JSONDecodeError:
            # Whatever ended a league may have cut its last line off; that run is done again.
            continue
        if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
            raise DeltaplaneError(f"--results {place}: line {number}: expected {SCHEMA!r}; give a file of its own")
        yield Line(**document)


def settings_of(recipe: Recipe, learner: Learner, label_delay: int, jars: Path | None) -> dict[str, Any]:
    """All that a line depends on."""
    return {
        "stream": recipe.settings(),
        "learner": learner.name,
        "how": learner.how,
        "version": _version(learner, jars),
        "label_delay": label_delay,
        "not_counted": FIRST_ROWS,
    }


def _version(learner: Learner, jars: Path | None) -> str:
    if learner.name.startswith("MOA"):
        return moa.version(jars) or "none"
    return f"deltaplane {__version__}" if learner.package is None else _version_of(learner.package)


def _version_of(package: str) -> str:
    return f"{package} {library(package).__version__}"


def measured(learner: Learner, task: Task, settings: Mapping[str, Any]) -> Line:
    """Run a learner on the rows of a task, on one thread of BLAS."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), learner.prepare(task) as run:
        began = time.process_time()
        ran = run()
        seconds = time.process_time() - began if ran.own_seconds is None else ran.own_seconds
    assert ran.predicted is not None, "learners of the league say what they predicted"
    assert ran.scores is not None, "and how they scored"
    counted = slice(min(FIRST_ROWS + task.late, len(task)), None)
    measures = _measures(task.flags[counted], ran.predicted[counted], ran.scores[counted])
    date = datetime.now(UTC).date().isoformat()
    return Line(settings, measures, seconds / len(task) * 1e6, round(os.getloadavg()[0], 1), f"{date} {_machine()}")


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _measures(truth: Flags, predicted: Flags, scores: Floats) -> dict[str, float | None]:
    confusion = Confusion.of(truth.astype(np.int64), predicted.astype(np.int64), LABELS)
    area = float(library("sklearn.metrics").average_precision_score(truth, scores)) if truth.any() else float("nan")
    values = (gmean(confusion), kappa(confusion), matthews(confusion), area)
    return {name: None if np.isnan(value) else value for name, value in zip(MEASURES, values, strict=True)}
