"""Fill values in the first rows of a file: what comes after them is learned as if they had never been there."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane_services.cli import application

FIRST, ROWS, WINDOW = 1000, 2500, 500


def table(path: Path, fill: float, share: float) -> Path:
    """Rows of two classes, a mark in a share of the first feature among the first ones; clean from then on."""
    random = np.random.default_rng(20)
    y = random.integers(0, 2, ROWS)
    X = random.normal(size=(ROWS, 2)) + 1.4 * y[:, None] * [1.0, 0.6]
    marked = np.flatnonzero(random.permutation(FIRST) < share * FIRST)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "y"])
        for at, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
            writer.writerow([fill if at in marked else row[0], row[1], label])
    return path


def replayed(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    options = ["--label", "y", "--positive", "1", "--window", str(WINDOW), "--C", "1", "--json", "-"]
    monkeypatch.setattr("sys.argv", ["deltaplane", "replay", str(path), *options])
    with pytest.raises(SystemExit) as ended:
        application.main()
    assert ended.value.code == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def late_gmean(result: dict[str, Any]) -> float:
    """The mean G-mean of the spans whose window holds none of the first rows."""
    late = [point["gmean"] for point in result["series"] if point["rows_from"] >= FIRST + WINDOW]
    assert len(late) >= 8
    return float(np.mean(late))


@pytest.mark.parametrize(
    ("fill", "share"),
    [(1e10, 0.001), (1e10, 0.1), (1e10, 0.4), (1e20, 0.1), (-999.0, 0.4), (9.96921e36, 0.02), (-9e8, 0.25)],
)
def test_a_window_without_fill_values_is_as_good_as_if_there_had_been_none(
    fill: float, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = late_gmean(replayed(table(tmp_path / "clean.csv", fill, 0.0), monkeypatch, capsys))
    result = replayed(table(tmp_path / "filled.csv", fill, share), monkeypatch, capsys)
    assert abs(late_gmean(result) - clean) < 0.01
    marked = round(share * FIRST)
    named = [(mark["feature"], mark["value"], mark["rows"]) for mark in result["likely_marks_of_missing"]]
    assert named == ([("a", fill, marked)] if marked >= 3 else [])
    assert result["rejected"] in (0, marked)


def test_the_summary_of_a_clean_file_names_no_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = replayed(table(tmp_path / "clean.csv", 0.0, 0.0), monkeypatch, capsys)
    assert result["likely_marks_of_missing"] == []
    assert result["settings"]["definition"]["grid"]["range_bits"] == 45
