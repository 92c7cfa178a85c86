"""A whole source leaves the stream exactly, is refused when it comes back unasked, and may be let in again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane.errors import SourceRemoved
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
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
    still_waiting,
)
from deltaplane.log.merger import Merger
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.wire import read_claim_or_delta, write_source_order
from deltaplane_services.processors.worker_processor import WorkerProcessor

NORTH, SOUTH = Source("north", 0), Source("south", 0)


@pytest.fixture
def definition() -> StreamDefinition:
    return StreamDefinition(
        "stream", ("a", "b"), Grid(np.ones(2), np.zeros(2)), NestedWindows((Window("all"),)), SolverOptions(C=10.0)
    )


def rows_of(seed: int, label: str) -> Statistics:
    centre = 10 if label == "y" else -10
    quantized = np.random.default_rng(seed).integers(centre - 8, centre + 8, size=(20, 2))
    return Statistics(3, {(0, label): Moments.of_rows(quantized)})


def claim(definition: StreamDefinition, source: Source, writer: str) -> Claim:
    return Claim(source, writer, definition.stream_fingerprint)


def delta(definition: StreamDefinition, source: Source, writer: str, sequence: int, change: Statistics) -> Delta:
    tile = Tile(sequence, 10 * sequence, 10 * sequence + 10, 0, 0)
    rebuild = Rebuild(slots_to=10 * sequence + 10)
    return Delta(source, writer, definition.stream_fingerprint, tile, rebuild, change, counts={"applied": 20})


def order(definition: StreamDefinition, source: Source, *, removed: bool) -> SourceOrder:
    return SourceOrder(source, removed, "a test", definition.stream_fingerprint)


def merger_of_two(definition: StreamDefinition) -> Merger:
    merger = Merger(definition)
    offset = 0
    for seed, source in enumerate((NORTH, SOUTH)):
        merger.apply(claim(definition, source, f"w-{source.site}"), offset)
        for sequence, label in enumerate(("x", "y")):
            offset += 1
            change = rows_of(seed * 10 + sequence, label)
            assert (
                merger.apply(delta(definition, source, f"w-{source.site}", sequence, change), offset)
                is Verdict.ACCEPTED
            )
    return merger


def test_a_removed_source_leaves_what_the_others_alone_would_have_left(definition: StreamDefinition) -> None:
    merger = merger_of_two(definition)
    assert merger.apply(order(definition, NORTH, removed=True), 9) is Verdict.REMOVED
    alone = rows_of(10, "x") + rows_of(11, "y")
    assert merger.statistics == alone
    model = merger.publish(0)
    assert model is not None
    assert model.digest == alone.digest(definition.data_fingerprint)
    assert {position.source: position.removed for position in model.positions} == {NORTH: True, SOUTH: False}


def test_a_removed_source_is_refused_when_it_comes_back_unasked(definition: StreamDefinition) -> None:
    merger = merger_of_two(definition)
    merger.apply(order(definition, NORTH, removed=True))
    before = merger.statistics
    stale = delta(definition, NORTH, "w-north", 2, rows_of(50, "x"))
    assert merger.apply(stale) is Verdict.BARRED
    assert merger.apply(claim(definition, NORTH, "again")) is Verdict.BARRED
    sequence = merger.state(NORTH).sequence
    assert merger.apply(delta(definition, NORTH, "again", sequence, rows_of(51, "x"))) is Verdict.BARRED
    assert merger.statistics == before
    assert merger.state(NORTH).dropped == {"barred": 3}
    with pytest.raises(SourceRemoved, match="source admit north/0"):
        WorkerProcessor(definition, NORTH, "again").restore(merger.state(NORTH), 3)


def test_an_admitted_source_begins_anew_and_no_old_delta_fits(definition: StreamDefinition) -> None:
    merger = merger_of_two(definition)
    merger.apply(order(definition, NORTH, removed=True))
    assert merger.apply(order(definition, NORTH, removed=False)) is Verdict.ADMITTED
    state = merger.state(NORTH)
    assert (state.samples_position, state.retirements_position, state.removed) == (0, 0, False)
    assert merger.apply(delta(definition, NORTH, "w-north", 2, rows_of(50, "x"))) is Verdict.STALE_WRITER
    processor = WorkerProcessor(definition, NORTH, "again")
    merger.apply(claim(definition, NORTH, "again"))
    resume = processor.restore(merger.state(NORTH), 9)
    assert (resume.samples, resume.retirements) == (0, 0)
    assert processor.serving
    again = replace(delta(definition, NORTH, "again", 0, rows_of(0, "x")), tile=Tile(state.sequence, 0, 10, 0, 0))
    assert merger.apply(again) is Verdict.ACCEPTED
    assert merger.statistics == rows_of(10, "x") + rows_of(11, "y") + rows_of(0, "x")


def test_the_same_order_twice_changes_nothing_and_is_shown_in_a_model_all_the_same(
    definition: StreamDefinition,
) -> None:
    merger = merger_of_two(definition)
    merger.apply(order(definition, NORTH, removed=True), 9)
    merger.publish(0)
    state = merger.state(NORTH)
    assert merger.apply(order(definition, NORTH, removed=True), 12) is Verdict.REMOVED
    assert merger.state(NORTH) == state
    model = merger.publish(0)
    assert model is not None
    assert {position.source: position.read_to for position in model.positions}[NORTH] == 13


def test_a_source_may_be_barred_before_it_was_ever_heard_of(definition: StreamDefinition) -> None:
    unknown = SourceState(NORTH, Statistics(3))
    removed, verdict = accept(unknown, order(definition, NORTH, removed=True), definition.stream_fingerprint)
    assert verdict is Verdict.REMOVED
    after, verdict = accept(removed, claim(definition, NORTH, "w"), definition.stream_fingerprint)
    assert verdict is Verdict.BARRED
    assert after.owner == ""


def test_a_source_order_comes_back_from_the_wire_as_it_was(definition: StreamDefinition) -> None:
    for removed in (True, False):
        said = order(definition, SOUTH, removed=removed)
        assert read_claim_or_delta(write_source_order(said), 3) == said


def test_a_worker_is_fenced_only_by_a_claim_that_the_merger_read_after_its_own(definition: StreamDefinition) -> None:
    merger = Merger(definition)
    merger.apply(claim(definition, NORTH, "old"), 4)
    model = merger.publish(0)
    assert model is not None
    processor = WorkerProcessor(definition, NORTH, "mine")
    processor.restore(replace(merger.state(NORTH), owner="mine"), claimed_at=7)
    # The merger has not read the claim yet: the owner that the model shows is the one before.
    processor.see_model(model, 0)
    assert not processor.fenced
    merger.apply(claim(definition, NORTH, "mine"), 7)
    model = merger.publish(0)
    assert model is not None
    processor.see_model(model, 0)
    assert not processor.fenced
    merger.apply(claim(definition, NORTH, "late"), 8)
    model = merger.publish(0)
    assert model is not None
    processor.see_model(model, 0)
    assert processor.fenced


def test_retirements_that_waited_in_a_removed_source_wait_no_more_and_begin_anew_with_it(
    definition: StreamDefinition,
) -> None:
    merger = merger_of_two(definition)
    waiting = delta(definition, NORTH, "w-north", 2, Statistics(3))
    waiting = replace(waiting, counts={"retirements waiting": 3, "annihilated": 1})
    merger.apply(waiting)
    merger.apply(delta(definition, SOUTH, "w-south", 2, Statistics(3)))
    assert still_waiting(merger.totals) == 2
    for _ in range(2):
        merger.apply(order(definition, NORTH, removed=True))
        assert still_waiting(merger.totals) == 0
    merger.apply(order(definition, NORTH, removed=False))
    merger.apply(claim(definition, NORTH, "again"))
    # It reads from the beginning: what waited waits again.
    begun = delta(definition, NORTH, "again", merger.state(NORTH).sequence, Statistics(3))
    begun = replace(begun, tile=replace(begun.tile, samples_from=0), counts={"retirements waiting": 2})
    assert merger.apply(begun) is Verdict.ACCEPTED
    assert still_waiting(merger.totals) == 2
    met = replace(begun, tile=Tile(begun.tile.sequence + 1, begun.tile.samples_to, 99, 0, 0), counts={"annihilated": 2})
    assert merger.apply(met) is Verdict.ACCEPTED
    assert still_waiting(merger.totals) == 0
    again = Merger(definition)
    again.restore(merger.sources(), None)
    assert +again.totals == +merger.totals
