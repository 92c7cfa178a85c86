"""``deltaplane.replay``: from Python a table gives what the command gives on its file, bit for bit, and more of it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import deltaplane
from deltaplane.errors import DeltaplaneError
from deltaplane_services.cli.application import app
from deltaplane_services.replay.in_python import Replayed
from deltaplane_services.replay.keywords import Keywords
from deltaplane_services.replay.tables_given import TableRefused, as_parquet
from mixed_table import mixed_table

Columns = dict[str, list[Any]]
ONE = {"window": 400, "C": 1.0}


def made(rows: int = 1500, seed: int = 3) -> Columns:
    columns, labels = mixed_table(rows, seed, fraud=0.05)
    return columns | {"label": labels}


def records(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def commanded(file: Path, *options: str) -> dict[str, Any]:
    """The JSON of the command on a file."""
    summary = file.with_suffix(".json")
    done = CliRunner().invoke(app, ["replay", str(file), "--json", str(summary), *options])
    assert done.exit_code == 0, done.output
    value: dict[str, Any] = json.loads(summary.read_text("utf-8"))
    return value


def written(columns: Columns, file: Path) -> Path:
    table = pa.table(columns)
    if file.suffix == ".csv":
        pyarrow.csv.write_csv(table, file)
    elif file.suffix == ".parquet":
        pq.write_table(table, file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in records(columns)), "utf-8")
    return file


class Frame:
    """What is looked at of a data frame: columns by place, and series with types of NumPy."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns, self.columns = list(columns.values()), list(columns)

    @property
    def iloc(self) -> Frame:
        return self

    def __getitem__(self, at: tuple[slice, int]) -> Any:
        return self._columns[at[1]]


class Stream:
    """What offers a table by Arrow's C stream and nothing else, as a data frame of Polars does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def mixed() -> tuple[Columns, Replayed]:
    columns = made()
    return columns, deltaplane.replay(columns, label="label", positive="fraud", retire_fraction=0.2, verify=True)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_a_table_gives_what_the_command_gives_on_its_file(
    ending: str, tmp_path: Path, mixed: tuple[Columns, Replayed]
) -> None:
    columns, found = mixed
    file = written(columns, tmp_path / f"rows{ending}")
    options = ("--label", "label", "--positive", "fraud", "--retire-fraction", "0.2", "--verify")
    told = commanded(file, *options)
    assert told["verified"]
    assert found.verified is True
    assert (told["digest"], told["gmean"]) == (found.digest, found.gmean)
    mine = json.loads(json.dumps(found.summary))
    assert {key for key in told if mine[key] != told[key]} <= {"source", "seconds", "rows_per_second"}
    assert deltaplane.replay(file, label="label", positive="fraud", retire_fraction=0.2).digest == found.digest
    assert deltaplane.replay(str(file), label="label", positive="fraud", retire_fraction=0.2).digest == found.digest


def test_every_form_of_a_table_gives_the_same_digest() -> None:
    columns = made(900)
    arrays = {name: np.array(cells, dtype=object) for name, cells in columns.items()}
    forms = (
        columns,
        pa.table(columns),
        records(columns),
        iter(records(columns)),
        [{name: cell for name, cell in row.items() if cell is not None} for row in records(columns)],
        Frame(arrays),
        Stream(pa.table(columns)),
    )
    found = [deltaplane.replay(form, label="label", **ONE) for form in forms]
    assert len({one.definition.data_fingerprint for one in found}) == 1
    assert len({one.digest for one in found}) == 1


def test_a_frame_of_numbers_with_nan_is_the_table_with_gaps() -> None:
    columns = made(900)
    amount = [math.nan if cell is None else cell for cell in columns["amount"]]
    frame = Frame({"amount": np.array(amount), "label": np.array(columns["label"], dtype=object)})
    both = {"amount": columns["amount"], "label": columns["label"]}
    assert deltaplane.replay(frame, label="label", **ONE).digest == deltaplane.replay(both, label="label", **ONE).digest


def test_cells_of_many_types_in_one_column_are_read_as_a_file_of_them(tmp_path: Path) -> None:
    columns = made(900)
    several = [1, 2.5, "x", True, None, 2**70, 1.0]
    columns["several"] = [several[at * at % 7] for at in range(900)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in records(columns)), "utf-8")
    keywords: Keywords = {"label": "label", "category": "several", "window": 400, "C": 1.0}
    by_file, by_table = deltaplane.replay(file, **keywords), deltaplane.replay(records(columns), **keywords)
    assert by_file.definition.features == by_table.definition.features
    assert by_file.digest == by_table.digest


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        ONE,
        {**ONE, "chunk": 1, "kind": "lpsvm"},
        {**ONE, "chunk": 1, "weighting": "inverse"},
        {**ONE, "partitions": 3},
        {"shuffle": 5, "window": [200, "all"]},
        {**ONE, "feature_map": "hidden", "units": 20},
        {"id": "tx_id", "retire_fraction": 0.3},
    ],
    ids=str,
)
def test_the_counts_of_the_predictions_are_the_figures(keywords: dict[str, Any]) -> None:
    columns = made(900)
    found = deltaplane.replay(columns, label="label", positive="fraud", **keywords)
    table = found.predictions.to_pylist()
    assert [one["row"] for one in table] == list(range(1, 901))
    assert [one["label"] for one in table] == [
        "fraud" if label == "fraud" else "not fraud" for label in columns["label"]
    ]
    assert [one.get("id") for one in table] == (columns["tx_id"] if "id" in keywords else [None] * 900)
    counted = Counter((one["label"], one["prediction"]) for one in table if one["prediction"] is not None)
    said = {(one["truth"], one["predicted"]): one["count"] for one in found.summary["confusion"]}
    assert counted == {pair: count for pair, count in said.items() if count}
    assert counted.total() == found.summary["scored"] > 700
    for one in table:
        assert (one["value"] is None) == (one["prediction"] is None)
        assert one["value"] is None or (one["value"] > 0) == (one["prediction"] == "fraud")


def test_a_prediction_is_made_before_its_row_is_learned() -> None:
    chance = np.random.default_rng(0)
    rows = [{"a": float(x), "label": "p" if x > 0 else "q"} for x in chance.normal(size=400)]
    turned = [row if at < 300 else row | {"label": "q" if row["label"] == "p" else "p"} for at, row in enumerate(rows)]
    same = [deltaplane.replay(one, label="label", **ONE).predictions.to_pylist() for one in (rows, turned)]
    for before, after in zip(*(one[:400] for one in same), strict=True):
        assert (before["prediction"], before["value"]) == (after["prediction"], after["value"])


def test_of_several_classes_the_value_is_that_of_the_class_that_is_predicted() -> None:
    chance = np.random.default_rng(1)
    labels = chance.choice(["a", "b", "c"], 600).tolist()
    centre = {"a": 0.0, "b": 4.0, "c": 8.0}
    table = {"x": [centre[one] + chance.normal() for one in labels], "y": chance.normal(size=600), "label": labels}
    found = deltaplane.replay(table, label="label", **ONE).predictions.to_pylist()
    guesses = Counter(one["prediction"] for one in found)
    assert set(guesses) == {"a", "b", "c", None}
    assert guesses[None] == 100


def test_the_other_tables_say_what_the_summary_says(mixed: tuple[Columns, Replayed], tmp_path: Path) -> None:
    found = mixed[1]
    series = found.series.to_pylist()
    assert [(one["rows_from"], one["rows_to"]) for one in series][-1][1] == 1500
    assert series[-1]["gmean_lately"] == found.summary["series"][-1]["lately"]["gmean"]
    kinds = {one["column"]: one["kind"] for one in found.columns.to_pylist()}
    assert (kinds["tx_id"], kinds["country"], kinds["merchant"]) == (None, "category", "hashed")
    (tmp_path / "deltaplane.toml").write_text(found.definition_text, "utf-8")
    for definition in (found.definition, found.definition.to_tables(), tmp_path / "deltaplane.toml"):
        again = deltaplane.replay(mixed[0], label="label", retire_fraction=0.2, definition=definition)
        assert again.digest == found.digest
        assert again.columns.num_rows == 0


def test_a_report_is_the_page_of_the_command(mixed: tuple[Columns, Replayed], tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    mixed[1].report(tmp_path / "page.html")
    assert mixed[1].digest[:12] in (tmp_path / "page.html").read_text("utf-8")


def test_a_notebook_shows_figures_and_columns_and_believes_no_markup_of_the_table() -> None:
    columns = made(900)
    columns["<script>alert(1)</script>"] = columns.pop("country")
    found = deltaplane.replay(columns, label="label", **ONE)
    page = found._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert f"{found.gmean:.4f}" in page
    assert f"{found.gmean:.4f}" in repr(found)


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"windo": 3}, "unknown keyword 'windo'; did you mean 'window'?"),
        ({"c": 1.0}, "unknown keyword 'c'; did you mean 'C'?"),
        ({"retirefraction": 0.1}, "did you mean 'retire_fraction'?"),
        ({"report": "page.html"}, r"write the page of the result with \.report\(path\)"),
        ({"xyzzy": 0.1}, "known are label, positive"),
        ({"chunk": "many"}, "chunk: expected a whole number, got 'many'"),
        ({"verify": 1}, "verify: expected true or false, got 1"),
        ({"label": [1]}, r"input\.label: expected a text"),
        ({"definition": 3}, "definition: expected a path, tables or a StreamDefinition, got int"),
        ({"C": "much"}, "C: expected auto"),
        ({"label": "lable"}, "the table has no column `lable` for the label"),
    ],
)
def test_a_wrong_keyword_is_refused_with_what_is_right(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(DeltaplaneError, match=told):
        deltaplane.replay(made(50), **({"label": "label"} | keywords))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (3, "expected a path, a data frame, an Arrow table, .* got int"),
        ([{"a": 1}, [2]], r"got list of list, 2 being '\[2\]'"),
        ({"a": [1, 2], "label": ["p"]}, "it cannot be read column by column"),
        (b"a,b\n", "got bytes"),
        ([], "."),
    ],
    ids=str,
)
def test_what_is_no_table_is_refused(table: Any, told: str) -> None:
    with pytest.raises(DeltaplaneError, match=told):
        deltaplane.replay(table, label="label")


@pytest.mark.parametrize(("cell", "kind"), [([1, 2], "list<"), ({"a": 1}, "struct<")])
def test_a_column_of_lists_or_structures_is_refused_by_name(cell: Any, kind: str, tmp_path: Path) -> None:
    table = made(50) | {"parts": [cell] * 50}
    told = rf"The column `parts` holds {kind}.* Leave it out with `--ignore parts`"
    with pytest.raises(DeltaplaneError, match=told):
        deltaplane.replay(table, label="label")
    done = CliRunner().invoke(app, ["replay", str(written(table, tmp_path / "rows.parquet")), "--label", "label"])
    assert isinstance(done.exception, DeltaplaneError)
    assert deltaplane.replay(made(900) | {"parts": [cell] * 900}, label="label", ignore="parts", **ONE).gmean > 0.3


def test_a_table_of_one_sorted_class_after_the_other_warns() -> None:
    table = {"a": list(range(400)), "label": ["p"] * 200 + ["q"] * 200}
    with pytest.warns(RuntimeWarning, match="sorted by class"):
        found = deltaplane.replay(table, label="label", **ONE)
    assert found.warnings
    assert "sorted by class" in found._repr_html_()


def test_the_last_model_answers_new_rows_as_a_classifier_and_as_what_the_command_writes(tmp_path: Path) -> None:
    columns = made(2000)
    known = {name: cells[:1500] for name, cells in columns.items()}
    fresh = {name: cells[1500:] for name, cells in columns.items() if name != "label"}
    classifier = deltaplane.replay(known, label="label", window=1000).classifier
    answered = classifier.predict(fresh).tolist()
    hits = [answer == label for answer, label in zip(answered, columns["label"][1500:], strict=True)]
    assert np.mean(hits) > 0.7
    files = {"--write-model": tmp_path / "model.json", "--write-definition": tmp_path / "stream.toml"}
    options = [str(word) for option in files.items() for word in option]
    commanded(written(known, tmp_path / "known.parquet"), "--label", "label", "--window", "1000", *options)
    new, out = written(fresh, tmp_path / "new.parquet"), tmp_path / "answers.parquet"
    asked = ["--model", str(files["--write-model"]), "--definition", str(files["--write-definition"])]
    done = CliRunner().invoke(app, ["predict", str(new), *asked, "--out", str(out)])
    assert done.exit_code == 0, done.output
    answers = pq.read_table(out)
    assert answers["predicted"].to_pylist() == answered
    assert answers["score"].to_pylist() == classifier.decision_function(fresh).tolist()
    assert set(answers["refused"].to_pylist()) == {None}


def test_the_keywords_are_the_options_of_the_command() -> None:
    command: Any = typer.main.get_command(app)
    options = {name for option in command.commands["replay"].params for name in option.opts}
    ours = {f"--{name.replace('_', '-')}" for name in Keywords.__annotations__}
    assert ours <= options
    assert {option.removeprefix("--").replace("-", "_") for option in options - ours} == {
        *(
            "file",
            "plots",
            "json",
            "report",
            "save",
            "resume",
            "speed",
            "retired_ids",
            "write_definition",
            "write_model",
        ),
        *("broker", "workers", "services", "keep_topics", "kafka", "quiet", "_q", "predictions"),
        *("engine", "processes", "pieces"),
    }


CELLS = st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.booleans() | st.just(2**70)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), CELLS), max_size=8))
def test_records_of_any_cells_become_a_table_with_a_row_for_each(rows: list[dict[str, Any]]) -> None:
    def one_by_one() -> Iterator[dict[str, Any]]:
        yield from rows

    try:
        table = pq.read_table(as_parquet(one_by_one()))
    except TableRefused:
        assert any("\ud800" <= letter <= "\udfff" for row in rows for cell in row.values() for letter in str(cell))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    assert table.column_names == names
    assert table.num_rows == (len(rows) if names else 0)
    for name in names:
        for cell, row in zip(table.column(name).to_pylist(), rows, strict=True):
            given_cell = row.get(name)
            is_missing = given_cell is None or given_cell != given_cell  # noqa: PLR0124 - NaN differs from itself.
            assert (cell is None) == is_missing


@pytest.mark.parametrize(("window", "kind"), [(100, "none"), (800, "mixed")])
def test_a_map_chosen_by_itself_is_none_where_windows_are_short(window: int, kind: str) -> None:
    points = np.random.default_rng(0).normal(size=(600, 2)).round(3)
    sides = np.where((points**2).sum(axis=1) < 1.4, "in", "out").tolist()
    table = {"a": points[:, 0].tolist(), "b": points[:, 1].tolist(), "y": sides}
    chosen = deltaplane.replay(table, label="y", window=window, C=1.0, feature_map="auto", verify=True)
    plain = deltaplane.replay(table, label="y", window=window, C=1.0, feature_map="none")
    assert f'kind = "{kind}"' in chosen.definition_text
    assert (chosen.digest == plain.digest) == (kind == "none")
