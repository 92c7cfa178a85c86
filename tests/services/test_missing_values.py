"""What is a missing value is declared by one option, and a number is one however it is written, in every format."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import deltaplane
from deltaplane.columns.inference import Overrides, infer
from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.readers import ReaderOptions, open_rows
from deltaplane_services.replay.console import as_written

SPELLINGS = ("1e10", "1e+10", "10000000000", "10000000000.0", "+1E10")
MARK = 1e10


def made(rows: int = 400) -> list[dict[str, Any]]:
    """Rows of two numbers and a class, every ninth without the first of them."""
    random = np.random.default_rng(19)
    labels = random.integers(0, 2, rows)
    X = random.normal(size=(rows, 2)) + labels[:, None]
    return [
        {"a": MARK if at % 9 == 0 else float(row[0]), "b": float(row[1]), "y": ("no", "yes")[label]}
        for at, (row, label) in enumerate(zip(X.tolist(), labels.tolist(), strict=True))
    ]


def files(spelling: str) -> dict[str, bytes]:
    """The same rows in each format; where it is a text, the mark is written so."""
    rows = made()
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(("a", "b", "y"))
    cells = [(spelling if row["a"] == MARK else row["a"], row["b"], row["y"]) for row in rows]
    out.writerows(cells)
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), table)
    head = b"@relation r\n@attribute a real\n@attribute b real\n@attribute y {no,yes}\n@data\n"
    return {
        "csv": text.getvalue().encode(),
        "jsonl": "".join(f'{{"a": {a}, "b": {b}, "y": "{y}"}}\n'.replace("+1E", "1E") for a, b, y in cells).encode(),
        "arff": head + "".join(f"{a},{b},{y}\n" for a, b, y in cells).encode(),
        "parquet": table.getvalue(),
        "libsvm": "".join(f"{y} 1:{a} 2:{b}\n" for a, b, y in cells).encode(),
    }


@pytest.mark.parametrize("written", SPELLINGS)
@pytest.mark.parametrize("said", SPELLINGS)
def test_a_number_that_is_missing_is_so_however_it_is_written(written: str, said: str) -> None:
    want = np.array([[np.nan if row["a"] == MARK else row["a"], row["b"]] for row in made()])
    for name, data in files(written).items():
        options = ReaderOptions(None if name == "libsvm" else "y", format=name, na=(said,), missing="keep")
        with open_rows(io.BytesIO(data), options) as reader:
            got = np.vstack([block.features for block in reader])
        assert np.array_equal(got, want, equal_nan=True), name
        refusing = ReaderOptions(None if name == "libsvm" else "y", format=name, na=(said,))
        with open_rows(io.BytesIO(data), refusing) as reader:
            assert sum(len(block.refused) for block in reader) == np.isnan(want).any(axis=1).sum(), name


def test_a_row_that_goes_one_by_one_has_the_same_numbers_missing() -> None:
    data = b'a,b,y\n1,2,p\n"1e10",2,q\n10000000000.0,3,"p,"\n4,5,q\n'
    with open_rows(io.BytesIO(data), ReaderOptions("y", na=("1e+10",), missing="keep")) as reader:
        got = np.vstack([block.features for block in reader])
    assert np.array_equal(got[:, 0], [1.0, np.nan, np.nan, 4.0], equal_nan=True)


def test_a_mark_may_be_written_as_the_column_has_its_numbers_or_plainly() -> None:
    data = b"a;y\n-999,50;p\n1,5;q\n-999,5;p\n1.000,25;q\n"
    for said in ("-999,5", "-999.5"):
        options = ReaderOptions("y", decimal=",", thousands=".", na=(said,), missing="keep")
        with open_rows(io.BytesIO(data), options) as reader:
            got = np.vstack([block.features for block in reader])
        assert np.array_equal(got[:, 0], [np.nan, 1.5, np.nan, 1000.25], equal_nan=True)


def test_a_label_that_is_such_a_number_is_missing_in_any_spelling() -> None:
    for word in ("-9", "-9.0"):
        with open_rows(io.BytesIO(b"a,y\n1,-9\n2,-9.0\n3,1\n"), ReaderOptions("y", na=(word,))) as reader:
            assert [label for block in reader for label in block.labels] == ["1"]
    as_text = ReaderOptions("y", na=("-9",), labels="text")
    with open_rows(io.BytesIO(b"a,y\n1,-9\n2,-9.0\n"), as_text) as reader:
        assert [label for block in reader for label in block.labels] == ["-9.0"]


@pytest.mark.parametrize("flags", ["--missing-values 1e10,-999", "--missing-values 1e10 --na -999", "--na -999,1e+10"])
def test_commas_and_repetition_and_the_name_of_before_say_the_same(flags: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(files("1e10")["csv"])
    command = ["replay", str(tmp_path / "t.csv"), "--label", "y", "--json", "-", *shlex.split(flags)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert "45 missing, with a feature for it" in summary["columns"][0]["reason"]
    assert summary["rejected"] == 0
    assert summary["likely_marks_of_missing"] == []


def test_the_summary_names_the_option_with_values_that_make_the_marks_missing(tmp_path: Path) -> None:
    rows = made()
    for at in range(1, 400, 20):
        rows[at]["b"] = float(np.float32(9.96921e36))
    with (tmp_path / "t.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, ("a", "b", "y"))
        out.writeheader()
        out.writerows(rows)
    runner = CliRunner(env={"COLUMNS": "400"})
    command = ["replay", str(tmp_path / "t.csv"), "--label", "y"]
    said = runner.invoke(app, command).stdout
    option = next(word for word in said.split() if word.startswith("10000000000,"))
    assert f"--missing-values {option}" in said
    again = runner.invoke(app, [*command, "--missing-values", option]).stdout
    assert "likely marks" not in again
    assert "45 missing" in again
    assert "20 missing" in again


def test_marks_among_amounts_are_named_as_the_file_has_them_and_not_by_their_logarithm() -> None:
    random = np.random.default_rng(3)
    rows = [
        {"amount": 9e8 if at % 10 == 0 else float(random.lognormal(3, 2)), "kind": "xy"[at % 2], "y": at % 3 == 0}
        for at in range(600)
    ]
    replayed = deltaplane.replay(rows, label="y")
    assert "by its logarithm" in replayed.summary["columns"][0]["reason"]
    marks = replayed.summary["likely_marks_of_missing"]
    assert marks == [{"feature": "amount", "value": 9e8, "rows": 60}]


def test_what_is_as_written_is_that_number_again() -> None:
    random = np.random.default_rng(7)
    for value in [
        1e10,
        -999.0,
        9.969209968386869e36,
        1e20,
        0.1,
        *random.normal(size=200) * 10.0 ** random.integers(-20, 30, 200),
    ]:
        assert float(as_written(float(value))) == value


def test_rules_are_decided_without_the_numbers_that_are_missing() -> None:
    cells = ["1e10" if at % 9 == 0 else "10000000000.0" if at % 9 == 1 else str(at % 7) for at in range(300)]
    found = infer({"a": cells}, overrides=Overrides(missing=("10000000000",)))
    assert "logarithm" not in found.decisions[0].reason
    assert "68 missing" in found.decisions[0].reason
    assert found.encoder.encode({"a": cells}).features[:, 1].sum() == 68


def test_a_file_whose_numbers_have_commas_takes_one_mark_at_a_time() -> None:
    laid = InputTable.of({"decimal": ",", "na": ["x"]}).with_options(missing_values=["-999,5", "-1"])
    assert laid.missing_values == ("-999,5", "-1")
    assert InputTable.of({"na": ["x"]}) == InputTable.of({"missing_values": "x"}) == InputTable(missing_values=("x",))
    assert InputTable().with_options(missing_values=["-999, -1", "a"]).missing_values == ("-999", "-1", "a")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_missing_only_later_is_refused_with_the_cure_that_fills_in_its_median(
    kind: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(8)
    labels = random.integers(0, 2, 10_400)
    X = random.normal(size=(10_400, 2)) + labels[:, None]
    rows: list[dict[str, Any]] = [
        {"a": None if at >= 10_000 and at % 4 == 0 else a, "b": b, "y": int(y)}
        for at, (a, b, y) in enumerate(zip(*X.T.tolist(), labels.tolist(), strict=True))
    ]
    file = tmp_path / f"t.{kind}"
    if kind == "csv":
        lines = (",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows)
        file.write_text("a,b,y\n" + "\n".join(lines), "utf-8")
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    settings: dict[str, Any] = {"label": "y", "chunk": 1000, "window": "2000", "C": 1.0}
    refused = deltaplane.replay(file, **settings).summary
    (reason,) = refused["rejections"]["reasons"]
    assert (reason["reason"], reason["rows"]) == ("the feature `a` is missing", 100)
    assert reason["cure"].startswith("fill in the median with `--missing median`")
    filled = deltaplane.replay(file, missing="median", **settings)
    assert filled.summary["rejected"] == 0
    columns = filled.definition.columns
    assert columns is not None
    assert [rule.missing for rule in columns.rules] == ["fill", "fill"]
    median = float(np.sort(X[:10_000, 0])[4999])
    assert columns.encode({"a": [None], "b": [1.0]}).features[0, 0] == median


def test_a_median_is_refused_where_no_rule_can_fill_it_in(tmp_path: Path) -> None:
    rows = [{"a": at % 5, "b": at % 3, "y": at % 7 == 0} for at in range(300)]
    fitted = deltaplane.replay(rows, label="y").definition
    with pytest.raises(DefinitionError, match="missing: median is of rules that are decided on"):
        deltaplane.replay(rows, label="y", missing="median", definition=fitted)
    (file := tmp_path / "t.libsvm").write_bytes(files("1")["libsvm"])
    with pytest.raises(DeltaplaneError, match="`--missing median` is for tables; fill the grid's offset in"):
        deltaplane.replay(file, missing="median")


def test_a_mark_that_declared_rules_do_not_know_is_refused_and_not_passed_over() -> None:
    rows = [{"a": at % 5, "k": "xy"[at % 2], "y": at % 5 == 0} for at in range(300)]
    definition = deltaplane.replay(rows, label="y").definition
    with pytest.raises(DefinitionError, match=r"missing_values: '-999'.* list it there: missing = .*'-999'"):
        deltaplane.replay(rows, label="y", definition=definition, missing_values=-999)
    deltaplane.replay(rows, label="y", definition=definition, missing_values="NA")
