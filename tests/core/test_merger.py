"""The merger: exact sums over sources, models that say what is in them, and two mergers at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.errors import StateMismatch
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceOrder, SourceState, Tile
from deltaplane.log.merger import Merger, of_largest, of_modelled_classes
from deltaplane.log.model import Model
from deltaplane.solve.solver import solve
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_model, write_model
from golden.wire_examples import same
from strategies_streams import definition_of

DEFINITION = definition_of("all", partitions=2)
HERE, THERE = Source("here", 0), Source("there", 1)
ROWS = {"x": [5.0, 7.0, 4.0], "y": [-5.0, -6.0, -9.0]}


def sums(rows: Mapping[str, list[float]]) -> Statistics:
    return Statistics(2, {(0, label): Moments.of_rows(np.array(v).reshape(-1, 1)) for label, v in rows.items() if v})


def delta(source: Source, sequence: int, rows: Mapping[str, list[float]], watermark: int = 0) -> Delta:
    return Delta(
        source=source,
        writer="w",
        stream_fingerprint=DEFINITION.stream_fingerprint,
        tile=Tile(sequence, sequence, sequence + 1, 0, 0),
        rebuild=Rebuild(watermark=watermark),
        change=sums(rows),
        scores=Confusion({("x", "y"): 1}),
        counts={"applied": sum(map(len, rows.values()))},
    )


def merger_of(*deltas: Delta, definition: StreamDefinition = DEFINITION) -> Merger:
    merger = Merger(definition)
    for source in (HERE, THERE):
        merger.apply(Claim(source, "w", definition.stream_fingerprint))
    for one in deltas:
        merger.apply(one)
    return merger


def published(merger: Merger, now: int = 1) -> Model:
    model = merger.publish(now)
    assert model is not None
    return model


def test_the_model_is_that_of_the_batch_whatever_source_each_row_came_from() -> None:
    merger = merger_of(delta(HERE, 0, {"x": [5.0, 7.0]}), delta(THERE, 0, {"x": [4.0], "y": [-5.0, -6.0, -9.0]}))
    model = published(merger)
    whole = sums(ROWS)
    assert merger.statistics == whole
    assert model.digest == whole.digest(DEFINITION.data_fingerprint)
    batch = solve(whole.grams(), DEFINITION.grid, DEFINITION.solver)
    assert model.plane is not None
    assert np.array_equal(model.plane.weights, batch.weights)
    assert np.array_equal(model.plane.biases, batch.biases)
    assert model.counts == {"x": 3, "y": 3}
    assert model.totals == {"applied": 6}
    assert model.scores.counts == {("x", "y"): 2}


def test_a_model_says_which_tiles_are_in_it() -> None:
    model = published(merger_of(delta(HERE, 0, {"x": [1.0]}, watermark=7), delta(HERE, 1, {"y": [2.0]}, watermark=9)))
    first = model.positions[0]
    assert (first.source, first.sequence, first.samples, first.watermark) == (HERE, 2, 2, 9)
    assert model.contains(HERE, 1)
    assert not model.contains(HERE, 2)
    assert not model.contains(THERE, 0)
    assert model.watermark == 9


def test_nothing_is_published_twice_and_a_dropped_delta_is_nothing() -> None:
    merger = merger_of(delta(HERE, 0, ROWS))
    assert published(merger).version == 1
    merger.apply(delta(HERE, 0, ROWS))
    assert merger.publish(2) is None
    merger.apply(delta(HERE, 1, {"x": [1.0]}))
    assert published(merger).version == 2


def test_where_no_plane_can_be_solved_for_the_last_good_one_stays_and_the_model_says_why() -> None:
    merger = merger_of(delta(HERE, 0, ROWS))
    good = published(merger)
    nothing = Statistics(2)
    merger.apply(replace(delta(HERE, 1, {}), change=nothing - sums({"y": ROWS["y"]})))
    model = published(merger)
    assert model.plane is good.plane
    assert (model.version, model.plane_version) == (2, 1)
    assert model.refusal is not None
    assert "two classes" in model.refusal
    assert model.counts == {"x": 3}


def test_a_merger_restored_from_checkpoints_goes_on_as_if_nothing_had_been() -> None:
    before = merger_of(delta(HERE, 0, {"x": [5.0, 7.0]}), delta(THERE, 0, {"y": ROWS["y"]}))
    model = published(before)
    after = Merger(DEFINITION)
    after.restore(before.sources(), model)
    for merger in (before, after):
        merger.apply(delta(HERE, 1, {"x": [4.0]}))
    assert after.statistics == before.statistics == sums(ROWS)
    assert after.scores == before.scores
    assert after.totals == before.totals
    first, second = published(before), published(after)
    assert (first.version, first.digest, first.positions) == (second.version, second.digest, second.positions)


def test_an_unknown_source_has_an_empty_state() -> None:
    assert Merger(DEFINITION).state(HERE) == SourceState(HERE, Statistics(2))
    assert Merger(DEFINITION).sources() == []


def test_a_merger_goes_above_the_version_of_one_that_knows_less_and_publishes_again() -> None:
    ahead = merger_of(delta(HERE, 0, ROWS), delta(HERE, 1, {"x": [1.0]}))
    published(ahead)
    behind = replace(published(merger_of(delta(HERE, 0, ROWS))), version=8)
    ahead.see_other(behind)
    model = published(ahead)
    assert model.version == 9
    assert model.contains(HERE, 1)


def test_a_merger_publishes_again_where_the_last_word_is_of_an_owner_that_has_lost_its_source_since() -> None:
    """Else the worker that lost it would never hear of it, and write deltas that nobody takes, for good."""
    merger = merger_of(delta(HERE, 0, ROWS))
    behind = replace(published(merger), version=8)
    merger.apply(Claim(HERE, "late", DEFINITION.stream_fingerprint), 7)
    published(merger)
    merger.see_other(behind)
    model = published(merger)
    assert model.version == 9
    assert [(p.owner, p.read_to) for p in model.positions if p.source == HERE] == [("late", 8)]
    merger.see_other(replace(model, version=10))
    assert merger.publish(1) is None


def test_a_merger_publishes_again_where_the_last_word_knows_nothing_of_a_source() -> None:
    merger = merger_of(delta(HERE, 0, ROWS))
    behind = replace(published(merger), version=8)
    elsewhere = Source("elsewhere", 0)
    merger.apply(Claim(elsewhere, "first", DEFINITION.stream_fingerprint), 0)
    published(merger)
    merger.see_other(behind)
    assert elsewhere in {position.source for position in published(merger).positions}


def test_a_merger_that_knows_no_more_leaves_the_last_word_to_the_other() -> None:
    merger = merger_of(delta(HERE, 0, ROWS))
    own = published(merger)
    merger.see_other(own)
    assert merger.publish(2) is None
    merger.see_other(replace(own, version=5))
    assert merger.publish(3) is None
    merger.apply(delta(HERE, 1, {"x": [1.0]}))
    assert published(merger).version == 6


def test_a_merger_publishes_again_where_the_last_word_says_that_event_time_has_come_further_than_its_rows() -> None:
    """Else the record of one who is no merger would stay the newest for as long as nothing comes."""
    merger = merger_of(delta(HERE, 0, ROWS))
    own = published(merger)
    position, *others = own.positions
    lies = (
        replace(own, version=5, watermark=own.watermark + 1),
        replace(own, version=7, positions=(replace(position, watermark=position.watermark + 1), *others)),
    )
    for lie in lies:
        merger.see_other(lie)
        model = published(merger)
        assert (model.version, model.watermark) == (lie.version + 1, own.watermark)
        assert model.positions == own.positions
        merger.see_other(model)
        assert merger.publish(2) is None
    # Another merger may have read more than this one, and so know of later rows.
    further = replace(position, watermark=position.watermark + 1, read_to=position.read_to + 1)
    merger.see_other(replace(own, version=20, watermark=own.watermark + 1, positions=(further, *others)))
    assert merger.publish(3) is None


def test_of_more_classes_than_a_model_tells_apart_it_has_those_with_the_most_rows_in_whatever_order_they_came() -> None:
    definition = definition_of("all", partitions=2, classes=ClassDefinition(most=2))
    rows = {"a": [1.0], "b": [5.0, 7.0], "c": [3.0], "z": [-5.0, -6.0, -9.0]}
    parts = [
        replace(delta(source, 0, part), stream_fingerprint=definition.stream_fingerprint)
        for source, part in ((HERE, {"a": rows["a"], "b": rows["b"]}), (THERE, {"c": rows["c"], "z": rows["z"]}))
    ]
    largest = solve(sums({"b": rows["b"], "z": rows["z"]}).grams(), definition.grid, definition.solver)
    models = [published(merger_of(*order, definition=definition)) for order in (parts, parts[::-1])]
    for model in models:
        assert model.refusal is None
        assert model.plane is not None
        assert model.plane.classes == ("b", "z")
        assert model.counts == {"b": 2, "z": 3}
        assert model.digest == sums(rows).digest(definition.data_fingerprint), "the digest is of all"
        assert same(replace(model.plane, means=None), largest)
        assert model.plane.means is not None
        assert model.plane.means.tolist() == [pytest.approx(sum(rows["b"] + rows["z"]) / 5)]
    assert of_modelled_classes(sums({"a": [1.0], "b": [2.0], "c": [3.0]}), definition).counts() == {"a": 1, "b": 1}


def test_the_scores_of_a_model_are_of_no_more_classes_than_it_tells_apart() -> None:
    scores = Confusion({("a", "a"): 5, ("b", "a"): 4, ("b", "never seen"): 1, ("c", "b"): 3})
    assert of_largest(scores, 2) == Confusion({("a", "a"): 5, ("b", "a"): 4})
    assert of_largest(scores, 4) is scores


def test_a_merger_that_meets_the_highest_version_stays_there_and_its_next_model_counts_all_the_same() -> None:
    merger = merger_of(delta(HERE, 0, ROWS))
    forged = replace(published(merger), version=limits.MODEL_VERSION)
    merger.see_other(forged)
    merger.apply(delta(HERE, 1, {"x": [1.0]}))
    model = published(merger)
    assert model.version == limits.MODEL_VERSION
    assert model.replaces(forged)
    assert same(read_model(write_model(model)), model)


def test_a_merger_hears_so_many_sources_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOURCES", 2)
    merger = merger_of(delta(HERE, 0, ROWS))
    with pytest.raises(StateMismatch, match="source nowhere/0: expected up to 2 sources"):
        merger.apply(Claim(Source("nowhere", 0), "w", DEFINITION.stream_fingerprint))
    assert merger.apply(delta(HERE, 1, {"x": [1.0]})) == "accepted"
    assert [position.source for position in published(merger).positions] == [HERE, THERE]


def test_a_model_names_no_more_outcomes_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTCOMES", 2)
    counted = [
        replace(delta(source, 0, ROWS), counts={name: 9, "b": 2}) for source, name in ((HERE, "a"), (THERE, "c"))
    ]
    assert published(merger_of(*counted)).totals == {"a": 9, "c": 9}


# Watermarks ----------------------------------------------------------------------------------------------------------

TIMED = replace(definition_of("1h", partitions=2), max_skew_milliseconds=100)


def told(source: Source, sequence: int, watermark: int) -> Delta:
    change = delta(source, sequence, ROWS, watermark)
    return replace(change, stream_fingerprint=TIMED.stream_fingerprint)


def test_a_delta_that_is_years_ahead_of_the_log_moves_nobody_else() -> None:
    merger = merger_of(definition=TIMED)
    merger.apply(told(HERE, 0, 1_000), 1, 1_000)
    merger.apply(told(THERE, 0, 10**12), 1, 1_100)
    model = published(merger)
    assert (model.watermark, merger.ignored_watermarks) == (1_000, 1)
    # What its worker has applied is on record all the same, and the rows count.
    assert [position.watermark for position in model.positions] == [1_000, 10**12]
    assert sum(model.counts.values()) == 12
    merger.apply(told(THERE, 1, 1_300), 2, 1_200)
    assert published(merger).watermark == 1_300
    merger.apply(told(THERE, 2, 1_301), 3, 1_200)
    assert (published(merger).watermark, merger.ignored_watermarks) == (1_300, 2)


def test_a_checkpoint_that_is_years_ahead_of_the_log_moves_nobody_else() -> None:
    before = merger_of(told(HERE, 0, 1_000), told(THERE, 0, 10**12), definition=TIMED)
    again = Merger(TIMED)
    again.restore(before.sources(), None, {}, {HERE: 900, THERE: 900})
    assert (again.watermark, again.ignored_watermarks) == (1_000, 1)


def test_a_source_that_is_removed_takes_its_watermark_along_and_one_that_is_let_in_twice_keeps_it() -> None:
    merger = merger_of(told(HERE, 0, 1_000), told(THERE, 0, 2_000), definition=TIMED)

    def order(*, removed: bool) -> None:
        merger.apply(SourceOrder(THERE, removed, "asked", TIMED.stream_fingerprint))

    order(removed=False)
    assert merger.watermark == 2_000
    order(removed=True)
    assert merger.watermark == 1_000


def test_where_no_window_ends_with_time_a_model_says_what_the_rows_said() -> None:
    merger = merger_of()
    merger.apply(delta(HERE, 0, ROWS, 10**15), 0, 0)
    assert (published(merger).watermark, merger.ignored_watermarks) == (10**15, 0)
