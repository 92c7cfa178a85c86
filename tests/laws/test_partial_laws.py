"""The laws of partials, bitwise: any engine may cut a table up, in any way, and run any piece as often as it likes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane.errors import DefinitionMismatch, LimitExceeded, WireError
from deltaplane.log.partial import Partial
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane.window.partition import Partition
from deltaplane.wire import read_partial, write_partial
from strategies_streams import definition_of

VALUES = st.sampled_from([0.0, 1.0, -3.5, 0.3, 1e4, 2.0**29, 1e300, float("nan"), float("inf")])
IDS, LABELS = st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["UP", "DOWN", "LEFT", ""])


@st.composite
def tables(draw: st.DrawFn, features: int) -> Samples:
    """Up to a dozen rows, of which some are refused."""
    rows = draw(st.integers(0, 12))
    labels = draw(st.lists(LABELS, min_size=rows, max_size=rows))
    table = tuple(sorted(set(labels)))
    codes = np.array([table.index(label) for label in labels], dtype=np.int32)
    values = draw(st.lists(VALUES, min_size=rows * features, max_size=rows * features))
    ids = draw(st.lists(IDS, min_size=rows, max_size=rows))
    times = np.array(draw(st.lists(st.integers(-5, 5), min_size=rows, max_size=rows)), dtype=np.int64)
    return Samples.of_record(ids, times, table, codes, np.array(values).reshape(rows, features))


@st.composite
def histories(draw: st.DrawFn) -> tuple[StreamDefinition, Samples]:
    """A definition, of open classes or declared ones, and a table."""
    definition = draw(strategies.definitions())
    classes = {"names": draw(st.sampled_from([[], ["DOWN", "UP"]]))}
    window = {"length": "all", "keep_rows": draw(st.booleans())}
    definition = StreamDefinition.from_tables(
        {**definition.to_tables(), "classes": classes, "window": window, "solver": {}}
    )
    return definition, draw(tables(len(definition.features)))


def in_any_tree(draw: st.DataObject, parts: list[Partial]) -> Partial:
    """The sum of some partials, two of which are added at a time, whichever is drawn."""
    while len(parts) > 1:
        one = parts.pop(draw.draw(st.integers(0, len(parts) - 1)))
        other = parts.pop(draw.draw(st.integers(0, len(parts) - 1)))
        parts.append(one + other)
    return parts[0]


@given(histories(), st.data())
def test_any_cut_any_order_and_any_tree_of_additions_give_the_same_bytes(
    history: tuple[StreamDefinition, Samples], data: st.DataObject
) -> None:
    definition, table = history
    rows = np.array(data.draw(st.permutations(range(len(table)))), dtype=np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=5)))
    pieces = [rows[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(table)])]
    parts = [Partial.of(definition, table.chosen(piece)) for piece in pieces]
    whole = Partial.of(definition, table)
    assert write_partial(in_any_tree(data, parts)) == write_partial(whole)


@given(histories())
def test_nothing_is_added_by_no_rows(history: tuple[StreamDefinition, Samples]) -> None:
    definition, table = history
    partial = Partial.of(definition, table)
    assert partial + Partial.zero(definition) == partial == Partial.zero(definition) + partial


@given(histories())
def test_a_partial_is_read_as_it_was_written(history: tuple[StreamDefinition, Samples]) -> None:
    definition, table = history
    partial = Partial.of(definition, table)
    assert read_partial(write_partial(partial), definition) == partial


@given(histories())
def test_a_partial_has_the_statistics_of_a_partition_that_keeps_no_rows(
    history: tuple[StreamDefinition, Samples],
) -> None:
    definition, table = history
    partial = Partial.of(definition, table)
    partition = Partition(definition, 0)
    admitted, refusals = admit(table, definition)
    partition.step(admitted, [])
    if not definition.nested_windows.keep_rows:
        assert partial.digest() == partition.statistics.digest(definition.data_fingerprint)
    assert partial.rows == partial.counts.get("applied", 0) == len(admitted)
    assert sum(partial.refusals.values()) == len(refusals)
    assert partial.in_windows(definition) == partial.statistics


@given(histories())
def test_rows_that_are_taken_out_again_leave_no_trace_in_the_statistics(
    history: tuple[StreamDefinition, Samples],
) -> None:
    definition, table = history
    partial = Partial.of(definition, table)
    twice = (partial + partial).without(partial.statistics, {"replaced": partial.rows} if partial.rows else {})
    assert twice.statistics == partial.statistics
    assert twice.counts.get("applied", 0) == partial.rows
    assert partial.without(partial.statistics, {}).digest() == Partial.zero(definition).digest()


def of_labels(definition: StreamDefinition, *labels: str) -> Partial:
    codes = np.arange(len(labels), dtype=np.int32)
    values = np.zeros((len(labels), len(definition.features)))
    return Partial.of(definition, Samples.of_record(["id"] * len(labels), 0, labels, codes, values))


def test_more_classes_than_a_stream_tells_apart_are_refused_wherever_the_table_is_cut() -> None:
    definition = definition_of("all", classes=ClassDefinition((), None, 2))
    of_labels(definition, "a", "b")
    with pytest.raises(LimitExceeded, match=r"at most 2 classes"):
        of_labels(definition, "a", "b", "c")
    with pytest.raises(LimitExceeded, match=r"at most 2 classes"):
        of_labels(definition, "a", "b") + of_labels(definition, "c")


def test_partials_of_two_definitions_are_not_added_and_not_read() -> None:
    one, other = (definition_of("all", classes=ClassDefinition((), None, most)) for most in (2, 3))
    with pytest.raises(DefinitionMismatch, match="same definition"):
        of_labels(one, "a") + of_labels(other, "a")
    with pytest.raises(DefinitionMismatch, match="computed with"):
        read_partial(write_partial(of_labels(one, "a")), other)
    with pytest.raises(WireError, match="expected partial"):
        read_partial(b"nothing", one)


def test_the_first_reason_of_a_kind_is_the_same_whoever_came_first() -> None:
    definition = definition_of("all", classes=ClassDefinition(("UP", "DOWN"), None))
    parts = [Partial.zero(definition).with_refused([("unread", f"part-{part}: no number")]) for part in (3, 1, 2)]
    total = parts[0] + parts[1] + parts[2]
    assert total.examples == {"unread": "part-1: no number"}
    assert total.refusals == {"unread": 3}
