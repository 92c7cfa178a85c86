"""The bench of drift: what it prints is found within a window, and hardly ever where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.speed.drifts import KINDS, WINDOW_ROWS, found


def test_a_change_is_found_within_a_window_and_there_is_at_most_one_false_alarm_in_100_000_rows() -> None:
    for one in found(100_000, 0):
        assert one.per_100_000_rows <= 1.0, one
        # A lognormal of 2 has no spread to speak of in 100 rows: whatever it is, it is found as it is, or not at all.
        if not one.kind.startswith("lognormal"):
            assert one.delays["a deviation"] <= WINDOW_ROWS, one


def test_the_command_prints_both(tmp_path: Path) -> None:
    words = ["drift", "--rows", "5000", "--json", str(tmp_path / "d.json"), "--markdown", str(tmp_path / "d.md")]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(bench_cli.app, words)
    assert done.exit_code == 0, done.output
    assert "false alarms / 100,000 rows" in done.output
    assert all(kind in (tmp_path / "d.md").read_text("utf-8") for kind in KINDS)
    assert json.loads((tmp_path / "d.json").read_text("utf-8"))
