"""``replay --predictions``: a row for each row of the file, equal to what the summary counts."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from deltaplane.errors import DeltaplaneError
from deltaplane_services.cli.application import app
from deltaplane_services.replay import prediction_file

COLUMNS = ["id", "time", "truth", "predicted", "score", "probability", "model_version"]
BEGUN = 1_600_000_000_000


def rows_file(directory: Path, classes: int, rows: int = 1200) -> Path:
    random = np.random.default_rng(5)
    x = random.normal(size=(rows, 2))
    labels = (np.digitize(x[:, 0] + 0.4 * random.normal(size=rows), np.linspace(-0.5, 0.5, classes - 1))).tolist()
    lines = [
        f"{BEGUN + 1000 * at},id {at},{a!r},{b!r},{label}"
        for at, ((a, b), label) in enumerate(zip(x.tolist(), labels, strict=True))
    ]
    lines[700] = lines[700].replace(lines[700].split(",")[2], "much")
    path = directory / "rows.csv"
    path.write_text("\n".join(["time,id,a,b,label", *lines, ""]))
    return path


def run(file: Path, to: Path, *more: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows that are written, and the summary."""
    summary = to.with_suffix(".json")
    arguments = [str(file), "--label", "label", "--time", "time", "--id", "id", "--number", "a", *more]
    done = CliRunner().invoke(app, ["replay", *arguments, "--predictions", str(to), "--json", str(summary)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    if to.suffix == ".parquet":
        return pq.read_table(to).to_pylist(), json.loads(summary.read_text())
    with to.open(newline="") as opened:
        plain = list(csv.DictReader(opened))
    kinds = {"score": float, "probability": float, "model_version": int}
    return [
        {name: (None if text == "" else kinds.get(name, str)(text)) for name, text in row.items()} for row in plain
    ], json.loads(summary.read_text())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("classes", "more"),
    [
        (2, ("--positive", "1")),
        (3, ()),
        (2, ("--positive", "1", "--partitions", "3", "--window", "500")),
        (2, ("--positive", "1", "--objective", "kappa", "--retire-fraction", "0.2")),
    ],
)
def test_every_row_has_a_line_and_they_add_up_to_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, classes: int, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(prediction_file, "_ROWS_HELD", 250)
    rows, summary = run(rows_file(tmp_path, classes), tmp_path / f"out.{kind}", *more)
    assert list(rows[0]) == COLUMNS
    assert len(rows) == summary["rows"] == 1199
    assert [row["id"] for row in rows] == [f"id {at}" for at in range(1200) if at != 700]
    scored = [row for row in rows if row["predicted"] is not None]
    counts = Counter((row["truth"], row["predicted"]) for row in scored)
    told = {(cell["truth"], cell["predicted"]): cell["count"] for cell in summary["confusion"] if cell["count"]}
    assert counts == told
    assert all(row["score"] is None for row in rows if row["predicted"] is None)
    chances = [row["probability"] for row in scored if row["probability"] is not None]
    assert len(chances) > 900
    assert all(0.0 < chance < 1.0 for chance in chances)
    # The versions only grow, and the first rows were predicted by nobody.
    versions = [row["model_version"] for row in scored]
    assert versions == sorted(versions)
    assert versions[0] >= 1
    assert rows[0]["predicted"] is None
    if classes == 2:
        assert all((row["score"] > 0.0) == (row["predicted"] == "1") for row in scored)


def test_times_are_those_of_the_file_and_probabilities_mean_what_they_say(tmp_path: Path) -> None:
    rows, _ = run(rows_file(tmp_path, 2, 6000), tmp_path / "out.parquet", "--positive", "1")
    assert rows[3]["time"] == datetime.fromtimestamp(BEGUN / 1000 + 3, UTC)
    later = [row for row in rows[2000:] if row["probability"] is not None]
    expected = math.fsum(row["probability"] for row in later) / len(later)
    assert expected == pytest.approx(sum(row["truth"] == "1" for row in later) / len(later), abs=0.03)


def test_row_by_row_there_are_predictions_as_well(tmp_path: Path) -> None:
    file = rows_file(tmp_path, 2)
    text = [line.partition(",")[2].partition(",")[2] for line in file.read_text().splitlines()]
    file.write_text("\n".join([*text, ""]))
    to, summary = tmp_path / "out.csv", tmp_path / "out.json"
    arguments = ["--label", "label", "--positive", "1", "--number", "a", "--chunk", "1", "--window", "300", "--C", "1"]
    done = CliRunner().invoke(app, ["replay", str(file), *arguments, "--predictions", str(to), "--json", str(summary)])
    assert done.exit_code == 0, done.output
    with to.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    counts = Counter((row["truth"], row["predicted"]) for row in rows if row["predicted"])
    told = {
        (cell["truth"], cell["predicted"]): cell["count"]
        for cell in json.loads(summary.read_text())["confusion"]
        if cell["count"]
    }
    assert counts == told
    assert {row["time"] for row in rows} == {""}
    assert sum(row["probability"] != "" for row in rows) > 900


@pytest.mark.parametrize(
    ("to", "more", "words"),
    [
        ("out.txt", (), r"expected a file that ends in \.csv or \.parquet, got '.*out.txt'"),
        ("out.csv", ("--broker", "127.0.0.1:1"), "on Kafka each worker scores its own rows; leave --broker out"),
        ("no/such/out.csv", (), "make the directory first"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, to: str, more: tuple[str, ...], words: str
) -> None:
    with pytest.raises(DeltaplaneError, match=words):
        run(rows_file(tmp_path, 2), tmp_path / to, *more)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    file = rows_file(tmp_path, 2)
    file.write_text(file.read_text().replace(",1\n", ",0\n"))
    to = tmp_path / "out.csv"
    to.write_text("before")
    with pytest.raises(DeltaplaneError, match="separating plane needs two classes"):
        run(file, to)
    assert to.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
