"""``replay --report``, ``--plots`` and ``compare`` from the outside."""

from __future__ import annotations

import importlib.util
import json
import struct
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from deltaplane_services.observe.report.record import read_run
from services.test_replay import electricity, run_main, write_csv

OPTIONS = ("--label", "target", "--positive", "1", "--time", "event_time", "--window", "500")
PICTURES = ["blend", "confusion", "counts", "drift", "gmean", "imbalance", "precision", "recall", "sigmas", "weights"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    header, cells = electricity(2000)
    return write_csv(tmp_path / "rows.csv", header, cells)


def test_a_replay_writes_report_pictures_and_json_of_the_same_run(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, plots, summary = tmp_path / "out.html", tmp_path / "deep" / "plots", tmp_path / "out.json"
    arguments = ("replay", rows, *OPTIONS, "--report", report, "--plots", plots, "--json", summary, "--verify")
    assert run_main(arguments, monkeypatch) == 0
    page, run = report.read_text("utf-8"), read_run(summary)
    assert f"{run.measures['gmean']:.4f}" in page
    assert run.digest in page
    assert "✓ verified" in page
    assert sorted(path.name for path in plots.iterdir()) == [f"{p}{end}" for p in PICTURES for end in (".png", ".svg")]
    for path in plots.glob("*.png"):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n")
        assert min(struct.unpack(">II", content[16:24])) > 300, path
    for path in plots.glob("*.svg"):
        text = path.read_text("utf-8")
        assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314 - it was written a line above.
        assert "<text" not in text, "letters are shapes"


def test_what_has_been_lately_is_of_the_last_spans_together(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(("replay", rows, *OPTIONS, "--chunk", "20", "--json", tmp_path / "o.json"), monkeypatch) == 0
    points = json.loads((tmp_path / "o.json").read_text("utf-8"))["series"]
    assert len(points) == 100
    for before, point in pairwise(points):
        assert point["lately"]["rows_from"] == before["rows_from"]
        if before["recalls"] and point["recalls"]:
            for label, recall in point["lately"]["recalls"].items():
                parts = [part["recalls"][label] for part in (before, point) if label in part["recalls"]]
                assert min(parts) <= recall <= max(parts)
        assert set(point["weights_of"]) == {"1"}
        assert len(point["deviations"]) == len(point["weights"][0])
        assert set(point["sigmas"]) == {"0", "1"} or set(point["sigmas"]) == {"1", "not 1"}


def test_a_report_that_cannot_be_written_is_refused_before_the_replay_begins(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "out.json"
    for option, to in (("--report", tmp_path), ("--report", tmp_path / "no" / "x.html"), ("--plots", rows)):
        assert run_main(("replay", rows, *OPTIONS, option, to, "--json", summary), monkeypatch) == 2
        assert str(to) in capsys.readouterr().err.replace("\n", "")
        assert not summary.exists()


@pytest.mark.parametrize(("option", "library"), [("--report", "plotly"), ("--plots", "matplotlib")])
def test_without_the_library_that_draws_the_message_says_what_to_install(
    option: str,
    library: str,
    rows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else find(name))
    assert run_main(("replay", rows, *OPTIONS, option, tmp_path / "x"), monkeypatch) == 2
    message = capsys.readouterr().err
    assert library in message
    assert "deltaplane[report]" in message


def test_compare_prints_runs_side_by_side_and_writes_their_page(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for window in ("200", "500"):
        files.append(tmp_path / f"w{window}.json")
        assert run_main(("replay", rows, *OPTIONS[:-1], window, "--json", files[-1]), monkeypatch) == 0
    capsys.readouterr()
    assert run_main(("compare", *files, "--report", tmp_path / "both.html"), monkeypatch) == 0
    printed = capsys.readouterr().out
    for name in ("w200", "w500", "G-mean", "imbalance ratio", *(f"{read_run(f).measures['gmean']:.4f}" for f in files)):
        assert name in printed
    assert "2 runs compared" in (tmp_path / "both.html").read_text("utf-8")


def test_compare_refuses_what_is_no_summary(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(("compare", rows, rows.with_name("other.json")), monkeypatch) == 2
    assert "rows.csv" in capsys.readouterr().err
