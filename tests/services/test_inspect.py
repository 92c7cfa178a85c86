"""``deltaplane inspect``: the table of decisions, the definition that it writes, and files that cannot be read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import deltaplane
from deltaplane.columns.inference import Overrides
from deltaplane.errors import DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.cli.application import app
from deltaplane_services.operations.inspecting import Roles, definition_text, first_rows, inspect
from deltaplane_services.readers import ReaderError
from mixed_table import mixed_table

ROWS = 400


def csv_text(table: dict[str, list[Any]], labels: list[str], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow([*table, "label"])
    writer.writerows(
        ["" if cell is None else cell for cell in row] for row in zip(*table.values(), labels, strict=True)
    )
    return text.getvalue()


@pytest.fixture(scope="module")
def made() -> tuple[dict[str, list[Any]], list[str]]:
    return mixed_table(ROWS, 0, fraud=1 / 20)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["inspect", *words])
    if done.exception is not None:
        raise done.exception
    return done.output


def test_inspect_prints_what_becomes_of_each_column_and_writes_a_definition_with_reasons(
    tmp_path: Path, made: tuple[dict[str, list[Any]], list[str]]
) -> None:
    (file := tmp_path / "mixed.csv").write_text(csv_text(*made), "utf-8")
    out = tmp_path / "deltaplane.toml"
    said = run(str(file), "--label", "label", "--write-definition", str(out), "--ignore", "chip,time")
    assert "tx_id             left out, unique in every row" in said
    assert "chip              left out, as you said" in said
    assert "400 rows: 5 of 11 columns become" in said
    assert f"labels: ok {made[1].count('ok')}, fraud {made[1].count('fraud')}" in said
    text = out.read_text("utf-8")
    assert "  # tx_id: left out, unique in every row\n" in text
    definition = StreamDefinition.from_tables(tables := tomllib.loads(text))
    assert tables["input"] == {"label": "label", "ignore": ["tx_id", "row", "merchant", "chip", "time", "currency"]}
    assert definition.columns is not None
    encoded = definition.columns.encode(first_rows(str(file)).columns)
    assert definition.grid.quantize(encoded.features)[1].all()


def test_a_definition_is_read_back_as_what_was_decided(made: tuple[dict[str, list[Any]], list[str]]) -> None:
    table, labels = made
    found = inspect(first_rows_of(csv_text(table, labels)), Roles("label"), Overrides())
    definition = StreamDefinition.from_tables(tomllib.loads(definition_text(found)))
    assert definition.columns == found.inferred.encoder
    assert definition.grid == found.inferred.grid
    assert definition.feature_map.kind == "mixed"


def test_a_definition_that_was_written_gives_the_replay_that_there_would_have_been_without(
    tmp_path: Path, made: tuple[dict[str, list[Any]], list[str]]
) -> None:
    (file := tmp_path / "mixed.csv").write_text(csv_text(*made), "utf-8")
    out = tmp_path / "deltaplane.toml"
    run(str(file), "--label", "label", "--write-definition", str(out))
    written, decided = deltaplane.replay(str(file), definition=out), deltaplane.replay(str(file), label="label")
    assert written.digest == decided.digest
    assert written.definition.feature_map == decided.definition.feature_map
    assert written.definition.feature_map.kind == "mixed"


def test_where_a_definition_has_no_map_it_says_why() -> None:
    first = first_rows_of("x,y,z\n" + "".join(f"{row}.5,{row % 7},{'abcdefghi'[row % 9]}\n" for row in range(60)))
    for roles, why in ((Roles("z"), "there are 9, more than 8; the map 'mixed'"), (Roles(), "no label is named")):
        text = definition_text(inspect(first, roles, Overrides()))
        assert "no table [feature_map]: " in text
        assert why in text
        assert StreamDefinition.from_tables(tomllib.loads(text)).feature_map.kind == "none"


def first_rows_of(text: str) -> Any:
    class Stream(io.BytesIO):
        name = "made.csv"

    return first_rows(Stream(text.encode()))


def test_the_same_table_gives_the_same_rules_from_csv_packed_csv_and_parquet(
    tmp_path: Path, made: tuple[dict[str, list[Any]], list[str]]
) -> None:
    table, labels = made
    text = csv_text(table, labels, ";")
    (tmp_path / "a.csv").write_text("\ufeff" + text, "utf-8")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    pq.write_table(pa.table({**table, "label": labels}), tmp_path / "a.parquet")
    files = ("a.csv", "a.csv.gz", "a.parquet")
    found = [inspect(first_rows(str(tmp_path / name)), Roles("label"), Overrides()) for name in files]
    assert found[0].inferred.decisions == found[1].inferred.decisions == found[2].inferred.decisions
    assert found[0].inferred.grid == found[2].inferred.grid


def test_the_first_rows_of_a_longer_file_are_whole_rows() -> None:
    text = "a,b\n" + '"x\ny",1\n' * 30
    first = first_rows_of(text)
    assert first.columns == {"a": ["x\ny"] * 30, "b": ["1"] * 30}
    assert first_rows_of("a,b\n1,2\n1,2,3\n3,4").passed_over == 1


def test_rows_without_a_label_are_left_out_and_an_unknown_column_is_named() -> None:
    first = first_rows_of("x,y\n1.5,a\n2.5,\n3.5,b\n")
    assert inspect(first, Roles("y"), Overrides()).rows == 2
    with pytest.raises(DeltaplaneError, match=r"label: there is no such column 'Y'.*there are x, y"):
        inspect(first, Roles("Y"), Overrides())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "has a header and no rows"),
        ("a,b\n1\n", "has no row of 2 cells, as many as it has names"),
    ],
)
def test_a_file_without_rows_is_refused(text: str, said: str) -> None:
    with pytest.raises(ReaderError, match=said):
        first_rows_of(text)


def test_what_is_no_table_is_refused_by_name(tmp_path: Path) -> None:
    (other := tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(ReaderError, match="is not a whole Parquet file"):
        first_rows(str(other))
    (sparse := tmp_path / "c.libsvm").write_text("1 1:2 2:3\n0 1:3 2:5\n", "utf-8")
    with pytest.raises(ReaderError, match=r"c.libsvm is LIBSVM, whose features are numbers: there is nothing"):
        first_rows(str(sparse))
    nested = pa.table({"a": [[1], [2]], "y": ["p", "q"]})
    pq.write_table(nested, other)
    with pytest.raises(ReaderError, match="of which no rule makes features"):
        first_rows(str(other))


FORMS = {
    "rows.jsonl": (
        "".join(f'{{"a": {at}.5, "k": "{"xyz"[at % 3]}", "y": "{"pq"[at % 2]}"}}\n' for at in range(60)),
        "",
    ),
    "rows.arff": (
        "@relation r\n@attribute a real\n@attribute k {x,y,z}\n@attribute y {p,q}\n@data\n"
        + "".join(f"{at}.5,{'xyz'[at % 3]},{'pq'[at % 2]}\n" for at in range(60)),
        "",
    ),
    "blanks.data": ("a k y\n" + "".join(f"{at}.5   {'xyz'[at % 3]}  {'pq'[at % 2]}\n" for at in range(60)), ""),
    "commas.csv": ("a;k;y\n" + "".join(f"{at},5;{'xyz'[at % 3]};{'pq'[at % 2]}\n" for at in range(60)), "--decimal ,"),
    "marks.csv": (
        "# from a logger\na,k,y\n" + "".join(f"{at}.5,{'xyz'[at % 3]},{'pq'[at % 2]}\n" for at in range(60)),
        "",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_format_is_looked_at_as_it_is_replayed(name: str, tmp_path: Path) -> None:
    text, flags = FORMS[name]
    (file := tmp_path / name).write_text(text, "utf-8")
    out = tmp_path / "made.toml"
    said = run(str(file), "--label", "y", *flags.split(), "--write-definition", str(out))
    assert "a  number" in said
    assert "k  category, 3 levels and other" in said
    assert "60 rows: 2 of 2 columns become 5 features" in said
    digests = []
    for arguments in (["--definition", str(out)], ["--label", "y", *flags.split()]):
        done = CliRunner().invoke(app, ["replay", str(file), *arguments, "--chunk", "10", "--json", "-"])
        assert done.exit_code == 0, done.output
        digests.append(json.loads(done.stdout)["digest"])
    # Without rules, nominal attributes of ARFF are features for their declared values, without one for others.
    assert (digests[0] == digests[1]) == (not name.endswith(".arff"))


def test_a_row_is_not_taken_for_names_and_a_saved_index_not_for_a_label(tmp_path: Path) -> None:
    (file := tmp_path / "a.csv").write_text("".join(f"{at}.5,{at % 7},p\n" for at in range(60)), "utf-8")
    with pytest.raises(ReaderError, match=r"first line of .* holds numbers, 0.5, 0, p: .* say `--no-header`"):
        run(str(file))
    assert "60 rows: 2 of 2 columns become" in run(str(file), "--label", "3")
    assert "60 rows: 3 of 3 columns become" in run(str(file), "--no-header", "--features", "1,2", "--features", "3")
    rows = pa.table({"a": list(range(60)), "b": ["x", "y"] * 30, "__index_level_0__": list(range(60))})
    pq.write_table(rows, tmp_path / "b.parquet")
    assert "60 rows: 1 of 2 columns become" in run(str(tmp_path / "b.parquet"))


def test_all_columns_are_looked_at_where_no_label_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "a.csv").write_text(
        "a,b\n" + "".join(f"{at % 9},{'pq'[at % 2]}\n" for at in range(60)), "utf-8"
    )
    said = run(str(file))
    assert "60 rows: 2 of 2 columns become" in said
    assert "b  category, 2 levels and other" in said


def test_replay_with_the_definition_of_inspect_is_replay_without_one(tmp_path: Path) -> None:
    lines = [f"{at % 7},{'xyz'[at % 3]},{'no' if at % 5 else 'yes'}" for at in range(300)]
    (file := tmp_path / "a.csv").write_text("\n".join(["a,b,c", *lines]), "utf-8")
    out = tmp_path / "deltaplane.toml"
    run(str(file), "--label", "c", "--write-definition", str(out))
    digests = []
    for arguments in (["--definition", str(out)], ["--label", "c"]):
        done = CliRunner().invoke(app, ["replay", str(file), *arguments, "--json", "-"])
        assert done.exit_code == 0, done.output
        digests.append(json.loads(done.stdout)["digest"])
    assert digests[0] == digests[1]
