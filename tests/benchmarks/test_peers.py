"""``bench peers``: every learner that is there tests before it trains, and one that is not says what would bring it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.made import bench_without_data, clouds
from deltaplane.arrays import Flags
from deltaplane.log import confusion
from deltaplane.solve.solver import solve
from deltaplane.stream.sample import admit
from deltaplane.window.partition import Partition
from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.data import catalogue
from deltaplane_benchmarks.data.archives import DataMissing
from deltaplane_benchmarks.experiments import peers
from deltaplane_benchmarks.peers import batches, moa, ours, tested_rows
from deltaplane_benchmarks.peers.learners import LEARNERS
from deltaplane_benchmarks.peers.no_change import NO_CHANGE, NO_CHANGE_BY_ROW, last_known
from deltaplane_benchmarks.peers.task import EXTRA, LABELS, Learner, Task, measure

ELECTRICITY = Path(__file__).parents[2] / "examples" / "electricity.csv.gz"
SEED = 31


def task_of(count: int, *, apart: float = 3.0, chunk: int = 100, part: int = 200) -> Task:
    table = clouds("two", {"rest": count // 2, "positive": count - count // 2}, 4, apart=apart, seed=SEED)
    order = np.random.default_rng(SEED).permutation(count)
    return Task(table.features[order], table.flags("positive")[order], chunk, part)


INSTALLED = [learner for learner in LEARNERS if learner.installed]


@pytest.mark.parametrize("learner", INSTALLED, ids=lambda learner: f"{learner.name}, {learner.by}")
def test_every_installed_learner_tells_two_clouds_apart_and_says_the_same_in_every_run(learner: Learner) -> None:
    task = task_of(450)
    first, again = measure(learner, task, 1), measure(learner, task, 1)
    assert first.rows == (200 if learner.slow else 450)
    assert first.gmean > 0.85
    assert (first.gmean, first.gmean_of_part) == (again.gmean, again.gmean_of_part)
    assert first.rows_per_second > 0.0


@pytest.mark.parametrize("learner", INSTALLED, ids=lambda learner: f"{learner.name}, {learner.by}")
def test_no_learner_has_seen_the_label_that_it_is_asked_for(learner: Learner) -> None:
    task = task_of(400, part=400)
    # Labels that say nothing of the rows: who does better than chance has seen them.
    chance = replace(task, flags=np.random.default_rng(SEED).random(400) < 0.5)
    assert measure(learner, chance, 1).gmean < 0.65


@pytest.mark.parametrize("step", [1, 7, 100, 1000])
def test_no_change_guesses_the_last_label_whose_row_came_before_the_chunk(step: int) -> None:
    flags = np.random.default_rng(SEED).random(450) < 0.3
    expected = [False if at < step else bool(flags[at - at % step - 1]) for at in range(450)]
    assert last_known(flags, step).tolist() == expected


def test_no_change_is_above_most_learners_on_elec2_if_labels_come_at_once_and_worth_nothing_if_they_are_late() -> None:
    rows = csv.DictReader(io.StringIO(_electricity()))
    flags = np.array([row["target"] == "1" for row in rows])
    task = Task(np.zeros((len(flags), 1)), flags, 100, len(flags))
    at_once, late = (measure(learner, task, 1).gmean for learner in (NO_CHANGE_BY_ROW, NO_CHANGE))
    assert round(at_once, 3) == 0.850
    assert late < 0.55


def test_no_change_says_little_once_labels_come_a_hundred_rows_late() -> None:
    flags = np.array([row["target"] == "1" for row in csv.DictReader(io.StringIO(_electricity()))])
    task = Task(np.zeros((len(flags), 1)), flags, 100, len(flags), label_delay=100)
    assert round(measure(NO_CHANGE_BY_ROW, task, 1).gmean, 3) == 0.544


def _electricity() -> str:
    return gzip.decompress(ELECTRICITY.read_bytes()).decode()


WAITING = [learner for learner in INSTALLED if learner.waits]


@pytest.mark.parametrize("learner", WAITING, ids=lambda learner: f"{learner.name}, {learner.by}")
def test_learners_that_wait_for_labels_predict_by_no_label_that_has_not_come(learner: Learner) -> None:
    """Labels that come behind the last row change no prediction; without a delay they do, but for the last ones."""
    seen: list[list[bool]] = []

    class Recording(Task):
        def gmean_of(self, predicted: Flags, rows: int) -> float:
            seen.append(predicted.tolist())
            return super().gmean_of(predicted, rows)

    base, random = task_of(400, apart=0.5, part=400), np.random.default_rng(SEED)
    others = np.concatenate([base.flags[:250], random.random(150) < 0.9])
    for flags, delay in ((base.flags, 151), (others, 151), (base.flags, 2), (others, 2)):
        with learner.prepare(Recording(base.features, flags, 100, 400, delay)) as run:
            run().judge(400)
    late, late_too, soon, soon_too = seen
    assert late == late_too
    assert any(late)
    assert soon != soon_too


@pytest.mark.parametrize("step", [100, 1])
def test_ours_with_late_labels_predicts_by_the_rows_whose_labels_have_come(step: int) -> None:
    task = replace(task_of(300, apart=1.0, part=300), label_delay=31)
    definition = ours.definition_of(task, "150", 1.0)
    predicted = np.zeros(300, dtype=np.bool_)
    for chunk in task.chunks(step):
        known = max(0, chunk.start - 30)
        codes = task.flags[max(0, known - 150) : known]
        if codes.any() and not codes.all():
            partition = Partition(definition, 0)
            partition.step(admit(ours._samples(task, slice(max(0, known - 150), known)), definition)[0], [])
            plane = solve(partition.statistics.grams(), definition.grid, definition.solver, LABELS[1])
            predicted[chunk] = plane.predict(task.features[chunk]) == plane.classes.index(LABELS[1])
    with ours._pipeline(task, window="150", choice_of_c=1.0, by_row=step == 1) as run:
        assert run().judge(300) == task.gmean_of(predicted, 300)


@pytest.mark.parametrize("step", [100, 1])
def test_ours_scores_what_a_window_refitted_before_every_chunk_scores(step: int) -> None:
    task = task_of(300, apart=1.0, part=300)
    definition = ours.definition_of(task, "150", 1.0)
    partition, plane, counted = Partition(definition, 0), None, confusion.Confusion()
    for chunk in task.chunks(step):
        if plane is not None and chunk.start >= task.chunk:
            predicted = plane.predict(task.features[chunk]) == plane.classes.index(LABELS[1])
            counted += confusion.Confusion.of(task.flags[chunk].astype(np.int64), predicted.astype(np.int64), LABELS)
        partition.step(admit(ours._samples(task, chunk), definition)[0], [])
        if chunk.stop >= task.chunk:
            plane = solve(partition.statistics.grams(), definition.grid, definition.solver, LABELS[1])
    assert counted.rows == 200
    with ours._pipeline(task, window="150", choice_of_c=1.0, by_row=step == 1) as run:
        assert run().judge(300) == pytest.approx(confusion.gmean(counted), rel=1e-12)


def test_least_squares_anew_gives_the_plane_of_the_normal_equations() -> None:
    task = task_of(200, apart=1.0)
    predict = batches.ridge(task.features, task.flags)
    scaled = (task.features - task.features.mean(axis=0)) / task.features.std(axis=0)
    extended = np.column_stack([scaled, np.ones(200)])
    penalty = np.diag([1.0] * 4 + [0.0])
    weights = np.linalg.solve(extended.T @ extended + penalty, extended.T @ np.where(task.flags, 1.0, -1.0))
    np.testing.assert_array_equal(predict(task.features), extended @ weights > 0.0)


class Recorded:
    """A learner in River's manner that keeps what it was asked, and guesses the last label it was told."""

    calls: list[tuple[str, Any]]

    def __init__(self) -> None:
        self.calls = []
        self.last: bool | None = None

    def __ror__(self, _: object) -> Self:
        return self

    def predict_one(self, row: dict[str, float]) -> bool | None:
        self.calls.append(("predict", row["x0"]))
        return self.last

    def learn_one(self, row: dict[str, float], label: bool) -> None:  # noqa: FBT001 - River's own signature.
        self.calls.append(("learn", row["x0"]))
        self.last = label


def test_rivers_learners_are_asked_for_a_row_before_they_are_told_it() -> None:
    task = task_of(200)
    made: list[Recorded] = []

    def make() -> Recorded:
        made.append(Recorded())
        return made[-1]

    with tested_rows._river(make, task) as run:
        found = run().judge(200)
    values = task.features[:, 0].tolist()
    assert made[0].calls == [(what, value) for value in values for what in ("predict", "learn")]
    guessed = np.concatenate([[False], task.flags[:-1]])
    assert found == task.gmean_of(guessed, 200)


def test_vowpal_wabbit_gets_every_row_with_its_label_and_its_answers_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(200)
    seen: list[str] = []

    class Workspace:
        def __init__(self, arg_list: list[str]) -> None:
            lines = Path(arg_list[arg_list.index("--data") + 1]).read_text("ascii").splitlines()
            if "--predictions" in arg_list:
                answers = Path(arg_list[arg_list.index("--predictions") + 1])
                answers.write_text("".join(line.split(" ")[0] + "\n" for line in lines), "ascii")
            seen[:] = lines

        def finish(self) -> None:
            """As the real one has."""

    fake = ModuleType("vowpalwabbit")
    fake.Workspace = Workspace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vowpalwabbit", fake)
    with tested_rows._vowpal_wabbit(task, scaled=False) as run:
        assert run().judge(200) == 1.0
    assert len(seen) == 200
    assert seen[0].startswith(f"{1 if task.flags[0] else -1} | 0:{task.features[0, 0]:.9g} 1:")


def test_moas_recalls_so_far_give_the_gmean_without_the_first_chunk() -> None:
    task = task_of(400)
    truth = task.flags
    predicted = truth ^ (np.random.default_rng(SEED).random(400) < 0.2)
    lines = []
    for mark in (100, 200, 300, 400):
        recalls = [100.0 * (predicted[:mark] == truth[:mark])[truth[:mark] == side].mean() for side in (False, True)]
        names = [f"Recall for class {at} (percent)" for at in (0, 1)]
        lines.append({"learning evaluation instances": f"{mark}.0", **dict(zip(names, map(str, recalls), strict=True))})
    assert moa.gmean_of(lines, task, 400) == pytest.approx(task.gmean_of(predicted, 400))
    assert moa.gmean_of(lines, task, 200) == pytest.approx(task.gmean_of(predicted, 200))


def test_moas_file_holds_every_row(tmp_path: Path) -> None:
    task = task_of(200)
    moa.write_arff(task, tmp_path / "rows.arff")
    head, _, body = (tmp_path / "rows.arff").read_text("ascii").partition("@data\n")
    assert head.count("numeric") == 4
    values = [line.split(",") for line in body.splitlines()]
    np.testing.assert_allclose(np.array([row[:-1] for row in values], dtype=np.float64), task.features, rtol=1e-8)
    assert [row[-1] == "positive" for row in values] == task.flags.tolist()


def test_what_is_not_installed_keeps_its_line_and_says_what_would_bring_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = replace(tested_rows.LOGISTIC, package="deltaplane_no_such_package")
    monkeypatch.setattr(peers, "LEARNERS", (batches.SGD, nowhere))
    monkeypatch.setattr(peers, "BASELINES", ())
    table = clouds("Elec2", {"0": 150, "1": 150}, 4, apart=3.0, seed=SEED)
    task = task_of(300)
    exhibit = peers.exhibit(bench_without_data(tmp_path, quick=True), table, peers.STREAMS[1], task, None)
    assert [row[0] for row in exhibit.rows] == [batches.SGD.name, nowhere.name, "MOA SGD", "MOA HoeffdingTree"]
    assert [row[1] for row in exhibit.rows] == ["chunks", EXTRA, moa.ABSENT, moa.ABSENT]
    assert exhibit.rows[1][2:] == (None,) * 5
    assert {len(row) for row in exhibit.rows} == {len(exhibit.columns)}
    assert [series.name for series in exhibit.charts[0].series] == ["scikit-learn SGDClassifier, chunks"]


def test_the_command_writes_a_table_for_each_stream_it_can_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LEARNERS", (ours.PLAIN, batches.SGD))
    table = clouds("Elec2", {"0": 1500, "1": 1500}, 6, apart=0.5, seed=SEED)

    def load(name: str, _: object) -> catalogue.DataSet:
        if name != "Elec2":
            raise DataMissing(f"{name}: not here")
        return table

    monkeypatch.setattr(catalogue, "load", load)
    result = CliRunner().invoke(
        bench_cli.app, ["peers", "--quick", "--offline", "--json", "-", "--plots", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    (exhibit,) = document["exhibits"]
    assert exhibit["name"] == "peers, Elec2"
    assert [row["rows"] for row in exhibit["rows"][:2]] == [3000, 3000]
    assert list(document["missing"]) == ["CoverType"]
    assert sorted(place.name for place in tmp_path.iterdir()) == ["peers-elec2.png", "peers-elec2.svg"]
