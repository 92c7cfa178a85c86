"""The rule of acceptance by hand, one log of deltas at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import (
    Claim,
    Delta,
    Rebuild,
    Source,
    SourceOrder,
    SourceState,
    Tile,
    Verdict,
    accept,
    check_declared,
)
from deltaplane.log.merger import Merger
from deltaplane.stream.class_definition import ClassDefinition
from strategies_streams import definition_of

SOURCE = Source("here", 3)
FINGERPRINT = b"f" * 16


def sums(*values: float) -> Statistics:
    return Statistics(2, {(0, "x"): Moments.of_rows(np.array(values).reshape(-1, 1))})


def claim(writer: str) -> Claim:
    return Claim(SOURCE, writer, FINGERPRINT)


def delta(writer: str, sequence: int, begin: int, end: int, change: Statistics | None = None) -> Delta:
    change = sums(*range(begin, end)) if change is None else change
    return Delta(SOURCE, writer, FINGERPRINT, Tile(sequence, begin, end, 0, 0), Rebuild(slots_to=end), change)


BIG = Confusion({(f"{at:0256}", f"{at % 7:0256}"): 1 for at in range(130_000)})
"""More pairs of classes than a message holds."""


def follow(*records: Claim | Delta) -> tuple[SourceState, list[str]]:
    """The state after some records, and what the rule said of each."""
    state, verdicts = SourceState(SOURCE, Statistics(2)), []
    for record in records:
        state, verdict = accept(state, record, FINGERPRINT)
        verdicts.append(str(verdict))
    return state, verdicts


def test_tiles_of_the_owner_add_up() -> None:
    state, verdicts = follow(claim("a"), delta("a", 0, 0, 2), delta("a", 1, 2, 5))
    assert verdicts == ["claimed", "accepted", "accepted"]
    assert state.statistics == sums(0, 1, 2, 3, 4)
    assert (state.sequence, state.samples_position, state.rebuild.slots_to) == (2, 5, 5)


def test_nobody_is_heard_before_a_claim() -> None:
    assert follow(delta("a", 0, 0, 2))[1] == ["stale writer"]
    assert follow(delta("", 0, 0, 2))[1] == ["stale writer"]


def test_a_claim_shuts_out_the_writer_before_even_where_its_tile_would_fit() -> None:
    state, verdicts = follow(claim("a"), delta("a", 0, 0, 2), claim("b"), delta("a", 1, 2, 3), delta("b", 1, 2, 4))
    assert verdicts == ["claimed", "accepted", "claimed", "stale writer", "accepted"]
    assert state.statistics == sums(0, 1, 2, 3)


def test_a_tile_that_comes_twice_counts_once_even_where_it_covers_nothing() -> None:
    empty = delta("a", 1, 2, 2, Statistics(2) - sums(0))
    state, verdicts = follow(claim("a"), delta("a", 0, 0, 2), empty, empty, delta("a", 0, 0, 2))
    assert verdicts == ["claimed", "accepted", "accepted", "repeat", "repeat"]
    assert state.statistics == sums(1)
    assert state.dropped == {"repeat": 2}


def test_a_gap_is_never_passed_over_neither_in_number_nor_in_position() -> None:
    _, verdicts = follow(claim("a"), delta("a", 1, 0, 2), delta("a", 0, 1, 2), delta("a", 0, 0, 1))
    assert verdicts == ["claimed", "gap", "gap", "accepted"]


def test_retirements_tile_like_samples() -> None:
    first = replace(delta("a", 0, 0, 2), tile=Tile(0, 0, 2, 0, 4))
    state, verdicts = follow(claim("a"), first, delta("a", 1, 2, 3), replace(first, tile=Tile(1, 2, 2, 4, 5)))
    assert verdicts == ["claimed", "accepted", "gap", "accepted"]
    assert state.retirements_position == 5


def test_scores_and_outcomes_of_accepted_tiles_alone_are_added() -> None:
    scored = replace(delta("a", 0, 0, 2), scores=Confusion({("x", "y"): 2}), counts={"applied": 2, "late": 1})
    again = replace(scored, tile=Tile(1, 2, 4, 0, 0), counts={"applied": 1})
    state, _ = follow(claim("a"), scored, scored, again)
    assert state.scores.counts == {("x", "y"): 4}
    assert state.counts == {"applied": 3, "late": 1}


@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        (replace(claim("a"), stream_fingerprint=b"g" * 16), DefinitionMismatch, "same definition"),
        (replace(delta("a", 0, 0, 1), stream_fingerprint=b"g" * 16), DefinitionMismatch, "same definition"),
        (delta("a", 0, 0, 1, Statistics(2) - sums(7)), StateMismatch, "rebuild from the log"),
        (delta("a", 0, 0, -1, Statistics(2)), StateMismatch, "ends at or after its beginning"),
        (replace(delta("a", 0, 0, 1), labels=("x", "x")), StateMismatch, "got 2, of which 1 differ"),
        (replace(delta("a", 0, 0, 1), labels=tuple(map(str, range(1025)))), StateMismatch, "up to 1024 labels"),
        (replace(delta("a", 0, 0, 1), counts=dict.fromkeys(map(str, range(101)), 1)), StateMismatch, "100 outcomes"),
        (replace(delta("a", 0, 0, 1), counts={"applied": -1}), StateMismatch, "expected counts from 0"),
        (replace(delta("a", 0, 0, 1), scores=BIG), StateMismatch, "scores that fit a message, got 1 Gram matrices"),
    ],
)
def test_what_no_reader_may_take_is_refused_by_name(record: Claim | Delta, error: type[Exception], words: str) -> None:
    state, _ = follow(claim("a"))
    with pytest.raises(error, match=words):
        accept(state, record, FINGERPRINT)


def test_a_change_of_another_class_than_was_there_leaves_the_others_alone() -> None:
    other = Statistics(2, {(0, "y"): Moments.of_rows(np.array([[9.0]]))})
    state, _ = follow(claim("a"), delta("a", 0, 0, 2), delta("a", 1, 2, 3, other))
    assert state.statistics.counts() == {"x": 2, "y": 1}
    state, verdict = accept(state, delta("a", 2, 3, 4, Statistics(2) - other), FINGERPRINT)
    assert verdict is Verdict.ACCEPTED
    assert state.statistics == sums(0, 1)


def test_labels_add_up_in_their_order_and_one_admitted_twice_is_refused() -> None:
    first, second = (
        replace(delta("a", at, at, at + 1), labels=labels) for at, labels in enumerate([("z", "b"), ("a",)])
    )
    state, _ = follow(claim("a"), first, second)
    assert state.labels == ("z", "b", "a")
    with pytest.raises(StateMismatch, match="each admitted once, got 4, of which 3 differ"):
        accept(state, replace(delta("a", 2, 2, 3), labels=("b",)), FINGERPRINT)
    removed, _ = accept(
        state, SourceOrder(SOURCE, removed=True, reason="", stream_fingerprint=FINGERPRINT), FINGERPRINT
    )
    assert removed.labels == (), "a source that comes in again begins anew"


def test_classes_that_a_definition_does_not_declare_are_refused_and_touch_nothing() -> None:
    closed = replace(definition_of("all"), classes=ClassDefinition(("a", "b"), "a"))
    merger = Merger(closed)
    merger.apply(Claim(SOURCE, "w", closed.stream_fingerprint), 0)
    moments = Moments.of_rows(np.array([[1]], dtype=np.int32))
    tile = Tile(0, 0, 1, 0, 0)

    def delta_of(label: str, scored: str = "a") -> Delta:
        change = Statistics(2, {(0, label): moments})
        return Delta(SOURCE, "w", closed.stream_fingerprint, tile, Rebuild(), change, Confusion({(scored, "b"): 1}))

    for forged in (delta_of("c"), delta_of("a", "c"), replace(delta_of("a"), labels=("a",))):
        with pytest.raises(StateMismatch, match="expected the classes of the definition"):
            merger.apply(forged, 1)
        assert not merger.statistics
        check_declared(definition_of("all"), forged)
    assert merger.apply(delta_of("b"), 2) is Verdict.ACCEPTED
    check_declared(closed, merger.state(SOURCE))
    with pytest.raises(StateMismatch, match="checkpoint of source here/3: expected the classes of the definition"):
        check_declared(closed, SourceState(SOURCE, Statistics(2, {(0, "c"): moments})))


def test_windows_that_a_definition_does_not_have_are_refused_and_touch_nothing() -> None:
    definition, moments = definition_of("all"), Moments.of_rows(np.array([[1]], dtype=np.int32))
    merger = Merger(definition)
    merger.apply(Claim(SOURCE, "w", definition.stream_fingerprint), 0)
    change = Statistics(2, {(0, "a"): moments, (1, "a"): moments})
    with pytest.raises(StateMismatch, match=r"expected statistics of 1 windows, got others \(\[1\]\)"):
        merger.apply(Delta(SOURCE, "w", definition.stream_fingerprint, Tile(0, 0, 1, 0, 0), Rebuild(), change), 1)
    assert not merger.statistics
    check_declared(definition_of("3", "5"), SourceState(SOURCE, change))
    with pytest.raises(StateMismatch, match="checkpoint of source here/3: expected statistics of 1 windows"):
        check_declared(definition, SourceState(SOURCE, change))
