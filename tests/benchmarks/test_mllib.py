"""MLlib beside ours: what is drawn, what ours gives, and which side is said to be ahead."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.made import bench_without_data, clouds
from deltaplane.errors import ExtraMissing
from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.experiments import mllib
from deltaplane_benchmarks.experiments.mllib import CLASSES, Learned

TABLE = clouds("made", {"2": 400, "3": 90, "7": 60, "1": 50}, 4, apart=2.5, seed=3)


def test_splits_are_of_three_classes_and_differ_and_no_row_is_learned_and_asked_for(tmp_path: Path) -> None:
    splits = list(mllib.splits_of(TABLE, 500, bench_without_data(tmp_path)))
    again = list(mllib.splits_of(TABLE, 500, bench_without_data(tmp_path)))
    assert len(splits) == mllib.SPLITS
    for split, same in zip(splits, again, strict=True):
        assert split.classes == CLASSES
        assert (len(split.rows), len(split.test_rows)) == (400, 100)
        assert np.array_equal(split.rows, same.rows)
        learned = set(map(tuple, split.rows.tolist()))
        assert not learned & set(map(tuple, split.test_rows.tolist()))
    assert not np.array_equal(splits[0].rows, splits[1].rows)


def test_ours_tells_the_classes_apart_flat_and_curved_by_planes_from_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mllib, "UNITS", 20)
    split = next(mllib.splits_of(TABLE, 500, bench_without_data(tmp_path)))
    found = list(mllib.ours(split, seed=0))
    ways = [(one.learner, one.weighting) for one in found]
    assert ways == [
        ("ours, linear", "default"),
        ("ours, linear", "weighted"),
        ("ours, 20 hidden units", "default"),
        ("ours, 20 hidden units", "weighted"),
    ]
    # The clouds lie on a line, and no plane tells the middle one from the rest.
    assert found[3].gmean > max(0.8, found[1].gmean)
    assert all(one.said.startswith("C ") for one in found)
    wrong = replace(split, test_codes=np.roll(split.test_codes, 1))
    assert [*mllib.ours(wrong, seed=0)][3].gmean < 0.8


@pytest.mark.parametrize(
    ("theirs", "words"), [(0.9, "ours, linear, weighted: 2.0 points ahead of it"), (0.94, "behind")]
)
def test_who_is_ahead_is_said_whichever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: float, words: str
) -> None:
    def of_mllib(_split: object, _session: object) -> list[Learned]:
        return [
            Learned("MLlib LinearSVC", "default", 1.0, 2.0, theirs),
            Learned("MLlib LinearSVC", "weighted", 1, 2, 0.5),
        ]

    def of_ours(_split: object, _seed: int) -> list[Learned]:
        return [
            Learned("ours, linear", "default", 1, 1, 0.2, "C 1"),
            Learned("ours, linear", "weighted", 1, 1, 0.92, "C 1"),
        ]

    monkeypatch.setattr(mllib, "theirs", of_mllib)
    monkeypatch.setattr(mllib, "ours", of_ours)
    exhibit = mllib.exhibit(TABLE, 500, bench_without_data(tmp_path), None)
    assert f"best of MLlib: MLlib LinearSVC, default, {theirs:.4f}" in exhibit.notes[0]
    assert words in exhibit.notes[0]
    assert [row[:2] for row in exhibit.rows][:2] == [("ours, linear", "default"), ("ours, linear", "weighted")]
    assert json.dumps(exhibit.rows)


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is not None, reason="it is about where pyspark is not there")
def test_without_pyspark_one_line_says_so() -> None:
    found = CliRunner().invoke(bench_cli.app, ["mllib"])
    assert isinstance(found.exception, ExtraMissing)
    assert "Spark" in str(found.exception)
    assert "\n" not in str(found.exception)
