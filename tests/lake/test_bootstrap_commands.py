"""The commands of ``deltaplane bootstrap`` as somebody types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deltaplane.wire.histories import read_history
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.lake.tables import LakeError
from lake_tables import INPUT, TABLES, table_of, write_folder


def bootstrap(*words: object) -> Result:
    return CliRunner().invoke(app, ["bootstrap", *map(str, words)])


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    file = tmp_path / "deltaplane.toml"
    file.write_text(as_toml({**TABLES, "input": INPUT.table}))
    return file


def test_compute_writes_a_history_and_says_what_is_in_it(tmp_path: Path, definition: Path) -> None:
    folder, out = write_folder(tmp_path / "table", table_of(200), 2), tmp_path / "history.stats"
    retired = tmp_path / "retired"
    retired.write_text("row-5\nrow-6\nrow-nobody\n")
    done = bootstrap(*("compute", folder, "--definition", definition, "--out", out, "--retired-ids", retired, "--json"))
    told = json.loads(done.stdout)
    history = read_history(out.read_bytes())
    assert (told["digest"], told["rows"]) == (history.partial.digest(), history.partial.rows)
    assert told["counts"] == {"applied": told["rows"], "retired id": 2}
    assert out.stat().st_mode & 0o777 == 0o600


def test_compute_says_in_words_what_was_left_out_and_why(tmp_path: Path, definition: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(100), 1)
    done = bootstrap("compute", folder, "--definition", definition, "--out", tmp_path / "history.stats")
    assert "part-00000.parquet: row 1: the feature `price` is missing" in done.stdout
    assert "rows of" in done.stdout


def test_compute_that_fails_leaves_the_file_of_before(tmp_path: Path, definition: Path) -> None:
    out = tmp_path / "history.stats"
    out.write_text("before")
    done = bootstrap("compute", tmp_path / "nowhere", "--definition", definition, "--out", out)
    assert isinstance(done.exception, LakeError)
    assert "no such file or folder" in str(done.exception)
    assert out.read_text() == "before"
