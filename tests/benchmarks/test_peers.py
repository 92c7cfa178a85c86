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

import deltaplane
from benchmarks.made import bench_without_data, clouds
from deltaplane.arrays import Flags, Floats
from deltaplane.errors import DeltaplaneError
from deltaplane.log import confusion
from deltaplane.solve.solver import solve
from deltaplane.stream.sample import admit
from deltaplane.window.partition import Partition
from deltaplane_benchmarks import bench_cli
from deltaplane_benchmarks.data import catalogue
from deltaplane_benchmarks.data.archives import DataMissing
from deltaplane_benchmarks.experiments import peers
from deltaplane_benchmarks.league import catalogue as catalogue_of_league
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


LEAGUE = [one for one in catalogue_of_league.learners(None) if not one.name.startswith(("MOA", "NoChange"))]
INSTALLED = [learner for learner in (*LEARNERS, *LEAGUE) if learner.installed]


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


@pytest.mark.parametrize("objective", ["gmean", "kappa"])
def test_ours_of_the_league_predicts_what_a_replay_serves(objective: str) -> None:
    task = replace(task_of(700, apart=0.7, part=700), label_delay=40)
    with ours.automatic(objective).prepare(task) as run:
        ran = run()
    assert ran.predicted is not None
    columns = {f"x{at}": task.features[:, at] for at in range(4)} | {
        "label": [LABELS[flag] for flag in task.flags.tolist()]
    }
    keywords: dict[str, Any] = {"label": "label", "positive": LABELS[1], "chunk": 100, "label_delay": 40}
    served = deltaplane.replay(columns, objective=objective, **keywords).summary["served"]["confusion"]
    told = {(one["truth"], one["predicted"]): one["count"] for one in served}
    for truth, name in ((task.flags, LABELS[1]), (~task.flags, f"not {LABELS[1]}")):
        assert np.count_nonzero(ran.predicted & truth) == told[name, LABELS[1]]
    assert ran.scores is not None
    assert 0.0 <= ran.scores.min() < ran.scores.max() <= 1.0


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
    score = batches.ridge(task.features, task.flags)
    scaled = (task.features - task.features.mean(axis=0)) / task.features.std(axis=0)
    extended = np.column_stack([scaled, np.ones(200)])
    penalty = np.diag([1.0] * 4 + [0.0])
    weights = np.linalg.solve(extended.T @ extended + penalty, extended.T @ np.where(task.flags, 1.0, -1.0))
    np.testing.assert_array_equal(score(task.features) > 0.0, extended @ weights > 0.0)


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


@pytest.mark.parametrize("sampling", [None, "over"])
def test_moa_is_told_step_and_delay_and_its_answers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: str | None
) -> None:
    task = replace(task_of(200), label_delay=31)
    said: list[list[str]] = []

    def java(_: Path, words: list[str], made: Path) -> None:
        said.append(words)
        rows = Path(words[2]).read_text("ascii").partition("@data\n")[2].splitlines()
        answers = [f"{int(row.endswith('positive'))} {0.25 + 0.5 * row.endswith('positive')}" for row in rows]
        made.write_text("\n".join(["1.5", *answers, ""]), "ascii")

    monkeypatch.setattr(moa, "java", java)
    way = moa._Way("Tree", "trees.HoeffdingTree", "as it is", sampling=sampling)
    with moa._moa(task, jars=tmp_path, way=way) as run:
        ran = run()
    (words,) = said
    assert words[:2] == ["Prequential", "trees.HoeffdingTree"]
    assert words[3:5] == ["100", "30"]
    assert words[6:] == ([sampling] if sampling else [])
    assert ran.own_seconds == 1.5
    assert ran.judge(200) == 1.0
    assert ran.predicted is not None
    assert ran.predicted.tolist() == task.flags.tolist()
    assert ran.scores is not None
    assert set(ran.scores.tolist()) == {0.25, 0.75}


def test_a_row_at_a_time_is_a_step_of_one_for_moa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(200)
    steps: list[str] = []

    def java(_: Path, words: list[str], made: Path) -> None:
        steps.append(words[3])
        made.write_text("0.5\n" + "0 0.5\n" * 200, "ascii")

    monkeypatch.setattr(moa, "java", java)
    for learner in moa.learners(tmp_path):
        assert measure(learner, task, 1).gmean == 0.0
    assert steps == ["1", "1"]


def test_moa_that_answers_too_few_rows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moa, "java", lambda _, __, made: made.write_text("0.5\n0 0.5\n", "ascii"))
    (learner, *_) = moa.learners_by_chunk(tmp_path)
    with learner.prepare(task_of(200)) as run, pytest.raises(DeltaplaneError, match="answered 1 of 200"):
        run()


def test_moas_file_holds_every_row(tmp_path: Path) -> None:
    task = task_of(200)
    moa.write_arff(task, tmp_path / "rows.arff")
    head, _, body = (tmp_path / "rows.arff").read_text("ascii").partition("@data\n")
    assert head.count("numeric") == 4
    values = [line.split(",") for line in body.splitlines()]
    np.testing.assert_allclose(np.array([row[:-1] for row in values], dtype=np.float64), task.features, rtol=1e-8)
    assert [row[-1] == "positive" for row in values] == task.flags.tolist()


def test_moas_file_names_the_levels_of_features_of_words(tmp_path: Path) -> None:
    task = Task(np.array([[0.0, 2.5], [2.0, -1.0]]), np.array([True, False]), 1, 2, levels=(3, 0))
    moa.write_arff(task, tmp_path / "rows.arff")
    text = (tmp_path / "rows.arff").read_text("ascii")
    assert "@attribute x0 {0,1,2}\n@attribute x1 numeric\n" in text
    assert text.endswith("@data\n0,2.5,positive\n2,-1,rest\n")


def test_features_of_words_become_indicators_for_learners_of_numbers() -> None:
    task = Task(np.array([[0.0, 2.5], [2.0, -1.0]]), np.array([True, False]), 1, 2, levels=(3, 0))
    assert task.encoded().features.tolist() == [[1.0, 0.0, 0.0, 2.5], [0.0, 0.0, 1.0, -1.0]]
    assert task.encoded().levels == ()
    plain = task_of(10)
    assert plain.encoded() is plain


def test_weights_make_both_classes_so_far_weigh_the_same() -> None:
    flags = np.array([True, False, False, False])
    weights = batches._balanced(flags)
    assert weights[flags].sum() == weights[~flags].sum() == 2.0
    assert batches._balanced(flags[1:]).tolist() == [1.0, 1.0, 1.0]


def test_training_anew_waits_for_so_many_rows() -> None:
    seen: list[int] = []

    def train(rows: Floats, _: Flags) -> batches.Score:
        seen.append(len(rows))
        return lambda further: further[:, 0] - 1.5

    with batches._anew(train, task_of(450), every=150) as run:
        run()
    assert seen == [100, 300, 450]


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
