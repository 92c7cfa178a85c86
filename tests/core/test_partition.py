"""One partition by hand: what counts, what is said, and what an outlier, a correction and a retirement leave behind."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.errors import StateMismatch
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import Window
from deltaplane.stream.sample import Retirement
from deltaplane.window.partition import Partition, Step
from deltaplane.window.sliding import NO_WATERMARK
from strategies_streams import (
    Follower,
    Move,
    Row,
    admitted,
    definition_of,
    live_ids,
    retirements_of,
    rows_by,
    samples_of,
)


class Stream:
    """A partition that is told rows and retirements one step at a time, and keeps count."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.partition = Partition(definition, 0)
        self.counts: Counter[str] = Counter()
        self.records = 0
        self.asked = 0

    def take(self, *rows: Row, watermark: int = NO_WATERMARK) -> Step:
        """One step of samples, one record each."""
        return self.step(rows, (), watermark)

    def retire(self, *ids: str) -> Step:
        """One step of retirements."""
        return self.step((), ids)

    def step(self, rows: tuple[Row, ...], ids: tuple[str, ...], watermark: int = NO_WATERMARK) -> Step:
        """One step of both."""
        samples = admitted(self.definition, [(row,) for row in rows], self.records)
        step = self.partition.step(samples, retirements_of(ids, self.asked), watermark)
        self.records += len(rows)
        self.asked += len(ids)
        self.counts.update(step.counts)
        longest = self.partition._edges.longest
        assert rows_by(self.counts) == sum(self.partition.statistics.counts(longest).values())
        return step

    @property
    def live(self) -> list[str]:
        """Ids in the longest window, oldest first."""
        return live_ids(self.partition)


def said(step: Step) -> list[str]:
    """Outcomes of the samples that were not simply applied."""
    return [str(note.outcome) for note in step.sample_notes]


def answers(step: Step) -> list[tuple[str, int, str]]:
    """(id, offset, outcome) of retirements."""
    return [(note.id, note.offset, str(note.outcome)) for note in step.retirement_notes]


def sums(*rows: Row, windows: int = 1) -> Statistics:
    """The statistics of some rows, formed anew, in each of so many windows."""
    moments = {}
    for label in {row.label for row in rows}:
        quantized = np.array([row.values for row in rows if row.label == label])
        moments.update({(window, label): Moments.of_rows(quantized) for window in range(windows)})
    return Statistics(len(rows[0].values) + 1, moments)


A, B, C, D = (Row(name, "xy"[at % 2], (float(3 + at),), time=at) for at, name in enumerate("abcd"))


def test_a_count_window_holds_the_last_rows_and_says_how_many_expired() -> None:
    stream = Stream(definition_of("2"))
    step = stream.take(A, B, C)
    assert stream.live == ["b", "c"]
    assert step.counts == {"applied": 3, "expired": 1}
    assert stream.partition.statistics == step.change == sums(B, C)


def test_a_time_window_holds_what_is_above_the_watermark_in_whatever_order_it_came() -> None:
    #  came   a5  b20  c12  d31
    #  (21, 31]             only d
    stream = Stream(definition_of("10ms"))
    stream.take(replace(A, time=5), replace(B, time=20), replace(C, time=12))
    assert stream.live == ["b", "c"]
    step = stream.take(replace(D, time=31))
    assert stream.live == ["d"]
    assert step.counts == {"applied": 1, "expired": 2}


def test_the_watermark_of_another_partition_expires_rows_here() -> None:
    stream = Stream(definition_of("10ms"))
    stream.take(replace(A, time=5), replace(B, time=12))
    step = stream.take(watermark=18)
    assert stream.live == ["b"]
    assert step.change == sums(A) - sums(A) - sums(replace(A, time=5))
    assert stream.partition.watermark == 18


def test_a_sample_outside_every_window_on_arrival_is_late_and_is_never_taken_out_again() -> None:
    stream = Stream(definition_of("10ms"))
    stream.take(replace(A, time=50))
    step = stream.take(replace(B, time=40), replace(C, time=41))
    assert said(step) == ["late"]
    assert stream.live == ["a", "c"]
    stream.take(watermark=1000)
    assert stream.counts == {"applied": 2, "late": 1, "expired": 2}
    assert not stream.partition.statistics


def test_a_sample_is_late_by_what_came_before_it_and_not_by_what_came_after() -> None:
    stream = Stream(definition_of("10ms"))
    step = stream.take(replace(A, time=5), replace(B, time=50))
    assert said(step) == []
    assert step.counts == {"applied": 2, "expired": 1}


def test_a_ladder_counts_every_row_in_each_window_that_holds_it() -> None:
    stream = Stream(definition_of("1", "2", "all"))
    stream.take(A, B, C)
    partition = stream.partition
    assert [partition.statistics.counts(window) for window in range(3)] == [
        {"x": 1},
        {"x": 1, "y": 1},
        {"x": 2, "y": 1},
    ]
    stream.retire("b")
    assert [partition.statistics.counts(window) for window in range(3)] == [{"x": 1}, {"x": 1}, {"x": 2}]


def test_panes_leave_as_a_whole_even_where_a_row_of_theirs_was_retired_meanwhile() -> None:
    #  a b | c d | e       the last two in panes of two: three or so are held
    stream = Stream(definition_of("2", pane_rows=2))
    stream.take(A, B, C)
    assert stream.live == ["a", "b", "c"]
    stream.retire("a")
    step = stream.take(D)
    assert stream.live == ["c", "d"]
    assert step.counts == {"applied": 1, "expired": 1}


# Ids that come again -------------------------------------------------------------------------------------------------


def test_a_duplicate_changes_nothing_but_its_place() -> None:
    stream = Stream(definition_of("2"))
    stream.take(A, B)
    step = stream.take(A)
    assert said(step) == ["duplicate"]
    assert not step.change
    assert stream.live == ["b", "a"]
    stream.take(C)
    assert stream.live == ["a", "c"]


def test_a_duplicate_in_the_same_batch_counts_once() -> None:
    stream = Stream(definition_of("all"))
    step = stream.take(A, B, A, A)
    assert said(step) == ["duplicate", "duplicate"]
    assert stream.partition.statistics == sums(A, B)
    assert stream.live == ["b", "a"]


def test_a_duplicate_of_a_row_about_to_expire_keeps_it_and_one_slot_later_it_is_new() -> None:
    kept, gone = Stream(definition_of("2")), Stream(definition_of("2"))
    kept.take(A, B)
    assert said(kept.take(A)) == ["duplicate"]
    gone.take(A, B, C)
    assert said(gone.take(A)) == []
    for batch in ((A, B, A), (A, B, C, A)):
        at_once = Stream(definition_of("2"))
        at_once.take(*batch)
        step_by_step = kept if len(batch) == 3 else gone
        assert at_once.counts == step_by_step.counts
        assert at_once.partition.statistics == step_by_step.partition.statistics


@pytest.mark.parametrize("correction", [replace(A, label="y"), replace(A, values=(8.0,)), replace(A, time=9)])
def test_a_correction_takes_the_place_of_the_older_version(correction: Row) -> None:
    stream = Stream(definition_of("all"))
    stream.take(A, B)
    step = stream.take(correction)
    assert said(step) == ["replaced"]
    assert step.counts == {"applied": 1, "replaced": 1}
    assert stream.partition.statistics == sums(B, correction)


def test_a_late_correction_still_takes_out_the_older_version() -> None:
    stream = Stream(definition_of("10ms"))
    stream.take(replace(A, time=95), replace(B, time=100))
    step = stream.take(replace(A, label="y", time=3))
    assert said(step) == ["late"]
    assert step.counts == {"late": 1, "withdrawn": 1}
    assert stream.live == ["b"]


def test_a_correction_of_a_row_that_has_left_the_short_window_comes_into_it_again() -> None:
    stream = Stream(definition_of("1", "3"))
    stream.take(A, B)
    stream.take(A)
    assert stream.partition.statistics.counts(0) == {"x": 1}
    assert stream.partition.statistics.counts(1) == {"x": 1, "y": 1}


# Retirement ----------------------------------------------------------------------------------------------------------


def test_a_retired_row_leaves_the_state_it_would_have_left_had_it_never_come() -> None:
    stream = Stream(definition_of("all"))
    stream.take(A, B)
    step = stream.retire("b")
    assert answers(step) == [("b", 0, "retired")]
    assert stream.partition.statistics == sums(A)
    assert stream.live == ["a"]


def test_a_retirement_that_comes_first_waits_and_takes_out_its_sample_on_arrival() -> None:
    stream = Stream(definition_of("all"))
    assert answers(stream.retire("b")) == [("b", 0, "waiting")]
    step = stream.take(A, B)
    assert said(step) == ["annihilated"]
    assert answers(step) == [("b", 0, "retired")]
    assert stream.partition.statistics == sums(A)


def test_the_first_of_several_waiting_retirements_has_the_answer_when_the_sample_comes() -> None:
    stream = Stream(definition_of("all"))
    assert answers(stream.retire("b", "b")) == [("b", 0, "waiting"), ("b", 1, "duplicate")]
    assert answers(stream.take(B)) == [("b", 0, "retired")]


def test_a_retirement_repeated_or_of_what_has_expired_or_never_came_changes_nothing() -> None:
    stream = Stream(definition_of("1"))
    stream.take(A, B)
    step = stream.retire("a", "b", "b", "nobody")
    assert [outcome for _, _, outcome in answers(step)] == ["expired", "retired", "duplicate", "waiting"]
    assert step.change == Statistics(2) - sums(B)


def test_a_retirement_of_a_late_sample_finds_it_expired() -> None:
    stream = Stream(definition_of("10ms"))
    stream.take(replace(A, time=50), replace(B, time=3))
    assert answers(stream.retire("b")) == [("b", 0, "expired")]


def test_a_retired_id_that_comes_again_is_refused_by_name_however_different_its_content() -> None:
    stream = Stream(definition_of("all"))
    stream.take(A)
    stream.retire("a")
    step = stream.take(replace(A, values=(99.0,)), A)
    assert said(step) == ["retired id", "retired id"]
    assert not stream.partition.statistics


def test_a_retired_row_keeps_its_slot_so_that_expiry_depends_on_samples_alone() -> None:
    stream = Stream(definition_of("2"))
    stream.take(A, B)
    stream.retire("b")
    stream.take(C)
    assert stream.live == ["c"]


def test_samples_of_a_step_come_before_its_retirements_and_the_digests_say_what_those_did() -> None:
    stream = Stream(definition_of("all"))
    fingerprint = stream.definition.data_fingerprint
    step = stream.step((A, B), ("b",))
    assert answers(step) == [("b", 0, "retired")]
    assert step.digest_before == sums(A, B).digest(fingerprint)
    assert step.digest_after == sums(A).digest(fingerprint)
    assert stream.retire("b").digest_before == step.digest_after
    assert stream.take(C).digest_before is None


def test_retirements_are_forgotten_above_the_limit_but_never_one_of_a_row_in_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RETIRED_IDS", 2)
    stream = Stream(definition_of("3"))
    stream.take(A, B, C)
    step = stream.retire("a", "n1", "n2", "n3", "n4", "n5", "n6")
    assert step.counts["retirements forgotten"] == 0
    assert stream.partition.retirements_window_from(stream.asked) == 0
    assert said(stream.take(A)) == ["retired id"]
    # Both rows of a leave the window, and with the next retirement all can go but the last two ids and the next two.
    stream.take(D, B, C)
    step = stream.retire("n7")
    assert step.counts["retirements forgotten"] == 4
    assert stream.partition.retirements_window_from(stream.asked) == 4
    assert said(stream.take(Row("n4"))) == ["annihilated"]
    assert said(stream.take(Row("n3"))) == []


def test_the_last_ids_up_to_the_limit_are_remembered_and_fewer_than_twice_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RETIRED_IDS", 3)
    stream = Stream(definition_of("3"))
    for at in range(20):
        stream.retire(f"n{at}")
        remembered = set(stream.partition._retirements.ids())
        assert remembered >= {f"n{before}" for before in range(max(0, at - 2), at + 1)}
        assert len(stream.partition._retirements) == len(remembered) <= 6


def test_an_id_retired_again_stays_retired_when_its_first_retirement_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RETIRED_IDS", 2)
    stream = Stream(definition_of("3"))
    step = stream.retire("n1", "n2", "n3", "n1", "n4")
    assert step.counts["retirements forgotten"] == 1
    assert stream.partition.retirements_window_from(stream.asked) == 2
    assert said(stream.take(Row("n2"))) == []
    assert answers(stream.take(Row("n1"))) == [("n1", 3, "retired")]


def test_repeats_of_one_id_push_no_other_out_and_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RETIRED_IDS", 2)
    stream = Stream(definition_of("3"))
    stream.retire("coming")
    for _ in range(10):
        assert stream.retire(*["same"] * 1000).counts["retirements forgotten"] == 0
    assert len(stream.partition._retirements) == 2
    assert stream.partition.retirements_window_from(stream.asked) == 0
    assert answers(stream.take(Row("coming"))) == [("coming", 0, "retired")]


def test_while_a_window_holds_a_retired_row_every_id_retired_since_takes_up_to_200_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RETIRED_IDS", 1000)
    stream, others = Stream(definition_of("3")), 5_000
    stream.take(A)
    stream.retire("a")
    tracemalloc.start()
    try:
        for at in range(others):
            stream.retire(*[f"nobody-{at}"] * 3)
        held = tracemalloc.get_traced_memory()[0]
        assert len(stream.partition._retirements) == 1 + others
        assert held <= 200 * others, f"{held / others:.0f} bytes for each"
        stream.take(B, C, D)
        stream.retire("the last")
        assert len(stream.partition._retirements) <= 2000
        assert tracemalloc.get_traced_memory()[0] <= 200 * 2000 + 100_000
    finally:
        tracemalloc.stop()


def test_an_expired_row_out_of_memory_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPIRED_ROWS_REMEMBERED", 1)
    stream = Stream(definition_of("1"))
    stream.take(A, B, C)
    assert stream.partition.rows_held == 2
    assert [outcome for _, _, outcome in answers(stream.retire("a", "b"))] == ["waiting", "expired"]


# Without rows --------------------------------------------------------------------------------------------------------


def test_without_rows_every_retirement_is_unknown_and_nothing_is_remembered() -> None:
    stream = Stream(definition_of("all", keep_rows=False))
    stream.take(A, B, A)
    step = stream.partition.step(admitted(stream.definition, ()), [Retirement("a", "asked", at) for at in (0, 1)])
    assert answers(step) == [("a", 0, "unknown"), ("a", 1, "unknown")]
    assert stream.partition.statistics == sums(A, B, A)
    assert (stream.partition.slots, stream.partition.rows_held) == (3, 0)
    assert stream.partition.retirements_window_from(2) == 2


# Exactness -----------------------------------------------------------------------------------------------------------


def test_rows_of_1e10_in_and_out_of_a_window_leave_no_trace() -> None:
    # Steps of 16 put 1e10 below 2**30 and need the split product; ordinary rows are small multiples of 16.
    definition = definition_of("50", features=2)
    steps = np.full(2, 16.0)
    definition = replace(definition, grid=type(definition.grid)(steps, np.zeros(2)))
    random = np.random.default_rng(1)
    ordinary = [
        Row(f"s{at}", "xy"[at % 2], tuple(16.0 * random.integers(-100, 100, size=2).astype(float))) for at in range(200)
    ]
    seen, never = Stream(definition), Stream(definition)
    for at, row in enumerate(ordinary):
        odd = (Row(f"odd{at}", "x", (1e10, -1e10)),) if at in (20, 21, 60) else ()
        seen.take(*odd, row)
        never.take(row)
        if odd:
            assert seen.partition.statistics.grams()["x"].entry(0, 0) >= (10**10 // 16) ** 2
            assert seen.partition.statistics != never.partition.statistics
    assert seen.partition.statistics == never.partition.statistics
    fingerprint = definition.data_fingerprint
    assert seen.partition.statistics.digest(fingerprint) == never.partition.statistics.digest(fingerprint)
    assert np.array_equal(
        seen.partition.statistics.grams()["x"].to_float(), never.partition.statistics.grams()["x"].to_float()
    )


@pytest.mark.parametrize("pane", [1, 7])
@pytest.mark.parametrize("times", [1, 60])
def test_rows_beyond_two_to_the_thirtieth_in_and_out_of_windows_leave_no_trace(pane: int, times: int) -> None:
    """They enter several windows, one by one or as a block, are replaced, retired, and slide out again."""
    definition = definition_of("50", features=2)
    nested_windows = replace(
        definition.nested_windows, windows=(*definition.nested_windows.windows, Window("count", 200)), pane_rows=pane
    )
    grid = type(definition.grid)(np.ones(2), np.zeros(2), limits.WIDE_RANGE_BITS)
    definition = replace(definition, grid=grid, nested_windows=nested_windows)
    random = np.random.default_rng(2)
    rows = [Row(f"s{at}", "xy"[at % 2], tuple(random.integers(-100, 100, size=2).astype(float))) for at in range(2600)]
    far = float(limits.WIDE_RANGE - 1)
    wild = [Row(f"w{at}", "x", (far * (-1) ** at, float(2**40 + at))) for at in range(times)]
    seen, reference = Stream(definition), Reference(definition)
    given = [rows[:1030], wild, rows[1030:1100], [Row("w0", "y", (1.0, 2.0**33))], rows[1100:1300], rows[1300:]]
    for part in given:
        seen.take(*part)
        reference.add(0, samples_of([(row,) for row in part], features=2))
        if part is not given[-1]:
            assert seen.partition.statistics == reference.statistics()
    never = Stream(definition)
    never.take(*rows[-400:])
    if pane == 1:
        assert seen.partition.statistics == never.partition.statistics


def test_a_window_of_the_largest_values_is_exact_beyond_64_bits() -> None:
    largest = float(limits.GRID_RANGE - 1)
    stream = Stream(definition_of("64"))
    for at in range(100):
        stream.take(Row(f"s{at}", "x", ((-1.0) ** at * largest,)))
    gram = stream.partition.statistics.grams()["x"]
    assert gram.entry(0, 0) == 64 * int(largest) ** 2 > 2**63
    assert gram.entry(0, 1) == 0
    assert gram.count == 64


# Rebuilding ----------------------------------------------------------------------------------------------------------


def test_a_rebuild_from_the_recorded_positions_is_the_same_state_and_answers_the_same() -> None:
    records = [(row,) for row in (A, B, C, A, D)]
    steady = Follower(definition_of("3"), records, ("c", "n", "a", "d"))
    steady.move(Move(4, 2))
    reborn = steady.reborn(steady.rebuild().memory_from)
    assert reborn.partition.statistics == steady.partition.statistics
    assert reborn.move(Move(1, 2)) == steady.move(Move(1, 2))


def test_a_rebuild_from_a_log_that_was_altered_is_refused() -> None:
    steady = Follower(definition_of("3"), [(A,), (B,)], ())
    steady.move(Move(2, 0))
    rebuild = steady.rebuild()
    other = Partition(steady.definition, 0)
    other.refill(admitted(steady.definition, [(A,), (replace(B, values=(4.5e5,)),)]), [])
    with pytest.raises(StateMismatch, match="lost or altered; run an audit"):
        other.finish_refill(rebuild.slots_to, rebuild.watermark, steady.partition.statistics)


def test_late_rows_have_slots_so_a_rebuild_numbers_the_others_the_same() -> None:
    rows = [replace(A, time=50), replace(B, time=3), replace(C, time=51), replace(D, time=2)]
    steady = Follower(definition_of("10ms"), [(row,) for row in rows], ("b",))
    steady.move(Move(4, 0))
    reborn = steady.reborn(0)
    assert reborn.partition.slots == steady.partition.slots == 4
    assert reborn.move(Move(0, 1)) == steady.move(Move(0, 1))
