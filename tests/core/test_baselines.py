"""What rows score without a model worth the name: the same as done row by row."""

from __future__ import annotations

from collections import Counter

import numpy as np

from deltaplane.log.baselines import Baselines
from deltaplane.log.confusion import Confusion, accuracy
from deltaplane.log.scoring import ScoredRows
from deltaplane.solve.solver import Plane

ROWS = np.random.default_rng(8).normal(size=(600, 2))
TRUTH = np.where(ROWS[:, 0] + 0.3 * np.random.default_rng(9).normal(size=600) > 0.4, "yes", "no")


def plane(weight: float) -> Plane:
    return Plane(
        classes=("no", "yes"),
        positive="yes",
        weights=np.array([[weight, 0.0]]),
        biases=np.array([0.4]),
        sigmas={"no": 1.0, "yes": 1.0},
        C=1.0,
        condition=1.0,
        counts={"no": 1, "yes": 1},
    )


def test_baselines_are_those_of_the_rows_in_order_and_of_the_rows_that_were_scored() -> None:
    baselines, labels = Baselines(window_rows=300), ["no", "yes"]
    first, later = plane(1.0), plane(-1.0)
    expected: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in ("majority", "last", "frozen")}
    for begin in range(0, 600, 100):
        now = first if begin < 300 else later
        part = slice(begin, begin + 100)
        rows = np.arange(0 if begin else 50, 100)
        rows = rows[rows % 7 != 0]  # Some are left out, as duplicates are.
        values = now.decide(ROWS[part][rows])
        piece = ScoredRows(rows, now.classes, now.choose(values), values, ROWS[part][rows], "yes")
        codes = (TRUTH[part] == "yes").astype(np.int64)
        baselines.add(0, labels, codes, [piece])
        before = Counter(TRUTH[:begin].tolist())
        for row in (begin + rows).tolist():
            if before:
                most = min(before, key=lambda label: (-before[label], label))
                expected["majority"][TRUTH[row], most] += 1
            expected["last"][TRUTH[row], TRUTH[row - 1]] += 1
            guess = "yes" if ROWS[row, 0] > 0.4 else "no"  # The first plane: that of the time, or the frozen one.
            expected["frozen"][TRUTH[row], guess] += 1
        baselines.learned(begin + 100, now)
    assert baselines.frozen_at == 300
    assert baselines.majority == Confusion(expected["majority"])
    assert baselines.last_label == Confusion(expected["last"])
    assert baselines.frozen == Confusion(expected["frozen"])
    assert accuracy(baselines.frozen) > 0.8


def test_the_row_before_is_one_of_the_same_partition() -> None:
    baselines = Baselines()
    empty = np.empty((0, 1)), np.empty((0, 2))
    none = ScoredRows(np.empty(0, np.int64), ("a", "b"), np.empty(0, np.int64), *empty, "b")
    baselines.add(0, ["a"], np.array([0]), [none])
    baselines.add(1, ["b"], np.array([0]), [none])
    one = ScoredRows(np.array([0]), ("a", "b"), np.array([0]), np.array([[1.0]]), np.array([[1.0, 1.0]]), "b")
    baselines.add(0, ["b"], np.array([0]), [one])
    assert baselines.last_label == Confusion({("b", "a"): 1})
