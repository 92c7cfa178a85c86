"""When quality fell and what was different, and when features shifted: of a change that was made at a known row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from deltaplane.log.drift import BLOCK_ROWS, BLOCKS
from deltaplane_services.observe.report.changes import drifts_table, falls_table
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.record import run_of
from deltaplane_services.replay.console import Console
from deltaplane_services.replay.in_python import Replayed, replay

CHANGE, END = 12_000, 15_000


def table_of(seed: int, *, changes: bool = True, rows: int = 20_000) -> dict[str, Any]:
    """Two of five are ``bad``, and far out in ``a``; for some rows they are not, and ``c`` is higher from there on."""
    random = np.random.default_rng(seed)
    own = random.random(rows) < 0.4
    values = random.normal(size=(rows, 3))
    values[:, 0] += 2.5 * own
    if changes:
        values[CHANGE:END, 0] -= 4.0 * own[CHANGE:END]
        values[CHANGE:, 2] += 1.5
    return {"a": values[:, 0], "b": values[:, 1], "c": values[:, 2], "y": np.where(own, "bad", "ok")}


@pytest.fixture(scope="module")
def replayed() -> Replayed:
    return replay(table_of(1), label="y", positive="bad")


@pytest.fixture(scope="module")
def changed(replayed: Replayed) -> dict[str, Any]:
    summary: dict[str, Any] = replayed.summary
    return summary


@pytest.fixture(scope="module")
def unchanged() -> Replayed:
    return replay(table_of(3, changes=False), label="y", positive="bad")


def test_a_shift_at_a_known_row_is_found_once_within_a_window_without_labels(changed: dict[str, Any]) -> None:
    first = changed["drifts"][0]
    assert CHANGE < first["row"] <= CHANGE + BLOCKS * BLOCK_ROWS
    assert "c" in [one["feature"] for one in first["features"]]
    table = table_of(1)
    others = {**table, "y": np.random.default_rng(2).permutation(table["y"])}
    blind = replay(others, label="y", positive="bad").summary
    assert blind["drifts"] == changed["drifts"], "labels are not looked at"


def test_without_a_change_nothing_is_found(unchanged: Replayed) -> None:
    summary = unchanged.summary
    assert (summary["falls"], summary["drifts"]) == ([], [])
    page = run_page(run_of(summary, "s"))
    assert "No fall of quality was found, and no shift of features." in page


def test_a_fall_is_found_with_its_class_and_what_was_different_in_it(changed: dict[str, Any]) -> None:
    fall = max(changed["falls"], key=lambda one: one["recall_before"] - one["recall_during"])
    assert fall["class"] == "bad"
    assert abs(fall["rows_from"] - CHANGE) <= 500
    assert fall["recall_during"] < fall["recall_before"] - 0.2
    assert fall["during"]["gmean"] < fall["before"]["gmean"]
    assert fall["features"][0]["feature"] == "c"
    of_class = {one["feature"]: one["shift"] for one in fall["features_of_class"]}
    assert of_class["a"] == pytest.approx(-4.0, abs=0.8)
    assert of_class["c"] == pytest.approx(1.5, abs=0.2)
    assert fall["blend"]


def test_the_page_tells_of_falls_and_shifts_with_the_numbers_of_the_json(changed: dict[str, Any]) -> None:
    run = run_of(changed, "s")
    page = run_page(run)
    assert 'id="chart-drift"' in page
    assert "Where quality fell" in page
    for row in (*falls_table(run.falls, lambda _: "").body, *drifts_table(run.drifts or (), lambda _: "").body):
        for cell in row:
            assert cell.replace("&", "&amp;") in page
    fall = changed["falls"][0]
    assert f"{fall['class']}: {fall['recall_before']:.4f} → {fall['recall_during']:.4f}" in page
    told = re.search(r"<td[^>]*>([^<]*\ba [-+][\d.]+[^<]*)</td>", page)
    assert told is not None


def test_the_series_tells_how_far_features_are_from_before(changed: dict[str, Any]) -> None:
    shifts = {point["rows_to"]: point["lately"]["shift"] for point in changed["series"]}
    assert next(iter(shifts.values())) is None
    largest = max((row for row in shifts if shifts[row]), key=lambda row: abs(shifts[row][2]))
    assert CHANGE < largest < CHANGE + 1500
    assert max(abs(one[1]) for one in shifts.values() if one) < 0.5


def test_the_summary_in_a_terminal_names_the_last_fall_and_the_last_shift(
    replayed: Replayed, unchanged: Replayed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    Console(to_error=False).summary(replayed._result)
    said = capsys.readouterr().out
    fall, drift = replayed.summary["falls"][-1], replayed.summary["drifts"][-1]
    assert f"recall of {fall['class']} {fall['recall_before']:.2f} → {fall['recall_during']:.2f}" in said
    assert f"in rows {fall['rows_from']:,} to {fall['rows_to']:,}" in said
    assert f"by row {drift['row']:,}: {drift['features'][0]['feature']} " in said
    Console(to_error=False).summary(unchanged._result)
    calm = capsys.readouterr().out
    assert "quality fell" not in calm
    assert "features shifted" not in calm
