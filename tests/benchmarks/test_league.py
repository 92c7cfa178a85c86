"""``bench imbalance``: streams have the ratio and the drift that they say, and a run that is done is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.made import bench_without_data
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.experiments import league, league_tables
from deltaplane_benchmarks.league import catalogue, pools, regions, results, rotating, schedule
from deltaplane_benchmarks.league.catalogue import BEST_OF, CHUNK, LINEAR, OURS, first_half, recipes
from deltaplane_benchmarks.league.results import Line, Results
from deltaplane_benchmarks.peers.batches import WEIGHTED_SGD
from deltaplane_benchmarks.peers.no_change import NO_CHANGE
from deltaplane_benchmarks.peers.task import Task

ROWS = 3000


@pytest.mark.parametrize(("ratio", "share"), [("1:10", 1 / 11), ("1:100", 1 / 101)])
def test_one_row_in_so_many_is_of_the_rare_class(ratio: str, share: float) -> None:
    rare = schedule.rare_rows(100_000, ratio, "any")
    assert abs(rare.mean() - share) < 4.0 * np.sqrt(share / 100_000)


def test_a_changing_ratio_falls_in_the_first_half_and_rises_in_the_second() -> None:
    rare = schedule.rare_rows(300_000, schedule.RATIOS[2], "any").reshape(6, -1).mean(axis=1).tolist()
    assert rare[0] > rare[1] > rare[2]
    assert rare[3] < rare[4] < rare[5]
    assert abs(schedule.rare_share(1000, schedule.RATIOS[2])[[0, 500]] - [1 / 11, 1 / 101]).max() < 1e-12


def test_a_sudden_drift_is_in_the_middle_and_a_gradual_one_in_the_middle_fifth() -> None:
    sudden, gradual, none = (schedule.second_concept(10_000, drift, "any") for drift in schedule.DRIFTS)
    assert np.flatnonzero(sudden).tolist() == list(range(5000, 10_000))
    assert not gradual[:4000].any()
    assert gradual[6000:].all()
    shares = gradual[4000:6000].reshape(4, -1).mean(axis=1)
    assert (np.diff(shares) > 0.1).all()
    assert not none.any()


def test_what_is_made_by_us_is_the_same_on_every_machine() -> None:
    turned, rare = rotating.rotating_rows(500, "1:10", 3, "any")
    split, inside = regions.regions_rows(500, "1:10", "split", "any")
    made = hashlib.sha256(b"".join(part.tobytes() for part in (turned, rare, split, inside))).hexdigest()
    assert made[:16] == "40aab05e80b12941"


@pytest.mark.parametrize("turns", [0, 3])
def test_a_hyperplane_that_turns_parts_the_classes_but_for_one_rare_row_in_twenty(turns: int) -> None:
    features, rare = rotating.rotating_rows(40_000, "1:10", turns, "any")
    angles = 2.0 * np.pi * turns * np.arange(40_000) / 40_000
    along = features[:, 0] * np.cos(angles) + features[:, 1] * np.sin(angles)
    beyond = along > np.quantile(along, 10 / 11)
    assert abs((rare & ~beyond).sum() / rare.sum() - rotating.WRONG) < 0.02
    assert abs(features.std(axis=0) - 1.0).max() < 0.02
    crossed = features[:, 2:].T @ features[:, 2:] / 40_000
    assert abs(crossed - np.eye(6)).max() < 0.03


@pytest.mark.parametrize("kind", regions.KINDS)
def test_regions_change_between_a_third_and_half_of_the_stream(kind: str) -> None:
    features, rare = regions.regions_rows(20_000, "1:10", kind, "any")
    centres, radii = regions._balls(kind, np.array([0.0, 1.0]), "any")

    def within(part: slice, end: int, scale: float = 1.0) -> Floats:
        apart = ((features[part][rare[part]][:, None, :] - centres[end]) ** 2).sum(axis=2)
        share: Floats = np.asarray((apart <= (scale * radii[end]) ** 2 + 1e-12).any(axis=1).mean())
        return share

    before, after = slice(0, int(20_000 * regions.BEGIN)), slice(int(20_000 * regions.END), None)
    assert within(before, 0) == 1.0
    expected = {"borderline": (0.55, 0.75), "rare": (0.55, 0.75)}.get(kind, (1.0, 1.0))
    assert expected[0] <= within(after, 1) <= expected[1]
    if kind == "borderline":
        assert within(after, 1, 1.4) == 1.0
    if kind == "move":
        assert within(after, 0) < 0.5
    if kind != "borderline":
        own = features[before][~rare[before]]
        assert (((own[:, None, :] - centres[0]) ** 2).sum(axis=2) > radii[0] ** 2).all()


ARFF = """@relation 'generators.Made '

@attribute salary numeric
@attribute car {car1,car2,car3}
@attribute class {groupA,groupB}

@data

1.5,car3,groupB,
-2.0,car1,groupA,
"""


def test_a_file_of_moa_is_read_with_its_words_as_codes() -> None:
    pool = pools.read_arff(ARFF, "groupB")
    assert pool.features.tolist() == [[1.5, 2.0], [-2.0, 0.0]]
    assert pool.rare.tolist() == [True, False]
    assert pool.levels == (0, 3)
    with pytest.raises(DeltaplaneError, match="class 'groupC'"):
        pools.read_arff(ARFF, "groupC")


def test_rows_are_taken_by_class_and_concept_in_the_order_in_which_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawn(_: Path, generator: str, rare: str, rows: int) -> pools.Pool:
        assert rare == "yes"
        at = np.arange(rows)
        own = at % (1000 if rows < 100_000 else 3) == 0
        return pools.Pool(np.column_stack([at, np.full(rows, float(generator))]), own, (0, 0))

    monkeypatch.setattr(pools, "drawn", drawn)
    made = pools.Generator("Made", ("{seed}", "{other}"), "yes")
    features, rare, levels = pools.mixed_rows(Path(), made, 5000, "1:10", "sudden", 7)
    assert levels == (0, 0)
    assert features[:, 1].tolist() == [7.0] * 2500 + [17.0] * 2500
    assert ((features[:, 0] % 3 == 0) == rare).all()
    for half in (slice(0, 2500), slice(2500, None)):
        for side in (False, True):
            assert (np.diff(features[half, 0][rare[half] == side]) > 0).all()


def test_the_second_concept_has_rows_of_its_own_unless_they_are_to_come_again() -> None:
    for generator in pools.GENERATORS:
        first, second = generator.told("sudden", 3)
        assert first.endswith("-i 3")
        assert second.endswith("-i 13")
        assert generator.told(f"sudden{schedule.AGAIN}", 3)[1].endswith(
            "-i 13" if generator.name == "Hyperplane" else "-i 3"
        )


def test_a_generator_that_gives_too_few_rows_of_a_class_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "drawn", lambda *_: pools.Pool(np.zeros((9, 1)), np.zeros(9, np.bool_), (0,)))
    with pytest.raises(DeltaplaneError, match="Made gave too few rows"):
        pools.mixed_rows(Path(), pools.Generator("Made", ("Made", "Made"), "yes"), 100, "1:10", "none", 1)


def test_every_stream_has_a_name_of_its_own_and_fixed_ratios_come_first() -> None:
    streams = recipes(ROWS, 0)
    assert len({one.name for one in streams}) == len(streams)
    assert {one.ratio for one in streams[:16]} == {"1:10", "1:100"}
    assert {one.drift for one in streams[:16]} == {"sudden"}


def test_halves_are_of_whole_families_and_follow_from_the_seed() -> None:
    families = [one.family for one in recipes(ROWS, 0)]
    half = first_half(families, 0)
    assert abs(2 * len(half) - len(set(families))) <= 1
    assert first_half(families[::-1], 0) == half
    assert any(first_half(families, seed) != half for seed in range(1, 9))


def part(tmp_path: Path, *names: str, streams: tuple[str, ...] = ("Regions split, 1:10",), **given: Any) -> league.Part:
    return league.Part(tmp_path / "lines.jsonl", None, ROWS, streams, names, (100,), **given)


def forbidden(*_: object) -> Line:
    raise AssertionError("a run that is done is done again")


def test_a_league_goes_on_where_it_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_without_data(tmp_path)
    first = league.run(part(tmp_path, "NoChange", "weighted"), bench)
    lines = (tmp_path / "lines.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 6
    assert {json.loads(line)["schema"] for line in lines} == {results.SCHEMA}
    with monkeypatch.context() as patch:
        patch.setattr(league, "measured", forbidden)
        assert league.run(part(tmp_path, "NoChange", "weighted"), bench) == first
        assert league.run(part(tmp_path, show_only=True), bench) == first
    # The last line is cut off in its middle, as by a machine that stops: it is run again, and begins a line of its own.
    (tmp_path / "lines.jsonl").write_text("\n".join([*lines[:-1], lines[-1][:70]]), "utf-8")
    again = league.run(part(tmp_path, "NoChange", "weighted"), bench)
    assert [one.rows for one in again if one.name == "imbalance, G-mean"] == [
        one.rows for one in first if one.name == "imbalance, G-mean"
    ]
    assert len((tmp_path / "lines.jsonl").read_text("utf-8").splitlines()) == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: {**settings, "label_delay": 0},
        lambda settings: {**settings, "how": "another way"},
        lambda settings: {**settings, "version": "another"},
        lambda settings: {**settings, "stream": {**settings["stream"], "seed": 1}},
        lambda settings: {**settings, "stream": {**settings["stream"], "rows": 1}},
    ],
)
def test_another_setting_is_another_run(tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    (recipe,) = (one for one in recipes(ROWS, 0) if one.name == "Regions rare, 1:10")
    settings = results.settings_of(recipe, NO_CHANGE, 100, None)
    kept = Results(tmp_path / "lines.jsonl")
    kept.add(results.measured(NO_CHANGE, recipe.task(None, 100), settings))
    read = Results(tmp_path / "lines.jsonl")
    assert read.find(settings) == kept.find(settings) is not None
    assert read.find(change(settings)) is None


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"schema": "another"}\n', "utf-8")
    with pytest.raises(DeltaplaneError, match="line 1: expected 'deltaplane imbalance 1'"):
        Results(tmp_path / "lines.jsonl")


def test_measures_are_of_the_rows_after_the_first_and_after_any_label_could_come() -> None:
    truth = np.arange(4000) % 10 == 0
    task = Task(np.zeros((4000, 1)), truth, CHUNK, 4000, label_delay=500)
    line = results.measured(NO_CHANGE, task, {})
    counted = slice(1499, None)
    # The last label that is known is always that of a row whose number does not end in 0.
    assert line.measures["G-mean"] == 0.0
    assert line.measures["kappa"] == 0.0
    assert line.measures["MCC"] is None
    assert line.measures["PR-AUC"] == pytest.approx(truth[counted].mean())


def test_ours_is_held_against_the_best_of_three_and_halves_are_printed_beside_all(tmp_path: Path) -> None:
    streams = [one for one in recipes(ROWS, 0) if one.made_by == "regions" and one.ratio == "1:10"]
    kept = Results(tmp_path / "lines.jsonl")
    for at, recipe in enumerate(streams):
        values = {**{one.name: 0.8 for one in OURS.values()}, **dict(zip(BEST_OF, (0.5, 0.7, 0.9), strict=True))}
        values[BEST_OF[1]] += 0.25 * (at == 0)
        for name, value in values.items():
            settings = {**results.settings_of(recipe, NO_CHANGE, 100, None), "learner": name}
            kept.add(Line(settings, dict.fromkeys(results.MEASURES, value), 5.0, 1.0, "a day"))
    made = {one.name: one for one in league_tables.exhibits(kept, recipes(ROWS, 0), 0)}
    means = made["imbalance, means"]
    assert {row[0] for row in means.rows} == {"all", "first half", "second half"}
    sizes = {row[0]: row[2] for row in means.rows}
    assert sizes["all"] == len(streams)
    assert 0 not in {sizes["first half"], sizes["second half"]}
    told = {target.text: target for target in means.targets}
    assert len(told) == 9
    (of_all,) = (target for text, target in told.items() if text.startswith("all: mean kappa"))
    assert not of_all.met
    assert of_all.measured == "0.8000 against 0.9000 (MOA SRP; the best of each stream: 0.9100)"
    behind = made["imbalance, behind"]
    assert len(behind.rows) == 3 * len(streams)
    assert behind.rows[0][:6] == (streams[0].name, 100, "G-mean", 0.8, 0.95, BEST_OF[1])


def test_curved_is_held_against_linear_where_a_hyperplane_turns(tmp_path: Path) -> None:
    exhibits = league.run(part(tmp_path, streams=("Rotating hyperplane, 1:10, 1 turns",)), bench_without_data(tmp_path))
    (table,) = (one for one in exhibits if one.name == "imbalance, rotating hyperplanes")
    ((name, delay, curved, linear, difference),) = table.rows
    assert (name, delay) == ("Rotating hyperplane, 1:10, 1 turns", 100)
    assert isinstance(curved, float)
    assert isinstance(linear, float)
    assert difference == curved - linear
    assert min(curved, linear) > 0.5
    assert [target.met for target in table.targets] == [difference >= -league_tables.LOST_TO_CURVED]
    assert {line.settings["learner"] for line in Results(tmp_path / "lines.jsonl")} == {OURS["gmean"].name, LINEAR.name}


def test_streams_of_moa_are_missing_without_it_and_the_rest_is_run(tmp_path: Path) -> None:
    bench = bench_without_data(tmp_path)
    league.run(part(tmp_path, "NoChange", streams=("Sine, 1:10, sudden", "Regions rare, 1:100")), bench)
    assert list(bench.missing) == ["streams of MOA's generators"]
    assert len(Results(tmp_path / "lines.jsonl")) == 1


def test_a_name_that_is_in_none_is_refused_with_the_names_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"--learners nobody: in no name; there are NoChange, "):
        league.run(part(tmp_path, "nobody"), bench_without_data(tmp_path))


def test_the_command_makes_its_page_from_the_lines(tmp_path: Path) -> None:
    page, lines = tmp_path / "page.md", tmp_path / "lines.jsonl"
    words = ["imbalance", "--results", str(lines), "--rows", str(ROWS), "--markdown", str(page)]
    chosen = [
        "--streams",
        "Regions move, 1:100",
        "--learners",
        "NoChange",
        "--learners",
        "weighted",
        "--delays",
        "1000",
    ]
    ran = CliRunner().invoke(bench_cli.app, [*words, *chosen])
    assert ran.exit_code == 0, ran.output
    first = page.read_text("utf-8")
    assert "| Regions move, 1:100 | 1,000 | " in first
    assert f"{WEIGHTED_SGD.name}: {WEIGHTED_SGD.how}." in first
    shown = CliRunner().invoke(bench_cli.app, [*words, "--show-only"])
    assert shown.exit_code == 0, shown.output
    assert page.read_text("utf-8").partition("## ")[2] == first.partition("## ")[2]


def test_a_recipe_makes_other_rows_from_another_seed() -> None:
    (recipe,) = (one for one in recipes(ROWS, 0) if one.name == "Regions join, 1:100")
    one, same, other = (each.task(None, 0) for each in (recipe, recipe, replace(recipe, seed=1)))
    assert np.array_equal(one.features, same.features)
    assert not np.array_equal(one.features, other.features)
    assert one.chunk == catalogue.CHUNK


def test_the_page_in_the_sources_is_that_of_the_lines_beside_it(tmp_path: Path) -> None:
    place, page = Path(__file__).parents[2] / "benchmarks", tmp_path / "page.md"
    words = ["imbalance", "--results", str(place / "imbalance.jsonl"), "--rows", "10000", "--show-only"]
    shown = CliRunner().invoke(bench_cli.app, [*words, "--markdown", str(page)])
    assert shown.exit_code == 0, shown.output
    assert (place / "imbalance.md").read_text("utf-8").partition("## ")[2] == page.read_text("utf-8").partition("## ")[
        2
    ]
