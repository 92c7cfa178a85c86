"""``deltaplane predict``: every row of a file has an answer or a reason, whatever the kind of file."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from deltaplane.columns.inference import Overrides, infer
from deltaplane.errors import DeltaplaneError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import exported_model, model_tables
from deltaplane.log.model import Model
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.operations.predict import Asked, options_of, predict_file
from deltaplane_services.readers import ReaderError, ReaderOptions
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
    return replace(
        MODEL, plane=replace(PLANE, means=np.array([1.0, 2.0])), data_fingerprint=DEFINITION.data_fingerprint
    )


def asked() -> Asked:
    live = model()
    assert live.plane is not None
    return Asked(DEFINITION, live.plane, live)


def options(id_column: str | None = None, **table: Any) -> ReaderOptions:
    return options_of(DefinitionFile.of({**TABLES, "input": table}), DEFINITION, id_column)


def texts_of(sign: str = ".") -> tuple[list[str], list[list[str]]]:
    rows = [[repr(y), f"n{at}", repr(x)] for at, (x, y) in enumerate(ROWS.tolist())]
    return ["y", "name", "x"], [[text.replace(".", sign) for text in row] for row in rows]


def written(directory: Path, kind: str) -> Path:
    file = directory / f"rows.{kind}"
    names, texts = texts_of("," if kind == "semicolons.csv" else ".")
    table = pa.table({"y": ROWS[:, 1], "name": [row[1] for row in texts], "x": ROWS[:, 0]})
    objects = [{"y": y, "name": f"n{at}", "x": x, "more": [1]} for at, (x, y) in enumerate(ROWS.tolist())]
    if kind == "parquet":
        pq.write_table(table, file)
    elif kind == "arrow":
        with pa.ipc.new_file(file, table.schema) as opened:
            opened.write_table(table)
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in objects))
    elif kind == "json":
        file.write_text(json.dumps(objects))
    elif kind == "arff":
        head = "@relation rows\n@attribute y numeric\n@attribute name string\n@attribute x numeric\n@data\n"
        file.write_text(head + "".join(",".join(row) + "\n" for row in texts))
    else:
        separator = {"tsv": "\t", "semicolons.csv": ";"}.get(kind, ",")
        lines = "".join(separator.join(row) + "\n" for row in [names, *texts])
        file.write_bytes(gzip.compress(lines.encode()) if kind.endswith("gz") else lines.encode())
    return file


def told(source: Path, form: ReaderOptions, model_asked: Asked) -> list[dict[str, str]]:
    """The lines that are written for the rows of a file."""
    out = source.with_suffix(".told")
    with out.open("wb") as opened:
        done = predict_file(source, form, model_asked, opened, ".csv", why=False)
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert len(lines) == done.rows
    return lines


KINDS = ["csv", "csv.gz", "tsv", "semicolons.csv", "parquet", "arrow", "jsonl", "json", "arff"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_an_answer_or_a_reason(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out.parquet"
    form = options("name", decimal=",") if kind == "semicolons.csv" else options("name")
    with out.open("wb") as opened:
        assert predict_file(written(tmp_path, kind), form, asked(), opened, ".parquet", why=True).rows == 4
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


def test_rows_of_sparse_indices_have_answers_whatever_stands_for_their_label(tmp_path: Path) -> None:
    tables = {**TABLES, "features": {"names": ["f1", "f2"]}}
    stream = StreamDefinition.from_tables(tables)
    source = tmp_path / "rows.libsvm"
    source.write_text("0 1:4 2:1\n0\n? 1:3\n1 1:3.5 2:-2\n")
    found = told(source, options_of(DefinitionFile.of(tables), stream, None), Asked(stream, PLANE, model()))
    rows = np.array([[4.0, 1.0], [0.0, 0.0], [3.0, 0.0], [3.5, -2.0]])
    assert [row["predicted"] for row in found] == answer(PLANE, stream, rows).classes


def test_a_bad_row_has_its_reason_and_costs_no_other(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("x,y,class\n4,1,UP\noops,1,UP\n1,2\n\nx,y,class\n,2,UP\n3.5,-2,\n")
    found = told(source, options(), asked())
    answered = answer(PLANE, DEFINITION, np.array([[4.0, 1.0], [3.5, -2.0]])).classes
    assert [row["predicted"] or None for row in found] == [answered[0], *[None] * 4, answered[1]]
    assert [row["refused"] for row in found] == [
        "",
        "the feature `x` is 'oops', which is not a number",
        "the row has 2 cells and the file 3 columns",
        "the line is the header again",
        "feature 'x' is not a number",
        "",
    ]


def test_rows_of_text_alone_have_a_reason_each(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("x,y\na,1\nb,2\n")
    found = told(source, options(), asked())
    assert ["which is not a number" in row["refused"] for row in found] == [True, True]


def test_a_table_of_the_only_feature_needs_no_other_column(tmp_path: Path) -> None:
    tables: dict[str, Any] = {**PLAIN, "features": {"names": ["height"]}, "grid": {"steps": [2.0**-16]}}
    stream = StreamDefinition.from_tables(tables)
    plane = replace(PLANE, weights=np.array([[0.5]]), means=np.array([0.0]))
    source = tmp_path / "rows.csv"
    source.write_text("height\n1\n-2\n")
    found = told(source, options_of(DefinitionFile.of(tables), stream, None), Asked(stream, plane, model()))
    assert [float(row["score"]) for row in found] == answer(plane, stream, [[1.0], [-2.0]]).values[:, 0].tolist()


def test_columns_with_rules_are_encoded_as_a_row_by_name_is(tmp_path: Path) -> None:
    encoder = infer(
        {"amount": [1.0, 2.5, -3.0] * 9, "country": ["DE", "AT", "CH"] * 9},
        ["UP", "DOWN", "UP"] * 9,
        Overrides(category=("country",)),
    ).encoder
    tables: dict[str, Any] = {
        **TABLES,
        "features": {},
        "columns": encoder_table(encoder),
        "grid": {"steps": [2.0**-16] * len(encoder.features)},
        "input": {"label": "class", "ignore": ["note"], "rename": ["land=country", "kind=class"]},
    }
    stream = StreamDefinition.from_tables({key: value for key, value in tables.items() if key != "input"})
    width = len(stream.features)
    plane = replace(PLANE, weights=np.arange(1.0, width + 1.0)[None, :], means=np.zeros(width))
    source = tmp_path / "rows.jsonl"
    rows: list[dict[str, Any]] = [
        {"amount": 1.5, "land": "AT"},
        {"amount": None, "land": "DE"},
        {"amount": "-3", "land": "FR"},
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = told(source, options_of(DefinitionFile.of(tables), stream, None), Asked(stream, plane, model()))
    by_name = [{"amount": row["amount"], "country": row["land"]} for row in rows]
    features, unread = features_by_name(stream, by_name)
    expected = answer(plane, stream, features, unread)
    assert [row["predicted"] for row in found] == expected.classes
    assert [float(row["score"]) for row in found] == expected.values[:, 0].tolist()


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
            predict_file(source, options_of(DefinitionFile(), stream, None), asked, opened, ".csv", why=True)
        told.append(out.read_text())
    assert told[0] == told[1]
    found = list(csv.DictReader(told[0].splitlines()))
    assert len({row["probability"] for row in found}) > 10
    assert all(0.0 < float(row["probability"]) < 1.0 and json.loads(row["reasons"]) for row in found)


def test_a_file_that_cannot_be_read_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    with (tmp_path / "out.csv").open("wb") as out:
        for file, text, words in (
            ("few.csv", "x,z\n1,2\n", "no column `y` for the features"),
            ("bad.parquet", "x", "is not a Parquet file"),
            ("empty.csv", "", "is empty"),
        ):
            (tmp_path / file).write_text(text)
            with pytest.raises(ReaderError, match=words):
                predict_file(tmp_path / file, options(), asked(), out, ".csv", why=False)
        with pytest.raises(ReaderError, match="no column `nobody` for the id"):
            predict_file(written(tmp_path, "csv"), options("nobody"), asked(), out, ".csv", why=False)
