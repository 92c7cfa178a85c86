"""``deltaplane predict``: every row of a file has an answer or a reason, whatever the kind of file."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from deltaplane.errors import DeltaplaneError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import exported_model, model_tables
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.operations import predict
from deltaplane_services.operations.predict import Asked, predict_file
from exported_streams import PLAIN, model_of
from golden.wire_examples import MODEL, PLANE

TABLES: dict[str, Any] = {
    "name": "s",
    "features": {"names": ["x", "y"]},
    "grid": {"steps": [2.0**-16] * 2},
    "classes": {"names": ["DOWN", "UP"], "positive": "UP"},
    "window": {"length": "500"},
    "solver": {"C": 1.0},
}
DEFINITION = StreamDefinition.from_tables(TABLES)
ROWS = np.array([[4.0, 1.0], [0.0, 0.0], [2.0**40, 0.0], [3.5, -2.0]])


def model() -> Model:
    from dataclasses import replace  # noqa: PLC0415

    return replace(
        MODEL, plane=replace(PLANE, means=np.array([1.0, 2.0])), data_fingerprint=DEFINITION.data_fingerprint
    )


def asked() -> Asked:
    live = model()
    assert live.plane is not None
    return Asked(DEFINITION, live.plane, live)


def written(directory: Path, kind: str) -> Path:
    file = directory / f"rows.{kind}"
    names, texts = ["y", "name", "x"], [[repr(y), f"n{at}", repr(x)] for at, (x, y) in enumerate(ROWS.tolist())]
    if kind == "parquet":
        pq.write_table(pa.table({"y": ROWS[:, 1], "name": [row[1] for row in texts], "x": ROWS[:, 0]}), file)
        return file
    separator = "\t" if kind == "tsv" else ","
    lines = "".join(separator.join(row) + "\n" for row in [names, *texts])
    file.write_bytes(gzip.compress(lines.encode()) if kind.endswith("gz") else lines.encode())
    return file


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet"])
def test_every_row_has_an_answer_or_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(predict, "_ROWS_AT_ONCE", 3)
    out = tmp_path / "out.parquet"
    with out.open("wb") as opened:
        assert predict_file(written(tmp_path, kind), asked(), opened, ".parquet", id_column="name", why=True) == 4
    found = pq.read_table(out).to_pylist()
    expected = answer(PLANE, DEFINITION, ROWS)
    assert [row["predicted"] for row in found] == expected.classes
    assert [row["id"] for row in found] == ["n0", "n1", "n2", "n3"]
    assert [row["row"] for row in found] == [1, 2, 3, 4]
    assert found[2]["score"] is None
    assert "outside the grid's range" in found[2]["refused"]
    good = [0, 1, 3]
    assert [found[at]["score"] for at in good] == expected.values[good, 0].tolist()
    sign = 1.0 if found[0]["predicted"] == "UP" else -1.0
    assert json.loads(found[0]["reasons"]) == pytest.approx({"x": sign * 0.1 * 3.0, "y": sign * -2.5e-7 * -1.0})
    assert {row["model_version"] for row in found} == {18}


def test_an_exported_model_answers_without_a_broker(tmp_path: Path) -> None:
    exported, definition = tmp_path / "model.json", tmp_path / "s.toml"
    exported.write_text(json.dumps(model_tables(model(), DEFINITION)))
    definition.write_text(as_toml(TABLES))
    arguments = ["predict", str(written(tmp_path, "csv")), "--definition", str(definition), "--model", str(exported)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["predicted"] or None for row in rows] == answer(PLANE, DEFINITION, ROWS).classes
    out = tmp_path / "out.csv"
    done = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert list(csv.DictReader(out.read_text().splitlines())) == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("{}", "give what deltaplane model export has written"),
        ("[]", "give what deltaplane model export has written"),
        (json.dumps({**model_tables(model(), DEFINITION), "weights": None}), "before there was a plane"),
        (json.dumps({**model_tables(model(), DEFINITION), "data_fingerprint": "00"}), "the definition of its export"),
    ],
)
def test_what_is_no_export_of_the_stream_is_refused(tmp_path: Path, text: str, words: str) -> None:
    exported, definition = tmp_path / "model.json", tmp_path / "s.toml"
    exported.write_text(text)
    definition.write_text(as_toml(TABLES))
    arguments = ["predict", str(written(tmp_path, "csv")), "--definition", str(definition), "--model", str(exported)]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, DeltaplaneError)
    assert words in str(done.exception)


def test_an_exported_model_has_the_probabilities_and_reasons_of_the_live_one(tmp_path: Path) -> None:
    stream = StreamDefinition.from_tables(PLAIN)
    live = model_of(stream)
    assert live.plane is not None
    exported = exported_model(json.loads(json.dumps(model_tables(live, stream))), stream)
    source = tmp_path / "rows.csv"
    rows = np.random.default_rng(6).normal(size=(50, 3)).tolist()
    source.write_text("height,weight,age\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    told = []
    for at, asked in enumerate((Asked(stream, live.plane, live), Asked(stream, exported.plane, exported))):
        out = tmp_path / f"{at}.csv"
        with out.open("wb") as opened:
            predict_file(source, asked, opened, ".csv", id_column=None, why=True)
        told.append(out.read_text())
    assert told[0] == told[1]
    found = list(csv.DictReader(told[0].splitlines()))
    assert len({row["probability"] for row in found}) > 10
    assert all(0.0 < float(row["probability"]) < 1.0 and json.loads(row["reasons"]) for row in found)


def test_a_file_that_cannot_be_read_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    out = (tmp_path / "out.csv").open("wb")
    with out:
        for file, text, words in (
            ("rows.txt", "x,y\n1,2\n", r"expected a file that ends in \.csv"),
            ("few.csv", "x\n1\n", "no column 'y'"),
            ("bad.parquet", "x", "it cannot be read"),
        ):
            (tmp_path / file).write_text(text)
            with pytest.raises(DeltaplaneError, match=words):
                predict_file(tmp_path / file, asked(), out, ".csv", id_column=None, why=False)
        with pytest.raises(DeltaplaneError, match="no column 'nobody' of ids"):
            predict_file(written(tmp_path, "csv"), asked(), out, ".csv", id_column="nobody", why=False)
