"""Admission: which rows a stream takes, why it refuses the others, and that nothing else is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.exact.grid import Grid
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import Samples, admit

HOUR = 3_600_000


def stream(**changes: Any) -> StreamDefinition:
    """Two features, classes a and b, a window of an hour, and at most a minute of skew."""
    fields: dict[str, Any] = {
        "name": "s",
        "features": ("price", "demand"),
        "grid": Grid(np.array([0.5, 1.0]), np.array([10.0, 0.0])),
        "nested_windows": NestedWindows((Window("time", HOUR),)),
        "solver": SolverOptions(),
        "classes": ClassDefinition(("a", "b")),
        "max_skew_milliseconds": 60_000,
    }
    return StreamDefinition(**{**fields, **changes})


def batch(*rows: tuple[str, int, str, float, float], log_time: int = 1_000_000, offset: int = 7) -> Samples:
    """Rows (id, event time, label, price, demand) of one record."""
    table = tuple(dict.fromkeys(row[2] for row in rows))
    return Samples(
        ids=[row[0] for row in rows],
        event_times=np.array([row[1] for row in rows], dtype=np.int64),
        label_table=table,
        label_codes=np.array([table.index(row[2]) for row in rows], dtype=np.int32),
        features=np.array([row[3:] for row in rows], dtype=np.float64).reshape(len(rows), 2),
        offsets=np.full(len(rows), offset, dtype=np.int64),
        rows=np.arange(len(rows), dtype=np.int64),
        log_times=np.full(len(rows), log_time, dtype=np.int64),
    )


GOOD = ("id", 1_000_000, "a", 10.5, 3.0)
TIME_LIMIT = limits.EVENT_TIME_MILLISECONDS
REFUSED = [
    (("", *GOOD[1:]), "bad id", "the id is empty"),
    (("é" * 128 + "x", *GOOD[1:]), "bad id", "the id takes 257 bytes, expected at most 256"),
    (("x" * 257, *GOOD[1:]), "bad id", "the id takes 257 bytes"),
    (("id", 0, "", 10.5, 3.0), "bad label", "the label is empty"),
    (("id", 0, "x" * 257, 10.5, 3.0), "bad label", "the label takes 257 bytes, expected at most 256"),
    (("id", 0, "c", 10.5, 3.0), "unknown class", "label 'c' is not one of a, b"),
    (("id", 0, "a", np.nan, 3.0), "bad value", "feature 'price' is not a number"),
    (("id", 0, "a", 10.5, -np.inf), "bad value", "feature 'demand' is infinite"),
    (("id", 0, "a", 10.5, 2.0**30), "bad value", "feature 'demand' is 1073741824.0, outside the grid's range"),
    (("id", 1_060_001, "a", 10.5, 3.0), "bogus time", "event time 1060001 ms is 60001 ms ahead of the log"),
    (("id", TIME_LIMIT, "a", 10.5, 3.0), "bogus time", "is beyond any calendar"),
    (("id", -TIME_LIMIT, "a", 10.5, 3.0), "bogus time", "is beyond any calendar"),
    (("id", 2**63 - 1, "a", 10.5, 3.0), "bogus time", "is beyond any calendar"),
    (("id", -(2**63), "a", 10.5, 3.0), "bogus time", "is beyond any calendar"),
]
OTHER_UNITS = [
    (1_750_000_000_000_000, "ahead of the log, expected at most 60000 ms (max_skew); it looks like microseconds since"),
    (1_750_000_000_000_000_000, "it looks like nanoseconds since the epoch, expected milliseconds"),
]
ADMITTED = [
    GOOD,
    ("é" * 128, *GOOD[1:]),
    ("x" * 256, *GOOD[1:]),
    ("id", 1_060_000, "b", 10.5, 3.0),
    ("id", -TIME_LIMIT + 1, "b", 10.5, 3.0),
    ("id", 0, "a", -1e8, 2.0**30 - 1),
]


@pytest.mark.parametrize(("row", "kind", "words"), REFUSED)
def test_a_row_is_refused_with_its_reason_and_nothing_else_is_lost(
    row: tuple[str, int, str, float, float], kind: str, words: str
) -> None:
    before, after = ("first", 5, "b", 1.0, 2.0), ("last", 6, "a", 3.0, 4.0)
    admitted, refusals = admit(batch(before, row, after), stream())
    assert [(refusal.kind, refusal.offset, refusal.row) for refusal in refusals] == [(kind, 7, 1)]
    assert words in refusals[0].reason
    assert refusals[0].id == row[0][:64]
    assert list(admitted.ids) == ["first", "last"]
    assert [admitted.labels[code] for code in admitted.codes] == ["b", "a"]
    assert admitted.event_times.tolist() == [5, 6]
    assert admitted.rows.tolist() == [0, 2]
    assert admitted.offsets.tolist() == [7, 7]
    assert admitted.features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert admitted.quantized.tolist() == [[-18.0, 2.0], [-14.0, 4.0]]


@pytest.mark.parametrize("row", ADMITTED)
def test_a_row_on_the_edge_of_every_bound_is_admitted(row: tuple[str, int, str, float, float]) -> None:
    admitted, refusals = admit(batch(row), stream())
    assert refusals == []
    assert list(admitted.ids) == [row[0]]


@given(st.lists(st.sampled_from([row for row, _, _ in REFUSED] + ADMITTED), max_size=12))
def test_every_row_is_either_admitted_or_refused_and_the_order_is_kept(
    rows: list[tuple[str, int, str, float, float]],
) -> None:
    admitted, refusals = admit(batch(*rows), stream())
    reasons = {row: (kind, words) for row, kind, words in REFUSED}
    assert admitted.rows.tolist() == [at for at, row in enumerate(rows) if row not in reasons]
    assert [refusal.row for refusal in refusals] == [at for at, row in enumerate(rows) if row in reasons]
    for refusal in refusals:
        kind, words = reasons[rows[refusal.row]]
        assert refusal.kind == kind
        assert words in refusal.reason
    assert len(admitted) + len(refusals) == len(rows)
    assert [admitted.labels[code] for code in admitted.codes] == [rows[at][2] for at in admitted.rows]


@given(strategies.definitions(), st.data())
def test_no_batch_makes_admission_fail_and_a_second_reading_judges_the_same(
    definition: StreamDefinition, data: st.DataObject
) -> None:
    samples = data.draw(strategies.sample_batches(len(definition.features), log_time=data.draw(strategies.LONG)))
    partition = data.draw(st.one_of(st.none(), st.integers(0, definition.partitions - 1)))
    admitted, refusals = admit(samples, definition, partition=partition)
    assert sorted([*admitted.rows.tolist(), *(refusal.row for refusal in refusals)]) == list(range(len(samples)))
    assert (np.abs(admitted.quantized) < definition.grid.range).all()
    assert np.isfinite(admitted.features).all()
    assert np.isfinite(admitted.rounding).all()
    again, same = admit(samples, definition, partition=partition)
    assert same == refusals
    assert again.quantized.tobytes() == admitted.quantized.tobytes()


def test_an_odd_time_harms_nobody_where_no_window_ends_with_time() -> None:
    rows = [("id", time, "a", 10.5, 3.0) for time in (2**63 - 1, -(2**63), 2 * 10**15)]
    for windows in ((Window("count", 5),), (Window("all"),)):
        admitted, refusals = admit(batch(*rows), stream(nested_windows=NestedWindows(windows)))
        assert len(admitted) == 3
        assert refusals == []


def test_an_odd_time_is_refused_where_one_of_several_windows_ends_with_time() -> None:
    nested_windows = NestedWindows((Window("time", HOUR), Window("all")))
    _, refusals = admit(batch(("id", 2 * 10**15, "a", 10.5, 3.0)), stream(nested_windows=nested_windows))
    assert [refusal.kind for refusal in refusals] == ["bogus time"]


def test_the_largest_skew_and_the_oddest_log_times_do_not_overflow() -> None:
    loose = stream(max_skew_milliseconds=limits.EVENT_TIME_MILLISECONDS - 1)
    for log_time, expected in ((2**63 - 1, 1), (0, 1), (-(2**63), 0)):
        admitted, _ = admit(batch(GOOD, log_time=log_time), loose)
        assert len(admitted) == expected


def test_a_missing_value_is_the_offset_where_the_definition_says_so() -> None:
    filling = stream(missing="offset")
    admitted, refusals = admit(
        batch(
            ("one", 0, "a", np.nan, 3.0),
            ("infinite", 0, "a", np.nan, np.inf),
            ("both", 0, "a", np.nan, np.nan),
            ("none", 0, "b", 10.5, 3.25),
        ),
        filling,
    )
    assert [(refusal.id, refusal.reason) for refusal in refusals] == [("infinite", "feature 'demand' is infinite")]
    assert admitted.quantized.tolist() == [[0.0, 3.0], [0.0, 0.0], [1.0, 3.0]]
    assert admitted.features.tolist() == [[10.0, 3.0], [10.0, 0.0], [10.5, 3.25]]
    assert admitted.missing == 3, "values of rows that were refused were not filled in"
    assert admitted.rounding.tolist() == [0.0, 0.25]


def test_the_rows_given_are_not_changed_by_filling_in() -> None:
    samples = batch(("id", 0, "a", np.nan, 3.0))
    samples.features.flags.writeable = False
    admit(samples, stream(missing="offset"))
    assert np.isnan(samples.features[0, 0])


def test_labels_become_classes_and_are_sorted() -> None:
    binary = stream(classes=ClassDefinition((), "b"))
    rows = [("1", 0, "z", 0.0, 0.0), ("2", 0, "b", 0.0, 0.0), ("3", 0, "a", 0.0, 0.0), ("4", 0, "not b", 0.0, 0.0)]
    admitted, _ = admit(batch(*rows), binary)
    assert admitted.labels == ["b", "not b"]
    assert admitted.codes.tolist() == [1, 0, 1, 1]


def test_of_as_many_labels_as_a_batch_can_hold_the_first_that_there_is_room_for_are_admitted() -> None:
    count = 2**16
    table = tuple(f"label {code}" for code in range(count))
    samples = Samples(
        ids=["x"] * count,
        event_times=np.zeros(count, dtype=np.int64),
        label_table=table,
        label_codes=np.arange(count, dtype=np.int32)[::-1],
        features=np.zeros((count, 2)),
        offsets=np.zeros(count, dtype=np.int64),
        rows=np.arange(count, dtype=np.int64),
        log_times=np.zeros(count, dtype=np.int64),
    )
    definition = stream(classes=ClassDefinition())
    admitted, refusals = admit(samples, definition)
    assert 100 < definition.most_classes < 1000
    assert admitted.new_labels == table[: -definition.most_classes - 1 : -1]
    assert [admitted.labels[code] for code in admitted.codes[:2]] == ["label 65535", "label 65534"]
    assert len(admitted) == len(admitted.labels) == definition.most_classes
    assert len(refusals) == count - definition.most_classes
    assert {refusal.kind for refusal in refusals} == {"too many classes"}
    assert refusals[0].row == definition.most_classes
    assert f"one more than the {definition.most_classes} that a partition admits" in refusals[0].reason


def test_a_refusal_stays_short_however_many_classes_there_are() -> None:
    names = tuple(f"class {number}" for number in range(1000))
    _, (refusal,) = admit(batch(GOOD), stream(classes=ClassDefinition(names)))
    assert "and 936 more" in refusal.reason
    assert len(refusal.reason) < 1000


def test_no_rows_are_admitted_as_no_rows() -> None:
    admitted, refusals = admit(batch(), stream())
    assert len(admitted) == 0
    assert refusals == []
    assert admitted.labels == []
    assert admitted.quantized.shape == (0, 2)


# Places --------------------------------------------------------------------------------------------------------------


def rows_named(ids: list[str]) -> Samples:
    return batch(*[(sample_id, *GOOD[1:]) for sample_id in ids])


def test_every_row_of_a_batch_is_refused_that_lies_in_another_partition_than_its_ids() -> None:
    definition, ids = stream(partitions=3), [f"row-{at}" for at in range(60)]
    admitted, refusals = admit(rows_named(ids), definition, partition=1)
    home = [definition.partition_of(sample_id) for sample_id in ids]
    assert set(home) == {0, 1, 2}
    assert admitted.ids == [sample_id for sample_id, at in zip(ids, home, strict=True) if at == 1]
    assert [refusal.id for refusal in refusals] == [sample_id for sample_id in ids if sample_id not in admitted.ids]
    assert {refusal.kind for refusal in refusals} == {"wrong partition"}
    first = refusals[0]
    assert first.reason.startswith(
        f"it lies in partition 1, and by its id belongs in {home[first.row]} of 3 (partitioner murmur2"
    )
    for cure in ("murmur2_random (librdkafka, Python)", "default (Java, kafkajs)", 'partitioner = "crc32"'):
        assert cure in first.reason
    assert len(first.reason) < limits.REASON_CHARACTERS


@pytest.mark.parametrize("changes", [{"partitions": 3, "partitioner": "crc32"}, {"partitions": 1}])
def test_no_place_is_refused_by_the_rule_of_earlier_versions_nor_with_one_partition(changes: dict[str, Any]) -> None:
    admitted, refusals = admit(rows_named([f"row-{at}" for at in range(60)]), stream(**changes), partition=0)
    assert len(admitted) == 60
    assert not refusals


def test_rows_that_lie_in_no_log_are_in_no_wrong_place() -> None:
    admitted, refusals = admit(rows_named([f"row-{at}" for at in range(60)]), stream(partitions=3))
    assert len(admitted) == 60
    assert not refusals


def test_a_row_without_a_usable_id_is_refused_for_its_id_and_costs_no_other_its_place() -> None:
    definition = stream(partitions=2)
    ids = ["", "x" * 100_000, *[f"row-{at}" for at in range(40)]]
    admitted, refusals = admit(rows_named(ids), definition, partition=0)
    assert [refusal.kind for refusal in refusals[:2]] == ["bad id", "bad id"]
    assert {refusal.kind for refusal in refusals[2:]} == {"wrong partition"}
    assert admitted.ids == [sample_id for sample_id in ids[2:] if definition.partition_of(sample_id) == 0]


def test_a_label_of_misplaced_rows_takes_no_place_among_open_classes() -> None:
    definition = stream(partitions=2, classes=ClassDefinition(most=2))
    ids = [f"row-{at}" for at in range(40)]
    mine = [sample_id for sample_id in ids if definition.partition_of(sample_id) == 0]
    others = [sample_id for sample_id in ids if definition.partition_of(sample_id) == 1]
    rows = [(sample_id, 5, f"made up {sample_id}", 1.0, 2.0) for sample_id in others]
    rows += [(mine[0], 5, "a", 1.0, 2.0), (mine[1], 5, "b", 1.0, 2.0)]
    admitted, refusals = admit(batch(*rows), definition, partition=0)
    assert admitted.new_labels == ("a", "b")
    assert {refusal.kind for refusal in refusals} == {"wrong partition"}


# Event times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("time", "words"), OTHER_UNITS)
def test_a_time_in_another_unit_is_refused_by_the_name_of_the_unit(time: int, words: str) -> None:
    _, (refusal,) = admit(batch(("id", time, "a", 10.5, 3.0), log_time=1_750_000_000_000), stream())
    assert refusal.kind == "bogus time"
    assert words in refusal.reason


def test_genuine_times_of_the_seventies_are_as_good_as_any_others() -> None:
    rows = [(f"id{at}", time, "a", 10.5, 3.0) for at, time in enumerate((0, 1_750_000_000, 86_400_000, -(2**40)))]
    admitted, refusals = admit(batch(*rows, log_time=1_750_000_000_000), stream())
    assert (len(admitted), refusals) == (4, [])
