"""Labels that are measurements are refused, a G-mean of 0 says why it is, and row numbers are pointed out."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import deltaplane
from deltaplane.errors import DefinitionError

ROWS = 400


def file(path: Path, labels: list[str], form: str = "csv") -> Path:
    cells = np.random.default_rng(5).normal(size=(ROWS, 2)).round(3)
    if form == "libsvm":
        lines = [f"{label} 1:{a} 2:{b}" for label, (a, b) in zip(labels, cells.tolist(), strict=True)]
    else:
        lines = ["a,b,y", *(f"{a},{b},{label}" for label, (a, b) in zip(labels, cells.tolist(), strict=True))]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("form", ["csv", "libsvm"])
@pytest.mark.parametrize("label", [lambda at: f"{at * 37 % 97 / 7:.3f}", lambda at: str(at * 7919)])
def test_numbers_that_measure_something_are_no_classes(form: str, label: object, tmp_path: Path) -> None:
    assert callable(label)
    path = file(tmp_path / f"rows.{form}", [label(at) for at in range(ROWS)], form)
    with pytest.raises(DefinitionError, match="they measure something and are no classes"):
        deltaplane.replay(path, label=None if form == "libsvm" else "y")


def test_many_whole_numbers_that_come_again_and_a_few_fractions_are_classes(tmp_path: Path) -> None:
    whole = file(tmp_path / "whole.csv", [str(at % 60) for at in range(ROWS)])
    halves = file(tmp_path / "halves.csv", [str(at % 10 / 2) for at in range(ROWS)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert len(deltaplane.replay(whole, label="y").summary["classes"]) == 60
        assert len(deltaplane.replay(halves, label="y").summary["classes"]) == 10


def test_a_g_mean_of_nought_says_why_and_what_a_mark_among_labels_may_be(tmp_path: Path) -> None:
    labels = ["-" if at in (250, 390) else "ab"[at % 2] for at in range(ROWS)]
    with pytest.warns(RuntimeWarning, match="the G-mean is 0"):
        result = deltaplane.replay(file(tmp_path / "rows.csv", labels), label="y")
    assert result.gmean == 0.0
    said = "; ".join(result.summary["warnings"])
    assert "no scored row of the class '-' (2) was predicted as such" in said
    assert "if '-' stands for a missing label, --missing-values says so" in said


def test_a_usual_text_for_missing_that_is_a_class_is_told_how_to_be_one(tmp_path: Path) -> None:
    path = file(tmp_path / "rows.csv", ["None" if at % 3 else "some" for at in range(ROWS)])
    with pytest.raises(deltaplane.DeltaplaneError, match="as in `--classes None,some`"):
        deltaplane.replay(path, label="y")
    assert len(deltaplane.replay(path, label="y", classes=["None", "some"]).summary["classes"]) == 2


def test_a_feature_that_numbers_the_rows_is_pointed_out(tmp_path: Path) -> None:
    cells = np.random.default_rng(5).normal(size=ROWS).round(3).tolist()
    path = tmp_path / "rows.csv"
    path.write_text(
        "number,a,y\n" + "".join(f"{ROWS - at},{a},{'p' if a > 0 else 'q'}\n" for at, a in enumerate(cells)), "utf-8"
    )
    told = deltaplane.replay(path, label="y").summary["notes"]
    assert any("`number` numbers the rows" in note and "--ignore number" in note for note in told)
    left_out = deltaplane.replay(path, label="y", ignore=["number"]).summary["notes"]
    assert not any("numbers the rows" in note for note in left_out)
