"""The oracle against numbers worked out by hand, so that what all else is compared with is itself compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.reference import Reference, exact_moments
from deltaplane.stream.class_definition import ClassDefinition
from strategies_streams import Row, definition_of, samples_of

ROWS = [Row(name, "x", (float(at),), time=10 * at) for at, name in enumerate("abcdef")]


def live(reference: Reference, window: int = 0) -> list[str]:
    return [row.id for row in reference.live(window)]


def told(definition_text: str, *rows: Row) -> Reference:
    reference = Reference(definition_of(definition_text))
    reference.add(0, samples_of([(row,) for row in rows]))
    return reference


def test_the_last_rows_of_each_partition_are_live_in_a_count_window() -> None:
    reference = Reference(replace(definition_of("3", partitions=2), partitioner="crc32"))
    reference.add(0, samples_of([tuple(ROWS[:4])]))
    reference.add(1, samples_of([tuple(ROWS[4:])]))
    assert live(reference) == ["c", "d", "f"]


def test_a_time_window_ends_at_the_watermark_of_all_partitions() -> None:
    reference = Reference(replace(definition_of("25ms", partitions=2), partitioner="crc32"))
    reference.add(0, samples_of([tuple(ROWS[:4])]))
    assert live(reference) == ["b", "c", "d"]
    reference.add(1, samples_of([(ROWS[5],)]))
    assert live(reference) == ["d", "f"]


def test_the_last_version_counts_even_where_it_lies_outside_the_window_itself() -> None:
    reference = told("25ms", ROWS[4], ROWS[5], replace(ROWS[4], time=0))
    assert live(reference) == ["f"]


def test_a_retired_id_is_never_live_whenever_it_was_retired() -> None:
    reference = told("all", *ROWS[:3])
    reference.retire("b")
    reference.retire("d")
    reference.add(0, samples_of([(ROWS[3],)]))
    assert live(reference) == ["a", "c"]


def test_the_statistics_are_the_integers_worked_out_by_hand() -> None:
    reference = told("all", Row("a", "x", (2.0,)), Row("b", "x", (-3.0,)), Row("c", "y", (5.0,)))
    grams = reference.statistics().grams()
    #  E = [[2, -1], [-3, -1]]: squares 4 + 9, last column -(2 - 3), corner 2
    assert [grams["x"].entry(i, j) for i, j in ((0, 0), (0, 1), (1, 1))] == [13, 1, 2]
    assert [grams["y"].entry(i, j) for i, j in ((0, 0), (0, 1), (1, 1))] == [25, -5, 1]


def test_integer_products_are_exact_where_floats_and_64_bits_are_not() -> None:
    largest = limits.GRID_RANGE - 1
    quantized = np.full((5000, 1), largest, dtype=np.int64)
    quantized[0] = 1
    moments = exact_moments(quantized)
    assert moments.entry(0, 0) == 4999 * largest**2 + 1
    assert float(moments.entry(0, 0)) != moments.entry(0, 0)
    assert moments == Moments.of_rows(quantized)


@pytest.mark.parametrize(
    "row",
    [
        Row("", "x"),
        Row("i" * 300, "x"),
        Row("a", ""),
        Row("a", "z"),
        Row("a", "x", (float("nan"),)),
        Row("a", "x", (float("inf"),)),
        Row("a", "x", (2.0**30,)),
        Row("a", "x", time=1001),
        Row("a", "x", time=-(2**63)),
    ],
)
def test_a_row_that_the_stream_does_not_admit_is_not_there(row: Row) -> None:
    definition = replace(definition_of("10ms", classes=ClassDefinition(("x", "y"))), max_skew_milliseconds=1000)
    reference = Reference(definition)
    reference.add(0, samples_of([(row,)]))
    assert live(reference) == []
    assert not reference.statistics()


def test_a_missing_value_becomes_the_offset_where_the_stream_says_so() -> None:
    definition = replace(definition_of("all"), missing="offset", grid=Grid(np.array([2.0]), np.array([10.0])))
    reference = Reference(definition)
    reference.add(0, samples_of([(Row("a", "x", (float("nan"),)), Row("b", "x", (14.0,)))]))
    assert [row.quantized.tolist() for row in reference.live()] == [[0], [2]]
