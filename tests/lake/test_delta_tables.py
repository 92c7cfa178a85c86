"""A Delta table is read at one version, and what its files do not hold as it is, is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_partial
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.last_rows import last_rows_of_table
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, open_table
from lake_tables import COLUMNS, INPUT, TABLES, table_of, write_folder

deltalake = pytest.importorskip("deltalake", reason="the extra lake brings it")


def delta_of(path: Path, *versions: int) -> str:
    """A Delta table to which so many rows were appended at each version."""
    for version, rows in enumerate(versions):
        table = table_of(rows, seed=version, ids=[f"row-{version}-{number}" for number in range(rows)])
        deltalake.write_deltalake(str(path), table, mode="append")
    return str(path)


def test_a_version_is_pinned_and_the_newest_is_said(tmp_path: Path) -> None:
    name = delta_of(tmp_path / "table", 60, 40)
    first, newest = (compute_history(name, COLUMNS, Computing(version=version)) for version in (0, None))
    assert (first.facts["version"], newest.facts["version"]) == (0, 1)
    folder = write_folder(tmp_path / "folder", table_of(60, ids=[f"row-0-{number}" for number in range(60)]), 2)
    of_files = compute_history(str(folder), COLUMNS, Computing())
    assert first.partial.digest() == of_files.partial.digest()
    assert newest.partial.rows > first.partial.rows
    assert write_partial(compute_history(name, COLUMNS, Computing(version=1)).partial) == write_partial(newest.partial)


def test_rows_that_were_deleted_are_not_there_at_the_next_version(tmp_path: Path) -> None:
    name = delta_of(tmp_path / "table", 60)
    deltalake.DeltaTable(name).delete("id = 'row-0-7'")
    before, after = (compute_history(name, COLUMNS, Computing(version=version)) for version in (0, 1))
    assert before.partial.rows == after.partial.rows + 1


def test_versions_of_an_id_have_no_order_in_a_delta_table_unless_time_gives_one(tmp_path: Path) -> None:
    name = str(tmp_path / "table")
    for _ in range(2):
        deltalake.write_deltalake(name, table_of(20), mode="append")
    with pytest.raises(DefinitionError, match="--last-by time"):
        compute_history(name, COLUMNS, Computing())
    history = compute_history(name, COLUMNS, Computing(last_by="time"))
    assert history.partial.counts["replaced"] == history.partial.rows


def test_what_the_files_do_not_hold_as_it_is_is_refused(tmp_path: Path) -> None:
    name = str(tmp_path / "table")
    deltalake.write_deltalake(name, table_of(20), partition_by=["target"])
    with pytest.raises(LakeError, match="partitioned by target"):
        compute_history(name, COLUMNS, Computing())
    name = str(tmp_path / "vectors")
    deltalake.write_deltalake(name, table_of(20).drop_columns(["at"]))
    log = next(Path(name).glob("_delta_log/*.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            vectors = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **vectors}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(LakeError, match="has deletionVectors"):
        open_table(name, None)


def test_a_version_that_never_was_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="version 9 of the Delta table cannot be read"):
        open_table(delta_of(tmp_path / "table", 5), 9)


def test_of_a_table_without_an_order_the_last_rows_are_those_of_the_last_times(tmp_path: Path) -> None:
    name = delta_of(tmp_path / "table", 60, 40)
    definition = StreamDefinition.from_tables({**TABLES, "window": {"length": "30"}})
    columns = ColumnsOfTable(definition, INPUT)
    with pytest.raises(DefinitionError, match="say --last-by time with --time COLUMN"):
        last_rows_of_table(name, columns, Computing(), 10**12)
    last = last_rows_of_table(name, columns, Computing(last_by="time"), 10**12)
    assert last.rows == 30
    assert last.samples[0].event_times.min() > 20_000
