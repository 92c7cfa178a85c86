"""The state of a partition is a function of what was read, however it was read, and the reference knows which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.exact.statistics import Statistics
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.partition import Step
from deltaplane.window.sliding import NO_WATERMARK
from strategies_streams import (
    Follower,
    Move,
    Row,
    Script,
    definitions,
    live_ids,
    moves,
    rows,
    rows_by,
    samples_of,
    scripts,
    told,
)


@pytest.fixture(
    params=["as few sums are known as of so small batches", "all sums are known"], scope="module", autouse=True
)
def known(request: pytest.FixtureRequest) -> Iterator[None]:
    """What sums are known changes nothing. Of rows as small as these are, few are kept by themselves."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "all sums are known":
            patch.setattr(limits, "KEPT_SUMS_SHARE", 1e9)
        yield


@given(scripts())
def test_at_every_step_the_statistics_are_those_of_the_reference_bit_for_bit(script: Script) -> None:
    follower = Follower(script.definition, script.records, script.retired)
    summed = Statistics(script.definition.dimension)
    watermark = NO_WATERMARK
    for move in script.moves:
        step = follower.move(move)
        summed = summed + step.change
        watermark = max(watermark, move.watermark)
        reference = told(script, follower.samples_at, follower.retirements_at, watermark)
        assert follower.partition.statistics == summed == reference.statistics()
        longest = follower.partition._edges.longest
        live = [row.id for row in reference.live(longest)]
        assert live_ids(follower.partition) == live
        assert rows_by(follower.counts) == len(live)


@given(scripts(), st.data())
def test_any_interleaving_of_the_same_two_logs_in_any_batches_ends_in_the_same_statistics(
    script: Script, data: st.DataObject
) -> None:
    one, other = (Follower(script.definition, script.records, script.retired) for _ in range(2))
    for move in script.moves:
        one.move(move)
    for move in data.draw(moves(len(script.records), len(script.retired))):
        other.move(move)
    for follower in (one, other):
        follower.move(Move(0, 0, 40))
    assert one.partition.statistics == other.partition.statistics
    assert live_ids(one.partition) == live_ids(other.partition)


@given(scripts())
def test_what_becomes_of_a_sample_or_retirement_does_not_depend_on_the_batch_it_came_in(script: Script) -> None:
    batched, single = (Follower(script.definition, script.records, script.retired) for _ in range(2))
    for move in script.moves:
        whole = _said(batched, move)
        alone = [_said(single, Move(0, 0, move.watermark))]
        alone += [_said(single, Move(1, 0)) for _ in range(move.records)]
        alone += [_said(single, Move(0, 1)) for _ in range(move.retirements)]
        assert whole == sum(alone, start=Counter())
        assert batched.counts == single.counts


def _said(follower: Follower, move: Move) -> Counter[tuple[str, int, str]]:
    """Everything that is said of the samples and retirements of a move, by slot and by offset."""
    first_slot = follower.partition.slots
    step = follower.move(move)
    samples = [("sample", first_slot + note.row, str(note.outcome)) for note in step.sample_notes]
    receipts = [(note.id, note.offset, str(note.outcome)) for note in step.retirement_notes]
    return Counter(samples + receipts)


@given(scripts(), st.data())
def test_a_worker_that_crashes_at_any_step_finds_the_same_state_and_says_the_same_afterwards(
    script: Script, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "EXPIRED_ROWS_REMEMBERED", data.draw(st.sampled_from([0, 1, 3, 1000])))
        patch.setattr(limits, "RETIRED_IDS", data.draw(st.sampled_from([1, 2, 3, 1000])))
        crash_before = data.draw(st.integers(0, len(script.moves)))
        steady = Follower(script.definition, script.records, script.retired)
        for move in script.moves[:crash_before]:
            steady.move(move)
        reborn = steady.reborn(steady.rebuild().memory_from, chunk=data.draw(st.integers(1, 4)))
        assert reborn.rebuild() == steady.rebuild()
        assert live_ids(reborn.partition) == live_ids(steady.partition)
        for move in script.moves[crash_before:]:
            ours, theirs = steady.move(move), reborn.move(move)
            assert ours == theirs
            assert reborn.rebuild() == steady.rebuild()


@given(scripts(), st.data())
def test_a_worker_that_finds_only_the_rows_inside_the_window_makes_the_same_changes(
    script: Script, data: st.DataObject
) -> None:
    crash_before = data.draw(st.integers(0, len(script.moves)))
    steady = Follower(script.definition, script.records, script.retired)
    for move in script.moves[:crash_before]:
        steady.move(move)
    rebuild = steady.rebuild()
    reborn = steady.reborn(data.draw(st.integers(rebuild.memory_from, rebuild.window_from)))
    for move in script.moves[crash_before:]:
        ours, theirs = steady.move(move), reborn.move(move)
        assert ours.change == theirs.change
        assert _rows_moved(ours) == _rows_moved(theirs)


def _rows_moved(step: Step) -> tuple[int, Counter[str]]:
    """What a step did to the rows; only the names of retirements without effect may differ."""
    kept = ("applied", "duplicate", "replaced", "late", "expired", "withdrawn")
    return rows_by(step.counts), Counter({name: step.counts[name] for name in kept})


@given(scripts(), st.integers(1, 4))
def test_a_retirement_that_is_forgotten_has_no_row_in_any_window(script: Script, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "RETIRED_IDS", limit)
        follower = Follower(script.definition, script.records, script.retired)
        for move in script.moves:
            before, retirements_before = len(follower.partition._retirements), follower.retirements_at
            follower.move(move)
            # The id may be live again, under a sample that came after it was forgotten, but nothing was left behind.
            assert follower.partition.statistics == _counted(follower)
            memory = follower.partition._retirements
            window_from = follower.rebuild().retirements_window_from
            end = script.retired[window_from : follower.retirements_at]
            # What is remembered is the end of the log, whatever of it is kept: an id that is there is retired.
            assert set(memory.ids()) == set(end)
            assert all(memory.first(sample_id) == window_from + end.index(sample_id) for sample_id in end)
            last = list(dict.fromkeys(reversed(script.retired[: follower.retirements_at])))[:limit]
            assert set(last) <= set(end)
            # Only retirements add to what is remembered, so that is when it is cut down to what must be kept.
            held = memory.oldest_ids & set(_ids_inside(follower))
            more_came = follower.retirements_at > retirements_before
            assert len(memory) <= (2 * limit if more_came else max(before, 2 * limit)) or (more_came and held)


@given(scripts(), st.data())
def test_repeats_change_nothing_however_many_there_are(script: Script, data: st.DataObject) -> None:
    # As many ids are remembered as are retired, and no more: whoever counted a repeat as another would forget one.
    ids = tuple(dict.fromkeys(script.retired))
    repeats = data.draw(st.lists(st.sampled_from(ids), max_size=40)) if ids else []
    retired, moves = (*ids, *repeats, *repeats[:1]), (*script.moves, Move(0, len(ids) + len(repeats) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "RETIRED_IDS", max(1, len(ids)))
        follower = Follower(script.definition, script.records, retired)
        watermark = NO_WATERMARK
        for move in data.draw(st.permutations(moves)):
            left = len(script.records) - follower.samples_at, len(retired) - follower.retirements_at
            follower.move(Move(min(move.records, left[0]), min(move.retirements, left[1]), move.watermark))
            watermark = max(watermark, move.watermark)
            reference = Reference(script.definition)
            reference.add(0, samples_of(script.records[: follower.samples_at], 0, len(script.definition.features)))
            for sample_id in retired[: follower.retirements_at]:
                reference.retire(sample_id)
            reference.watermark = max(reference.watermark, watermark)
            assert follower.partition.statistics == reference.statistics()
            assert len(follower.partition._retirements) <= len(ids)


def _ids_inside(follower: Follower) -> list[str]:
    """The ids of all slots from the oldest inside a window on."""
    buffer = follower.partition._buffer
    oldest = follower.partition._edges.oldest_inside(buffer)
    return [buffer.id(slot) for slot in range(oldest, buffer.next)]


def _counted(follower: Follower) -> Statistics:
    """The statistics of the rows that are current and inside, formed anew."""
    partition = follower.partition
    held = np.arange(partition._buffer.first, partition._buffer.next, dtype=np.int64)
    held = held[partition._buffer.current(held)]
    return partition._sums.of(held)


@given(definitions(), st.lists(st.lists(rows(), min_size=1, max_size=3).map(tuple), max_size=30))
def test_a_reference_that_lets_go_of_what_cannot_be_live_says_the_same(
    definition: StreamDefinition, records: list[tuple[Row, ...]]
) -> None:
    pruned, whole = Reference(definition), Reference(definition)
    pruned._prune_at, whole._prune_at = 1, 2**62
    for offset, record in enumerate(records):
        for reference in (pruned, whole):
            reference.add(0, samples_of([record], offset, 2))
        pruned._prune_at = 1
        assert pruned.statistics() == whole.statistics()
