"""The rows of some ids are found again in the table that a history was computed from, or nothing is concluded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane.exact.statistics import Statistics
from deltaplane.log.history import History
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.recomputing import TableOfHistory
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError
from lake_tables import COLUMNS, DEFINITION, ids_of, table_of, write_folder

RETIRED = frozenset(ids_of(range(30, 40)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(100), 2)).tolist()
    return write_folder(tmp_path_factory.mktemp("lake") / "table", table_of(200, ids=ids_of(numbers)), 3)


@pytest.fixture(scope="module")
def history(folder: Path) -> History:
    return compute_history(str(folder), COLUMNS, Computing(retired=RETIRED))


def test_what_is_taken_out_is_what_a_history_without_these_ids_lacks(folder: Path, history: History) -> None:
    table = TableOfHistory(history)
    asked = ids_of([3, 4, 5, 777])
    statistics, found = table.rows_of(asked)
    assert "row-777" not in found
    without = compute_history(str(folder), COLUMNS, Computing(retired=RETIRED | frozenset(asked)))
    assert history.partial.in_windows(DEFINITION) - statistics == without.partial.in_windows(DEFINITION)
    assert table.again(frozenset(found), RETIRED) == without.partial.in_windows(DEFINITION)


def test_ids_that_were_retired_before_are_known_by_their_marks(history: History) -> None:
    table = TableOfHistory(history)
    assert table.never_counted(["row-31", "row-3", "row-777"]) == {"row-31"}
    with pytest.raises(LakeError, match=r"9|10 retired ids, and .* not given"):
        table.again(frozenset())


def test_of_a_table_that_has_changed_nothing_is_concluded(folder: Path, history: History, tmp_path: Path) -> None:
    place = tmp_path / "moved"
    place.mkdir()
    for file in folder.glob("*.parquet"):
        (place / file.name).write_bytes(file.read_bytes())
    table = TableOfHistory(history, str(place))
    assert table.rows_of(["row-3"])[1] == ["row-3"]
    rows = pq.read_table(place / "part-00002.parquet")
    changed = pa.array([*rows["demand"].to_pylist()[:-1], 1001])
    pq.write_table(
        rows.set_column(rows.schema.get_field_index("demand"), "demand", changed), place / "part-00002.parquet"
    )
    assert table.again(frozenset(), RETIRED) != history.partial.in_windows(DEFINITION)
    with pytest.raises(LakeError, match=r"part-00002\.parquet is not the one"):
        table.rows_of(["row-3"])
    (place / "part-00001.parquet").unlink()
    with pytest.raises(LakeError, match=r"1 of the 3 files .* are gone \(part-00001.parquet"):
        table.rows_of(["row-3"])


def test_a_table_that_was_emptied_gives_nothing_or_is_gone(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(60), 2)
    table = TableOfHistory(compute_history(str(folder), COLUMNS, Computing()))
    for file in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    assert table.again(frozenset()) == Statistics(DEFINITION.dimension)
    with pytest.raises(LakeError, match=r"part-00000\.parquet is not the one .*, 0 and .* now"):
        table.rows_of(["row-3"])
    for file in folder.glob("*.parquet"):
        file.unlink()
    for look in (lambda: table.again(frozenset()), lambda: table.rows_of(["row-3"])):
        with pytest.raises(LakeError, match="holds no files of rows; they were taken away"):
            look()


def test_a_row_whose_id_alone_was_changed_is_noticed(folder: Path, history: History, tmp_path: Path) -> None:
    rows = pq.read_table(folder / "part-00000.parquet")
    place = tmp_path / "moved"
    place.mkdir()
    for file in folder.glob("*.parquet"):
        (place / file.name).write_bytes(file.read_bytes())
    ids = [f"{one}-renamed" if at == 5 else one for at, one in enumerate(rows["id"].to_pylist())]
    pq.write_table(rows.set_column(0, "id", pa.array(ids)), place / "part-00000.parquet")
    with pytest.raises(LakeError, match="is not the one"):
        TableOfHistory(history, str(place)).rows_of(["row-3"])


def test_without_a_column_of_ids_no_row_can_be_found(folder: Path) -> None:
    columns = ColumnsOfTable(DEFINITION, InputTable(label="target", ignore=("id", "at")))
    with pytest.raises(LakeError, match="without a column of ids"):
        TableOfHistory(compute_history(str(folder), columns, Computing())).rows_of(["row-3"])
