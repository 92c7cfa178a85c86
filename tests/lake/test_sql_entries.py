"""Plain SQL finds the same integers in a table, or says at which entry of which class it does not."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltaplane.errors import ExtraMissing
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.recomputing import TableOfHistory
from deltaplane_services.lake.sql_entries import Drawn, draw_places, places_in_sql
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, open_table
from lake_tables import COLUMNS, DEFINITION, INPUT, TABLES, ids_of, table_of, write_folder

RETIRED = frozenset(ids_of(range(30, 40)))
EVERY = Drawn(1000, 0)


def columns_of(input_table: InputTable, **tables: Any) -> ColumnsOfTable:
    return ColumnsOfTable(StreamDefinition.from_tables({**TABLES, **tables}), input_table)


def summed(folder: Path, columns: ColumnsOfTable = COLUMNS) -> History:
    """The history of a folder of which every row counts, in this process."""
    sums, table = FileSums(columns.definition, columns.options), open_table(str(folder), None)
    total = Partial.zero(columns.definition)
    for file in table.files:
        total = total + sums.whole(file.path, file.name, hashes=False).partial
    facts = {"table": str(folder), "version": None, "input": columns.input.table, "last_by": None}
    return History(columns.definition, total, facts)


def differences(history: History, without: frozenset[str] = frozenset(), drawn: Drawn = EVERY) -> tuple[str, ...]:
    """What SQL finds otherwise than the history."""
    table = TableOfHistory(history).in_sql(without, RETIRED)
    statistics = history.partial.in_windows(history.definition)
    return table.differences(statistics, 0, draw_places(places_in_sql(history.definition), drawn))


@pytest.mark.parametrize("last_by", [None, "place", "time"])
def test_sql_finds_every_entry_that_the_engine_has_found(tmp_path: Path, last_by: Any) -> None:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(150), 2)).tolist()
    folder = write_folder(tmp_path / "table", table_of(300, ids=ids_of(numbers)), 3)
    history = compute_history(str(folder), COLUMNS, Computing(last_by=last_by, retired=RETIRED))
    assert history.partial.counts["replaced"] > 50
    assert history.partial.refusals
    assert not differences(history)


def test_one_changed_cell_is_found_at_the_entries_of_its_feature_alone(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(90), 3)
    history = summed(folder, COLUMNS)
    file = folder / "part-00001.parquet"
    rows = pq.read_table(file)
    at = rows["target"].to_pylist().index("UP", 5)
    demand = rows["demand"].to_pylist()
    demand[at] += 1
    pq.write_table(rows.set_column(3, "demand", pa.array(demand)), file)
    found = differences(history)
    assert len(found) == 3
    assert all("of class 'UP'" in one and "demand" in one for one in found)
    assert sum("(demand, demand)" in one for one in found) == 1


@pytest.mark.parametrize("change", ["label", "gone", "twice"])
def test_a_row_that_has_another_label_or_is_gone_or_there_twice_is_found_in_the_counts(
    tmp_path: Path, change: str
) -> None:
    folder = write_folder(tmp_path / "table", table_of(90), 3)
    history = summed(folder, columns_of(InputTable(label="target", ignore=("id", "at"))))
    file = folder / "part-00002.parquet"
    rows = pq.read_table(file)
    at = rows["target"].to_pylist().index("UP", 5)
    labels = rows["target"].to_pylist()
    labels[at] = "DOWN"
    changed = {
        "label": rows.set_column(4, "target", pa.array(labels)),
        "gone": pa.concat_tables([rows[:at], rows[at + 1 :]]),
        "twice": pa.concat_tables([rows, rows[at : at + 1]]),
    }
    pq.write_table(changed[change], file)
    assert any("SQL counts" in one and "'UP'" in one for one in differences(history))


def test_a_class_that_only_one_side_has_is_told(tmp_path: Path) -> None:
    columns = columns_of(INPUT, classes={})
    folder = write_folder(tmp_path / "table", table_of(60), 1)
    history = summed(folder, columns)
    assert not differences(history)
    rows = pq.read_table(folder / "part-00000.parquet")
    others = ["new" if label == "sideways" else label for label in rows["target"].to_pylist()]
    pq.write_table(rows.set_column(4, "target", pa.array(others)), folder / "part-00000.parquet")
    found = differences(history)
    assert any("'new', the model contains 0" in one for one in found)
    assert any("SQL counts 0 rows of class 'sideways'" in one for one in found)


LABELS: list[Any] = [" UP ", "DOWN", "DOWN\t", "NA", "", None, "nan", "1", "1.0", "+1", "01", "1_0", "x" * 300, "é"]


@pytest.mark.parametrize(
    "classes", [{}, {"positive": "UP"}, {"names": ["DOWN", "UP", "1.0"]}, {"names": ["DOWN", "UP"], "positive": "UP"}]
)
def test_labels_are_spelled_and_admitted_as_the_stream_does(tmp_path: Path, classes: dict[str, Any]) -> None:
    count = len(LABELS) * 3
    table = pa.table({"price": np.arange(count) / 7, "demand": np.arange(count), "target": LABELS * 3})
    folder = write_folder(tmp_path / "table", table, 2)
    history = summed(folder, columns_of(InputTable(label="target"), classes=classes))
    assert history.partial.rows > 5
    assert not differences(history)


@pytest.mark.parametrize(
    "labels", [pa.array([0, 1, 1, None]), pa.array([True, False, None, True]), pa.array([0.0, 1.0, np.nan, None])]
)
def test_labels_that_are_numbers_or_truths_have_the_classes_of_the_stream(tmp_path: Path, labels: pa.Array) -> None:
    table = pa.table({"price": np.arange(4) / 7, "demand": np.arange(4), "target": labels})
    folder = write_folder(tmp_path / "table", table, 1)
    assert not differences(summed(folder, columns_of(InputTable(label="target"), classes={})))


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(width=64) | st.none() | st.integers(-(2**46), 2**46).map(lambda n: n / 2), min_size=4),
    offset=st.sampled_from([0.0, 2.0**40, -3.0]),
    missing=st.sampled_from(["refuse", "offset"]),
    marks=st.sampled_from([[], ["-999", "7"]]),
)
@example(values=[0.0, 0.0, 0.0, math.nan], offset=0.0, missing="refuse", marks=[])
@example(values=[0.0, 0.0, 0.0, math.nan], offset=0.0, missing="offset", marks=[])
def test_any_number_is_on_the_same_place_of_the_grid_or_refused_on_both_sides(
    tmp_path_factory: pytest.TempPathFactory, values: list[float | None], offset: float, missing: str, marks: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("lake") / "table"
    columns = columns_of(
        InputTable(label="target", missing_values=tuple(marks) or None),
        features={"names": ["price"], "missing": missing},
        grid={"steps": [1.0], "offsets": [offset], "range_bits": 45},
    )
    steady = [offset, offset + 1.0]
    prices = pa.array([*steady, -999.0, *values], pa.float64())
    table = pa.table({"price": prices, "target": list(itertools.islice(itertools.cycle(["UP", "DOWN"]), len(prices)))})
    assert not differences(summed(write_folder(folder, table, 1), columns))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_last_by_time_is_that_of_rounded_milliseconds_and_then_of_the_place(tmp_path: Path, unit: str) -> None:
    times = np.array([-1_500_499, -1_500_500, 499, 500, 501, 1_500, 2_499, 2_500, 1_999, 2_001] * 4, dtype=np.int64)
    count = len(times)
    table = pa.table(
        {
            "id": [f"row-{number // 4}" for number in range(count)],
            "at": pa.array(np.random.default_rng(5).permutation(times), pa.timestamp(unit)),
            "price": np.arange(count) / 7,
            "demand": np.arange(count),
            "target": ["UP", "DOWN"] * (count // 2),
        }
    )
    folder = write_folder(tmp_path / "table", table, 3)
    assert not differences(compute_history(str(folder), COLUMNS, Computing(last_by="time")))


def test_of_a_mapped_stream_sql_finds_the_entries_that_no_map_has_bent(tmp_path: Path) -> None:
    map_of = {"kind": "mixed", "units": 16, "sigma": 1.0, "seed": 4, "centers": [0, 0], "scales": [1.0, 1.0]}
    mixed = columns_of(INPUT, feature_map=map_of)
    assert places_in_sql(mixed.definition) == [0, 1, mixed.definition.dimension - 1]
    folder = write_folder(tmp_path / "table", table_of(60), 1)
    history = summed(folder, mixed)
    assert not differences(history)


def test_drawn_entries_are_those_of_their_seed_and_touch_every_feature_before_one_twice() -> None:
    among = list(range(41))
    places = draw_places(among, Drawn(20, 7))
    assert places == draw_places(among, Drawn(20, 7)) != draw_places(among, Drawn(20, 8))
    assert len(set(places)) == 20
    touched = [one for place in places for one in set(place)]
    assert len(touched) == len(set(touched)) >= 35
    assert len(draw_places(among, Drawn(860, 7))) == 860
    assert draw_places([0, 1], Drawn(99, 7)) == [(0, 0), (0, 1), (1, 1)]


def test_what_sql_would_read_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    table = table_of(60)
    text = table.set_column(0, "id", pa.array([b"x%d" % number for number in range(60)]))
    folder = write_folder(tmp_path / "bytes", text, 1)
    with pytest.raises(LakeError, match="column 'id' holds BLOB, which SQL would read otherwise"):
        differences(summed(folder, COLUMNS))
    fractions = table.set_column(4, "target", pa.array(["0.50"] * 60))
    folder = write_folder(tmp_path / "fractions", fractions, 1)
    with pytest.raises(LakeError, match=r"a label is the fraction 0\.50; audit it without --sql"):
        differences(summed(folder, columns_of(INPUT, classes={})))
    lines = tmp_path / "rows.csv"
    lines.write_text("price,demand,target\n1,2,UP\n3,4,DOWN\n")
    with pytest.raises(LakeError, match=r"SQL reads files of Parquet, and the table has rows\.csv"):
        differences(summed(lines, columns_of(InputTable(label="target"))))


def test_without_the_library_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "table", table_of(60), 1)
    history = summed(folder, COLUMNS)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ExtraMissing, match=r"an audit by SQL needs duckdb: pip install 'deltaplane\[lake\]'"):
        differences(history)


def test_names_and_paths_with_signs_of_sql_are_names(tmp_path: Path) -> None:
    definition = StreamDefinition.from_tables({**TABLES, "features": {"names": ['pri"ce', "dem'and"]}})
    table = table_of(60).rename_columns(["id", "at", 'pri"ce', "dem'and", "tar get"])
    folder = write_folder(tmp_path / "it's a table", table, 2)
    columns = ColumnsOfTable(definition, replace(INPUT, label="tar get"))
    assert not differences(summed(folder, columns))


def test_the_model_is_held_against_sql_at_its_own_definition(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(60), 1)
    history = summed(folder, COLUMNS)
    assert history.definition.stream_fingerprint == DEFINITION.stream_fingerprint
    some = frozenset(ids_of([4, 5, 6]))
    without = compute_history(str(folder), COLUMNS, Computing(retired=some))
    table = TableOfHistory(history).in_sql(some)
    places = draw_places(places_in_sql(DEFINITION), EVERY)
    assert not table.differences(without.partial.in_windows(DEFINITION), 0, places)
    assert table.differences(history.partial.in_windows(DEFINITION), 0, places)
