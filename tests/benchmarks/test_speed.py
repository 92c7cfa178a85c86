"""The speed benches in small: what they compare gives the answers it should, and ratios are what pairs say."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from deltaplane.exact.grid import fit_grid
from deltaplane.exact.moments import Moments
from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.speed import commands, embedded, halves, partial_fits, refresh, throughput_command
from deltaplane_benchmarks.speed import statistics_speed as gram
from deltaplane_benchmarks.speed.exact_pass import exact
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.made_rows import make_rows
from deltaplane_benchmarks.speed.pairs import LEAST_ROUNDS, Ratio, Rounds, in_rounds

SEED = 41


def test_a_ratio_is_the_median_of_the_rounds_own_and_not_that_of_the_best_times() -> None:
    # The machine slows down by half: both ways double, and one disturbed round is outvoted.
    slow, fast = np.array([2.0, 2.0, 4.0, 4.0, 90.0]), np.array([1.0, 1.0, 2.0, 2.0, 2.0])
    rounds = Rounds({"slow": slow, "fast": fast}, {"slow": slow * 3.0, "fast": fast})
    assert rounds.ratio("slow", "fast") == Ratio(2.0, 2.0, 2.0)
    assert rounds.ratio_of_work("slow", "fast") == Ratio(6.0, 6.0, 6.0)
    assert rounds.best("slow") == 2.0
    assert Ratio.of([1.0, 2.0, 3.0, 4.0, 5.0]).cells() == (3.0, 2.0, 4.0)


def test_every_way_runs_once_beforehand_and_once_a_round_in_an_order_that_turns() -> None:
    ran: list[str] = []
    timed = in_rounds({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, 4)
    assert "".join(ran) == "ab" + "abba" * 2
    assert {len(seconds) for seconds in (*timed.seconds.values(), *timed.cpu_seconds.values())} == {4}


def test_rounds_that_take_too_long_are_cut_short_but_not_below_three() -> None:
    timed = in_rounds({"a": lambda: None}, 50, seconds_at_most=0.0)
    assert len(timed.seconds["a"]) == LEAST_ROUNDS


def test_the_exact_way_ends_with_nothing_and_the_plain_one_with_noise_beside_its_sums() -> None:
    table = make_rows(9_000, 7, SEED)
    assert exact(table, fit_grid(table.features))
    assert np.abs(gram.plain(table)).max() <= 1e-9 * (table.features**2).sum()


def test_compared_ways_give_a_digest_that_does_not_depend_on_how_rows_were_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gram, "two_processes", lambda *_: Ratio(1.0, 1.0, 1.0))
    found, other = gram.compare(5, 6_000, 3, SEED), gram.compare(5, 6_000, 3, SEED + 1)
    assert found.same_digest
    assert other.same_digest
    assert found.digest != other.digest
    assert min(found.plain, found.exact, found.exact_to_plain.median, found.two_threads.median) > 0.0


def test_two_processes_learn_their_halves_and_end() -> None:
    ratio = halves.two_processes(4, 2_000, 3, SEED)
    assert 0.0 < ratio.lower <= ratio.median <= ratio.upper


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_statistics_by_fold_are_those_of_all_rows_and_have_every_class(classes: int) -> None:
    by_fold, grid = refresh.statistics_by_fold(6, classes, SEED)
    assert {label for fold in by_fold for label in fold} == set(map(str, range(classes)))
    total = sum((moments for fold in by_fold for moments in fold.values()), Moments.zero(7))
    table = make_rows(refresh.LEAST_ROWS, 6, SEED)
    assert total == Moments.of_rows(grid.quantize(table.features)[0])


@pytest.mark.parametrize("weighting", ["inverse", "none"])
def test_a_refresh_is_timed_and_says_what_it_chose(weighting: refresh.Weighting) -> None:
    found = refresh.refresh(6, 3, weighting, 3, SEED)
    assert (found.features, found.classes, found.weighting) == (6, 3, weighting)
    assert min(found.cholesky, found.solve, found.choose, found.solve_to_cholesky.lower) > 0.0
    assert 1e-4 <= found.chosen <= 1e4


def test_the_command_writes_its_four_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "ROWS_OF_STATISTICS", {5: 4_000})
    monkeypatch.setattr(commands, "FEATURES_OF_REFRESH", (5,))
    monkeypatch.setattr(partial_fits, "ROWS_OF_A_CALL", (500,))
    monkeypatch.setattr(partial_fits, "ROWS_AT_LEAST", 1_000)
    place = tmp_path / "statistics.json"
    written = ["--json", str(place), "--markdown", str(tmp_path / "tables.md"), "--plots", str(tmp_path / "plots")]
    result = CliRunner().invoke(bench_cli.app, ["statistics", "--rounds", "3", *written])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "tables.md").read_text("utf-8").count("\n## ") == 4
    assert len(list((tmp_path / "plots").glob("*.png"))) == 5
    statistics, two, fits, refreshed = json.loads(place.read_text("utf-8"))["tables"]
    assert [row["features"] for row in statistics["rows"]] == [5]
    assert statistics["rows"][0]["cut otherwise"] == "same digest"
    lower, median, upper = (
        statistics["rows"][0][f"exact / plain{part}"] for part in (", lower quartile", "", ", upper quartile")
    )
    assert lower <= median <= upper
    assert [(row["features"], row["rows of a call"], row["sums"]) for row in fits["rows"]] == [(5, 500, "same digest")]
    assert set(two["rows"][0]) >= {"two threads", "two processes"}
    assert [(row["classes"], row["weighting"]) for row in refreshed["rows"]] == [
        ("2", "inverse"),
        ("2", "none"),
        ("7", "inverse"),
        ("7", "none"),
    ]


def test_curves_are_parted_by_what_tells_the_rows_apart() -> None:
    table = Figures("made: for a test", {"features": ",", "kind": "", "value": ".2f"})
    for features, kind, value in ((2, "a", 1.0), (2, "b", 2.0), (4, "a", None)):
        table.add(features, kind, value)
    table.draw("by kind", "features", "y", ("value",), ("kind",))
    table.draw_bars("all", ("features", "kind"), "value")
    by_kind, bars = table.exhibit().charts
    assert [(series.name, series.x) for series in by_kind.series] == [("kind a", (2.0, 4.0)), ("kind b", (2.0,))]
    assert by_kind.series[0].y[0] == 1.0
    assert np.isnan(by_kind.series[0].y[1])
    assert bars.ticks == ("2\na", "2\nb", "4\na")


def test_a_table_shows_a_dash_for_what_there_is_not() -> None:
    table = Figures("made", {"name": "", "value": ".2f"})
    table.add("a", 1.0)
    table.add("b", None)
    written = io.StringIO()
    table.show(Console(file=written, width=80))
    assert "1.00" in written.getvalue()
    assert "–" in written.getvalue()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say what a process holds")
def test_the_peak_of_a_replay_is_its_own_whatever_the_process_that_began_it_holds() -> None:
    held = np.ones(2**27)  # A gigabyte.
    setting = embedded.Setting("plain", "500", "1", 100, 3, 2_000)
    with embedded.data_file(setting.features, setting.rows, 0) as file:
        found = embedded.replay(file, "y", "yes", setting)
    assert found.rows == setting.rows
    assert 50.0 < found.peak_megabytes < 700.0 < held.nbytes / 2**20


def test_a_replay_with_all_threads_of_blas_has_the_digest_of_that_with_one(tmp_path: Path) -> None:
    place = tmp_path / "threads.json"
    result = CliRunner().invoke(bench_cli.app, ["threads", "--rows", "500", "--json", str(place)])
    assert result.exit_code == 0, result.output
    ((one, all_of_them),) = (table["rows"] for table in json.loads(place.read_text("utf-8"))["tables"])
    assert (one["threads"], all_of_them["threads"]) == ("1", "all")
    assert one["planes"] == "same bits"
    assert all_of_them["as with one"] == "same digest"


def test_mixed_columns_are_replayed_beside_numbers_of_the_width_that_they_are_encoded_to() -> None:
    said: list[str] = []
    mixed, numbers = throughput_command.mixed(2000, 1, 0, said.append).rows
    assert [one.split(",")[0] for one in said] == ["replay: mixed columns", "replay: numbers alone"]
    assert (mixed["table"], numbers["table"]) == ("mixed", "numbers")
    assert mixed["columns"] == 11
    assert mixed["features"] == numbers["features"] == numbers["columns"]
    assert mixed["rows"] == numbers["rows"] == 2000
    assert mixed["verified"] == numbers["verified"] == "yes"
    assert numbers["against numbers"] == 1.0
