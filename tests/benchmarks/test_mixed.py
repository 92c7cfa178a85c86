"""Mixed tables as their files have them: read, checked, and learned by ours and by pipelines built by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.made import bench_without_data, cache_with, wheel
from deltaplane_benchmarks.data import mixed_tables
from deltaplane_benchmarks.data.archives import Cache, DataDamaged, DataMissing
from deltaplane_benchmarks.data.mixed_tables import KEEL_TABLES, MIXED_TABLES, Kept, MixedTable, load, made_payments
from deltaplane_benchmarks.experiments.mixed import TABLES, exhibit_of
from deltaplane_benchmarks.peers.mixed import LEARNERS, deltaplane_replay, gmean_of, sklearn_anew
from deltaplane_services.cli.application import app


def rows_of(count: int, seed: int = 1) -> list[list[str]]:
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        ill = chance.random() < 0.3
        age = "?" if chance.random() < 0.05 else f"{chance.gauss(60 if ill else 40, 10):.0f}"
        place = chance.choice(["north", "south"] if ill else ["south", "east", "west"])
        rows.append([age, place, str(chance.random()), "ill" if ill else "well"])
    return rows


def kept_as(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, **fields: object) -> Cache:
    """A cache whose one table, called made, is this text."""
    cache, archive = cache_with(tmp_path, wheel({"made/made.dat": text.encode()}))
    classes = Counter(line.rpartition(",")[2].strip() for line in text.splitlines() if not line.startswith("@"))
    kept = Kept(archive, "made/made.dat", classes, "none")
    monkeypatch.setitem(mixed_tables.MIXED_TABLES, "made", replace(kept, **fields))  # type: ignore[arg-type]
    return cache


def text_of(rows: list[list[str]]) -> str:
    return "".join(", ".join(row) + "\n" for row in rows)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int = 600) -> MixedTable:
    return load("made", kept_as(tmp_path, text_of(rows_of(count)), monkeypatch))


def test_a_table_is_read_as_its_file_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(30)
    table = load("made", kept_as(tmp_path, text_of(rows), monkeypatch, left_out=3))
    assert table.cells == [[None if row[0] == "?" else row[0] for row in rows], [row[1] for row in rows]]
    assert table.labels.tolist() == [row[-1] for row in rows]
    assert table.numeric.tolist() == [True, False]
    assert table.keywords == {"label": "4", "header": False, "ignore": "3"}
    assert table.content.decode() == text_of(rows)


def test_a_header_of_arff_and_its_quotes_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@relation a\n@attribute b {'x y',z}\n@attribute class {p,q}\n@data\n'x y',p\nz,q\n"
    table = load("made", kept_as(tmp_path, text, monkeypatch, ending=".arff", quote="'"))
    assert (table.cells, table.labels.tolist(), table.keywords) == ([["x y", "z"]], ["p", "q"], {"label": "class"})


def test_the_made_payments_are_those_of_the_example_and_go_in_with_nothing_but_their_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Path(__file__).parents[2] / "examples" / "make_payments.py"
    done = subprocess.run([sys.executable, str(example), "3000", "5"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.startswith(b"made_payments.csv: 3,000 rows of 11 columns")
    table = made_payments(3000, 5)
    assert (tmp_path / "made_payments.csv").read_bytes() == table.content
    assert [len(column) for column in table.cells] == [3000] * 8
    assert table.numeric.tolist() == [True, True, *[False] * 6]
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["replay", "made_payments.csv", "--label", "label", "--json", "-"])
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert (summary["rejected"], summary["positive"], summary["positive_chosen"]) == (0, "fraud", True)
    left_out = [one["column"] for one in summary["columns"] if one["kind"] is None]
    assert left_out == ["tx_id", "row", "currency"]


def test_the_made_payments_are_set_beside_the_pipeline_by_hand_without_anything_to_fetch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixed_tables, "made_payments", lambda: replace(made_payments(1500, 0), chunk=500))
    (exhibit,) = TABLES.run(bench_without_data(tmp_path))
    assert {row[0] for row in exhibit.rows} >= {"payments"}
    assert "payments: at least scikit-learn's pipeline" in exhibit.targets[0].text


def test_a_table_of_other_classes_than_were_counted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = kept_as(tmp_path, text_of(rows_of(30)), monkeypatch, classes={"ill": 1, "well": 2})
    with pytest.raises(DataDamaged, match="made: expected rows of one width with the classes"):
        load("made", cache)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in (*KEEL_TABLES, *MIXED_TABLES):
        with pytest.raises(DataMissing, match=f"^{name}: "):
            load(name, Cache(tmp_path, None))


def test_ours_and_the_pipeline_by_hand_learn_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, monkeypatch)
    for learn in (deltaplane_replay, sklearn_anew):
        predicted = learn(table)
        assert (predicted[:100] == "").all()
        assert set(predicted[100:].tolist()) == {"ill", "well"}
        assert gmean_of(table, predicted) > 0.75


def test_nothing_is_predicted_from_a_label_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, monkeypatch, 300)
    turned = replace(table, labels=np.where(np.arange(300) < 200, table.labels, "ill"))
    assert (sklearn_anew(table) == sklearn_anew(turned)).all()


def test_rows_that_were_not_predicted_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, monkeypatch, 40)
    right = table.labels.copy()
    assert gmean_of(table, right) == 1.0
    right[:10] = ""
    assert gmean_of(table, right) == 1.0
    assert gmean_of(table, np.where(right == "", "", "well")) == 0.0


def test_the_exhibit_has_a_line_for_each_learner_and_says_what_would_bring_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, monkeypatch, 400)
    exhibit = exhibit_of("made", "Made", [table, replace(table, hand=0.999)], lambda _: None)
    assert len(exhibit.rows) == 2 * len(LEARNERS)
    for learner, row in zip(LEARNERS, exhibit.rows, strict=False):
        assert str(row[1]).startswith(learner.name)
        assert (row[5] is None) == (not learner.installed)
    beside, by_hand = exhibit.targets
    assert "scikit-learn" in beside.text
    assert not by_hand.met
    assert "0.999" in by_hand.text
