"""What a page shows of a stream, total and along it, beside scikit-learn's on the predictions of the same rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

import deltaplane
from deltaplane_services.observe.report.value_tables import cell
from deltaplane_services.replay.in_python import Replayed
from services.test_report_page import page_of

CLASSES = ("grey soil", "red soil", "cotton", "damp grey soil", "stubble", "mixture", "very damp grey soil")


@functools.cache
def replayed(classes: int, seed: int) -> Replayed:
    """A stream of so many classes, the first most frequent, that turns a little at half of its rows."""
    random = np.random.default_rng(seed)
    shares = 0.6 ** np.arange(classes)
    own = (
        random.choice(classes, size=4000, p=shares / shares.sum()) if classes > 2 else (random.random(4000) < 0.02) * 1
    )
    centres = 1.5 * random.normal(size=(classes, 4))
    values = centres[own] + random.normal(size=(4000, 4))
    values[2000:, 0] += 0.8
    table: dict[str, Any] = {f"x{at}": values[:, at] for at in range(4)}
    found: Replayed = deltaplane.replay(table | {"y": np.array(CLASSES)[own].tolist()}, label="y")
    return found


def rows_of(found: Replayed) -> tuple[list[str], list[str | None]]:
    """Truth and prediction of every row; None for a row that was not scored."""
    table = found.predictions
    return table["label"].to_pylist(), table["prediction"].to_pylist()


def theirs(truth: Sequence[str], guess: Sequence[str], positive: str | None) -> dict[str, float]:
    """scikit-learn's figures; NaN where it would have to divide by nothing."""
    recalls = metrics.recall_score(truth, guess, labels=sorted(set(truth)), average=None, zero_division=0)
    found = {
        "gmean": float(np.prod(recalls) ** (1 / len(recalls))),
        "kappa": metrics.cohen_kappa_score(truth, guess),
    }
    if positive is not None:
        own, claimed = (np.array([one == positive for one in side]) for side in (truth, guess))
        found["precision"] = metrics.precision_score(own, claimed, zero_division=np.nan)
        found["sensitivity"] = metrics.recall_score(own, claimed, zero_division=np.nan)
        found["false_alarms_per_1000_rows"] = 1000.0 * float(np.mean(claimed & ~own))
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize(("classes", "seed"), [(2, 1), (2, 2), (7, 3), (7, 4)])
def test_every_figure_along_the_stream_is_the_one_of_scikit_learn_on_the_same_rows(classes: int, seed: int) -> None:
    found = replayed(classes, seed)
    truth, guess = rows_of(found)
    positive, checked = found.summary["positive"], 0
    for point in found.summary["series"]:
        for part in (point, point["lately"]):
            rows = [at for at in range(part["rows_from"], point["rows_to"]) if guess[at] is not None]
            if not rows:
                continue
            own, told = [truth[at] for at in rows], [str(guess[at]) for at in rows]
            labels = sorted(set(own))
            recalls = metrics.recall_score(own, told, labels=labels, average=None, zero_division=0)
            assert part["recalls"] == pytest.approx(dict(zip(labels, recalls, strict=True)))
            # The G-mean of a part without one of the classes is not that of all classes.
            expected = theirs(own, told, positive)
            names = set(expected) & set(part) - ({"gmean"} if len(labels) < classes else set())
            for name in names:
                value = math.nan if part[name] is None else part[name]
                assert value == pytest.approx(expected[name], nan_ok=True), (name, part["rows_from"])
                checked += 1
    assert checked > 50


@pytest.mark.parametrize(("classes", "seed"), [(2, 1), (7, 3)])
def test_every_figure_at_the_head_of_the_page_is_the_one_of_scikit_learn(classes: int, seed: int) -> None:
    found = replayed(classes, seed)
    truth, guess = rows_of(found)
    scored = [(own, told) for own, told in zip(truth, guess, strict=True) if told is not None]
    own, told = [pair[0] for pair in scored], [pair[1] for pair in scored]
    positive = found.summary["positive"]
    assert (positive is None) == (classes > 2)
    expected = theirs(own, told, positive)
    shown = {
        "G-mean": expected["gmean"],
        "Cohen's kappa": expected["kappa"],
        "Matthews correlation": metrics.matthews_corrcoef(own, told),
        "accuracy": metrics.accuracy_score(own, told),
    }
    if positive is not None:
        shown |= {
            f"precision ({positive})": expected["precision"],
            f"sensitivity ({positive})": expected["sensitivity"],
            "F-measure": metrics.f1_score(own, told, pos_label=positive),
        }
    texts = page_of(found.summary)[1].text("dt", "dd").split("\n")
    for name, value in shown.items():
        assert texts[texts.index(name) + 1] == cell(float(value)), name
