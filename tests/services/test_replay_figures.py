"""The figures of a replay beside scikit-learn's on its predictions, and baselines beside what is worked out here."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics
from typer.testing import CliRunner

import deltaplane
from deltaplane.errors import DefinitionError
from deltaplane_services.cli.application import app
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.record import run_of
from deltaplane_services.replay.in_python import Replayed


def table_of(rare: float, labels: tuple[str, str] = ("ok", "fraud"), rows: int = 6000) -> dict[str, Any]:
    """A stream of two numbers whose rare class is far out on both, and a time a minute apart."""
    random = np.random.default_rng(11)
    own = random.random(rows) < rare
    features = random.normal(size=(rows, 2)) + 1.6 * own[:, None]
    times = np.datetime64("2026-01-01T00:00") + np.arange(rows) * np.timedelta64(1, "m")
    return {"a": features[:, 0], "b": features[:, 1], "t": times.astype(str), "y": np.where(own, *labels[::-1])}


def scored(replayed: Replayed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, prediction and decision value of the rows that were scored."""
    table = replayed.predictions
    table = table.filter(table["prediction"].is_valid())
    truth, guess = (np.array(table[name].to_pylist()) for name in ("label", "prediction"))
    return truth, guess, table["value"].to_numpy()


@pytest.mark.parametrize("rare", [0.4, 0.01])
@pytest.mark.parametrize("more", [{"positive": "fraud"}, {}, {"window": 500, "C": 1, "chunk": 1}])
@pytest.mark.parametrize("labels", [("ok", "fraud"), ("clean", "fraud"), ("zero", "a")])
def test_every_figure_is_the_one_of_scikit_learn_on_the_same_rows(
    rare: float, more: dict[str, Any], labels: tuple[str, str]
) -> None:
    more = {name: labels[1] if name == "positive" else value for name, value in more.items()}
    replayed = deltaplane.replay(table_of(rare, labels), label="y", ignore="t", **more)
    summary, (truth, guess, value) = replayed.summary, scored(replayed)
    assert summary["positive"] == labels[1]
    own, claimed = truth == labels[1], guess == labels[1]
    assert summary["scored"] == len(truth)
    expected = {
        "sensitivity": metrics.recall_score(own, claimed),
        "specificity": metrics.recall_score(~own, ~claimed),
        "precision": metrics.precision_score(own, claimed),
        "f_measure": metrics.f1_score(own, claimed),
        "kappa": metrics.cohen_kappa_score(own, claimed),
        "matthews": metrics.matthews_corrcoef(own, claimed),
        "accuracy": metrics.accuracy_score(own, claimed),
        "false_alarms_per_1000_rows": 1000 * np.mean(claimed & ~own),
    }
    assert {name: summary[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    # Without a name the value is of the class that the plane has on its positive side, the last one.
    value = value if "positive" in more or labels[1] == max(labels) else -value
    for name, theirs in (
        ("roc_auc", metrics.roc_auc_score(own, value)),
        ("pr_auc", metrics.average_precision_score(own, value)),
    ):
        low, high = summary[f"{name}_ends"]
        assert low - 1e-12 <= theirs <= high + 1e-12
        assert high - low < 0.02
    order = np.argsort(-value, kind="stable")
    for at in summary["top"]:
        precision = own[order[: at["rows"]]].mean()
        assert at["precision_ends"][0] - 1e-12 <= precision <= at["precision_ends"][1] + 1e-12
        assert at["lift"] == pytest.approx(at["precision"] / own.mean())
        assert at["recall"] == pytest.approx(at["precision"] * at["rows"] / own.sum())
    assert {at["rows"] for at in summary["top"]} >= {int(own.sum()), round(0.01 * len(own))}


def test_baselines_are_of_the_scored_rows_and_what_each_says_it_is() -> None:
    table = table_of(0.3)
    replayed = deltaplane.replay(table, label="y", positive="fraud", ignore="t")
    summary, labels = replayed.summary, ["fraud" if one == "fraud" else "not fraud" for one in table["y"]]
    pairs: dict[str, list[tuple[str, str]]] = {"majority": [], "last_label": []}
    for at in range(100, len(labels)):
        before = Counter(labels[: at // 100 * 100])
        pairs["majority"].append((labels[at], max(before, key=before.__getitem__)))
        pairs["last_label"].append((labels[at], labels[at - 1]))
    for name, rows in pairs.items():
        truth, guess = ([one[side] == "fraud" for one in rows] for side in (0, 1))
        found = summary["baselines"][name]
        assert found["rows"] == len(rows) == summary["scored"]
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, guess))
        assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(truth, guess))
    frozen = summary["baselines"]["frozen"]
    assert (frozen["rows"], frozen["frozen_at"]) == (summary["scored"], 1000)
    assert frozen["gmean"] > 0.7


def test_a_plane_that_was_frozen_is_worse_after_a_change_and_the_same_before_one() -> None:
    table = table_of(0.4)
    half = len(table["y"]) // 2
    table["a"][half:], table["b"][half:] = -table["a"][half:], -table["b"][half:]
    summary = deltaplane.replay(table, label="y", positive="fraud", ignore="t").summary
    assert summary["baselines"]["frozen"]["gmean"] < summary["gmean"] - 0.1


def test_false_alarms_are_told_by_the_day_where_rows_have_times() -> None:
    replayed = deltaplane.replay(table_of(0.1), label="y", positive="fraud", time="t")
    truth, guess, _ = scored(replayed)
    alarms = np.count_nonzero((truth != "fraud") & (guess == "fraud"))
    assert replayed.summary["false_alarms_per_day"] == pytest.approx(alarms / (5999 / 1440))
    without = deltaplane.replay(table_of(0.1), label="y", positive="fraud", ignore="t")
    assert without.summary["false_alarms_per_day"] is None


def test_what_a_good_gmean_costs_is_said_where_most_alarms_are_false(tmp_path: Path) -> None:
    table = table_of(0.01)
    lines = [f"{a},{b},{y}" for a, b, y in zip(table["a"], table["b"], table["y"], strict=True)]
    file = tmp_path / "rows.csv"
    file.write_text("a,b,y\n" + "\n".join(lines) + "\n", "utf-8")
    words = ["replay", str(file), "--label", "y", "--json", str(tmp_path / "s.json")]
    said = CliRunner(env={"COLUMNS": "300"}).invoke(app, words).stdout
    summary = json.loads((tmp_path / "s.json").read_text("utf-8"))
    assert summary["gmean"] > 0.8
    assert summary["f_measure"] < 0.4
    assert f"warning: {summary['cautions'][0]}" in said
    assert "false alarms for each true one" in summary["cautions"][0]
    assert "per 1,000 rows" in said
    balanced = deltaplane.replay(table_of(0.4), label="y", ignore="t")
    assert balanced.summary["cautions"] == []


def test_a_baseline_that_is_better_than_the_model_is_said_to_be() -> None:
    table = table_of(0.3)
    spells = np.arange(6000) // 40 % 2 == 0
    table["y"] = np.where(spells, "ok", "fraud")
    with pytest.warns(RuntimeWarning, match="long runs"):
        summary = deltaplane.replay(table, label="y", ignore="t").summary
    (said,) = summary["cautions"]
    assert said.startswith("without a model that goes on learning, the label of the row before has a G-mean of 0.97")


@pytest.mark.parametrize(
    ("metric", "measure"),
    [("precision", "precision"), ("mcc", "matthews"), ("pr_auc", "pr_auc"), ("recall", "sensitivity")],
)
def test_the_metric_that_is_asked_for_comes_first(metric: str, measure: str) -> None:
    table = table_of(0.2)
    summary = deltaplane.replay(table, label="y", ignore="t", metric=metric).summary
    assert (summary["headline"]["metric"], summary["headline"]["value"]) == (metric, summary[measure])
    usual = deltaplane.replay(table, label="y", ignore="t").summary
    assert usual["headline"] == {"metric": "gmean", "name": "G-mean", "value": summary["gmean"]}
    assert usual["digest"] == summary["digest"]
    with pytest.raises(DefinitionError, match="metric: expected one of gmean, precision"):
        deltaplane.replay(table, label="y", ignore="t", metric="nonsense")


def test_figures_of_one_class_are_not_made_up_for_several() -> None:
    table = table_of(0.3)
    table["y"] = np.where(np.arange(6000) % 3 == 0, "third", table["y"])
    summary = deltaplane.replay(table, label="y", ignore="t").summary
    assert (summary["positive"], summary["roc_auc"], summary["precision"], summary["top"]) == (None, None, None, [])
    assert set(summary["intervals"]) == {"gmean", "accuracy"}
    assert summary["baselines"]["last_label"]["rows"] == summary["scored"]
    assert math.isfinite(summary["baselines"]["majority"]["accuracy"])


def test_a_quiet_replay_prints_what_went_wrong_alone(tmp_path: Path) -> None:
    for rare, said in ((0.4, ""), (0.01, "warning: of 100 rows")):
        table = table_of(rare)
        lines = [f"{a},{b},{y}" for a, b, y in zip(table["a"], table["b"], table["y"], strict=True)]
        file = tmp_path / "rows.csv"
        file.write_text("a,b,y\n" + "\n".join(lines) + "\n", "utf-8")
        words = ["replay", str(file), "--label", "y", "-q", "--verify", "--json", str(tmp_path / "s.json")]
        done = CliRunner(env={"COLUMNS": "300"}).invoke(app, words)
        assert done.stdout.startswith(said)
        assert len(done.stdout.splitlines()) == bool(said)
        assert json.loads((tmp_path / "s.json").read_text("utf-8"))["verified"] is True


def test_every_figure_at_the_head_of_the_page_is_that_of_the_json_and_says_what_it_is() -> None:
    summary = deltaplane.replay(table_of(0.05), label="y", positive="fraud", time="t").summary
    page = run_page(run_of(summary, "s"))
    tiles = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))
    named = {
        "G-mean": "gmean",
        "precision (fraud)": "precision",
        "sensitivity (fraud)": "sensitivity",
        "F-measure": "f_measure",
        "specificity": "specificity",
        "Cohen's kappa": "kappa",
        "Matthews correlation": "matthews",
        "ROC-AUC": "roc_auc",
        "PR-AUC": "pr_auc",
        "relative sensitivity": "relative_sensitivity",
        "accuracy": "accuracy",
    }
    assert {name: tiles[name] for name in named} == {name: f"{summary[key]:.4f}" for name, key in named.items()}
    assert tiles["false alarms per 1,000 rows"] == f"{summary['false_alarms_per_1000_rows']:.2f}"
    assert f"{summary['false_alarms_per_day']:.2f} per day" in page
    low, high = summary["intervals"]["gmean"]
    assert f"{low:.4f} to {high:.4f}" in page
    for baseline in summary["baselines"].values():
        assert f"<td>{baseline['gmean']:.4f}</td>" in page
    for at in summary["top"]:
        assert f"<td>{at['precision']:.4f}</td>" in page
    assert page.count('<dd class="what">') >= len(tiles)
