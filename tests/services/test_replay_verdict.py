"""What a replay says of its own figures: rows that were not scored and why, files that are sorted, and exit codes."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.replay.label_order import LabelOrder
from services.test_replay import refused, replay, run_main, write_csv

__all__ = ["refused", "replay"]
Run = Callable[..., dict[str, Any]]


def rows_of(labels: list[str], seed: int = 3) -> list[list[object]]:
    chance = random.Random(seed)
    return [[f"{chance.gauss(labels.index(label) > 0, 1):.3f}", f"{chance.gauss(0, 1):.3f}", label] for label in labels]


def file_of(path: Path, labels: list[str]) -> Path:
    return write_csv(path, ["a", "b", "y"], rows_of(labels))


SORTED = ["p"] * 206 + ["q"] * 194


def test_a_file_sorted_by_class_is_recognised_said_and_ends_with_exit_code_1(replay: Run, tmp_path: Path) -> None:
    summary = replay(file_of(tmp_path / "rows.csv", SORTED), "--label", "y", code=1)
    assert summary["order"] == {"runs": 2, "expected_runs": pytest.approx(200.8, abs=0.1), "sorted": True}
    assert summary["warnings"][0].startswith("the rows are sorted by class: 2 runs of equal labels")
    assert "--shuffle 0" in summary["warnings"][0]
    assert summary["gmean"] is None
    assert summary["scored"] + summary["not_scored"]["before there was a plane"] == 400
    assert "no row of the class 'p' was scored: the first 206 of 400 rows are of one class" in summary["warnings"][1]


def test_a_sorted_file_that_is_mixed_has_figures_and_the_same_ones_for_the_same_seed(
    replay: Run, tmp_path: Path
) -> None:
    file = file_of(tmp_path / "rows.csv", SORTED)
    first, again, other = (replay(file, "--label", "y", "--shuffle", seed, "--verify") for seed in ("1", "1", "2"))
    assert first["verified"] is True
    assert first["gmean"] == again["gmean"] > 0.4
    assert first["digest"] == again["digest"]
    assert other["gmean"] != first["gmean"]
    assert first["order"]["sorted"] is False
    assert first["warnings"] == []
    assert first["not_scored"] == {"before there was a plane": 100}


def test_three_sorted_classes_have_a_gmean_of_two_of_them_which_says_nothing(replay: Run, tmp_path: Path) -> None:
    labels = ["setosa"] * 50 + ["versicolor"] * 50 + ["virginica"] * 50
    summary = replay(file_of(tmp_path / "rows.csv", labels), "--label", "y", "--chunk", "10", code=1)
    assert summary["order"]["runs"] == 3
    assert "sorted by class" in summary["warnings"][0]


def test_a_class_of_which_no_row_was_scored_is_named_though_the_others_have_a_gmean(
    replay: Run, tmp_path: Path
) -> None:
    labels = ["rare"] * 30 + ["p", "q"] * 200
    summary = replay(file_of(tmp_path / "rows.csv", labels), "--label", "y", "--chunk", "50")
    assert summary["gmean"] > 0
    (warning,) = summary["warnings"]
    assert warning.startswith("the figures say nothing of the class 'rare': live rows are there, and none of them was")


def test_a_file_shorter_than_a_chunk_says_which_chunk_would_do(replay: Run, tmp_path: Path) -> None:
    file = file_of(tmp_path / "rows.csv", ["p", "q"] * 40)
    summary = replay(file, "--label", "y", code=1)
    (warning,) = summary["warnings"]
    assert warning.startswith("no row was scored, so there is no G-mean: all 80 rows came before the first model")
    assert warning.endswith("which is made after 100; use --chunk 8")
    assert replay(file, "--label", "y", "--chunk", "8")["gmean"] > 0


def test_a_sorted_stream_in_the_order_of_its_times_is_what_it_is_and_is_not_mixed(
    replay: Run, refused: Callable[..., str], tmp_path: Path
) -> None:
    labels = ["p", "q"] * 100 + ["p"] * 100 + ["q"] * 100
    rows = [[at, *row] for at, row in enumerate(rows_of(labels))]
    file = write_csv(tmp_path / "rows.csv", ["t", "a", "b", "y"], rows)
    assert replay(file, "--label", "y", "--time", "t")["warnings"] == []
    message = refused(file, "--label", "y", "--time", "t", "--shuffle", "1")
    assert "shuffle: rows with times (t) have an order of their own" in message
    rows = [[at, *row] for at, row in enumerate(rows_of(["p"] * 120 + ["q"] * 120 + ["p"] * 120))]
    in_order = replay(write_csv(tmp_path / "o.csv", ["t", "a", "b", "y"], rows), "--label", "y", "--time", "t")
    assert "sorted by class" in in_order["warnings"][0]


def test_long_spells_are_said_and_are_no_fault(replay: Run, tmp_path: Path) -> None:
    labels = [label for spell in range(12) for label in ["pq"[spell % 2]] * 200]
    summary = replay(file_of(tmp_path / "rows.csv", labels), "--label", "y")
    assert summary["warnings"][0].startswith("labels come in 12 long runs, where rows in a mixed order have about 1,2")


def test_the_console_says_how_many_rows_the_figures_rest_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(["replay", file_of(tmp_path / "r.csv", SORTED), "--label", "y"], monkeypatch) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "100 of 400 rows; not 300 before there was a plane" in printed
    assert "warning: the rows are sorted by class" in printed


@given(st.lists(st.lists(st.sampled_from("pqr"), max_size=6), max_size=12), st.sampled_from([None, "p"]))
def test_runs_are_counted_alike_however_labels_are_cut_into_chunks(
    chunks: list[list[str]], positive: str | None
) -> None:
    order = LabelOrder(positive)
    for chunk in chunks:
        order.add(chunk)
    labels = [label if positive is None else str(label == positive) for chunk in chunks for label in chunk]
    runs = [len(list(run)) for _, run in groupby(labels)]
    assert order.runs == len(runs)
    assert order.first_run == (runs[0] if runs else 0)
    assert order.classes == len(set(labels))


def test_mixed_labels_are_hardly_ever_taken_for_sorted_ones_and_sorted_ones_always() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        labels = chance.choices("pqr", (chance.random(), 1, 0.2), k=chance.choice((10, 60, 500)))
        mixed, in_order = LabelOrder(None), LabelOrder(None)
        mixed.add(labels)
        in_order.add(sorted(labels))
        assert not mixed.is_sorted
        assert not mixed.has_spells
        assert in_order.is_sorted or len(labels) < 60 or in_order.classes == 1
