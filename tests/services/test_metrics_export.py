"""What is exported of a stream: a projection of its models, in which what is not known is not there."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from deltaplane.log.confusion import Confusion, summary
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane.wire import write_sample
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions, start_merger
from deltaplane_services.observe.blend_tables import blend_shares
from deltaplane_services.observe.metrics import StreamView, label_values, metric_names
from deltaplane_services.observe.metrics.families import ClassNames
from deltaplane_services.observe.metrics.quality_metrics import RecentScores
from deltaplane_services.processors.messages import DELTAS, SAMPLES, Outgoing
from services.metrics_models import BINARY, OPEN, model, only, plane, position, scores, series, stream

EVERY = (*metric_names.STREAM, *metric_names.PROCESS)


def view(definition: StreamDefinition = BINARY, samples: int = 100) -> StreamView:
    return StreamView(definition, samples)


# Names ---------------------------------------------------------------------------------------------------------------


def test_every_metric_has_a_name_of_its_own_that_follows_the_conventions() -> None:
    assert len({metric.name for metric in EVERY}) == len(EVERY)
    for metric in EVERY:
        assert metric.name.startswith("deltaplane_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.name.endswith(("_seconds", "_bytes")) or metric.kind != "histogram", metric.name
        assert metric.help.endswith("."), metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name


# Counters ------------------------------------------------------------------------------------------------------------


def test_counters_of_closed_sets_are_there_at_zero_before_anything_happens() -> None:
    seen = view()
    seen.observe(model(1))
    assert series(seen, metric_names.CONFUSION) == {(a, b): 0.0 for a in ("no", "yes") for b in ("no", "yes")}
    assert series(seen, metric_names.REJECTED) == {(reason,): 0.0 for reason in label_values.REJECTIONS}
    assert series(seen, metric_names.SAMPLES).keys() == {
        ("applied",),
        ("duplicate",),
        ("replaced",),
        ("late",),
        ("annihilated",),
        ("retired_id",),
    }
    assert set(series(seen, metric_names.RETIREMENTS).values()) == {0.0}


def test_every_sample_and_retirement_is_counted_under_one_outcome() -> None:
    totals = {
        "applied": 50,
        "replaced": 4,
        "duplicate": 3,
        "late": 2,
        "annihilated": 1,
        "retired id": 5,
        "expired": 7,
        "withdrawn": 1,
        "retirements retired": 9,
        "retirements waiting": 3,
        "retirements forgotten": 6,
        "refused bad value": 8,
        "refused wrong partition": 12,
        "samples misplaced": 13,
        "refused something new": 2,
        "values filled in": 11,
    }
    seen = view()
    seen.observe(model(1, totals=totals))
    outcomes = series(seen, metric_names.SAMPLES)
    assert outcomes["applied",] == 46.0
    assert sum(outcomes.values()) == 46 + 4 + 3 + 2 + 1 + 5
    removed = series(seen, metric_names.REMOVED)
    assert removed == {("expired",): 7.0, ("withdrawn",): 1.0, ("replaced",): 4.0, ("retired",): 8.0}
    rejected = {reason: count for (reason,), count in series(seen, metric_names.REJECTED).items() if count}
    assert rejected == {"bad_value": 8.0, "wrong_partition": 12.0, "other": 2.0, "late": 2.0, "retired_id": 5.0}
    assert only(seen, metric_names.RETIREMENTS_WAITING) == 2.0
    assert only(seen, metric_names.RETIREMENTS_FORGOTTEN, "") == 6.0
    assert only(seen, metric_names.FILLED) == 11.0
    assert series(seen, metric_names.MISPLACED) == {("samples",): 13.0, ("retirements",): 0.0}


def test_counters_stay_where_they_were_while_a_merger_catches_up_and_gauges_follow_the_version() -> None:
    seen = view()
    before: dict[str, Any] = {
        "totals": {"applied": 10},
        "scores": scores(no_no=6, yes_no=4),
        "positions": (position(sequence=5),),
    }
    seen.observe(model(7, counts={"no": 8}, **before))
    # It has restarted from its checkpoints: a higher version that contains less.
    seen.observe(model(8, counts={"no": 3}, totals={"applied": 4}, scores=scores(no_no=3), positions=(position(),)))
    assert series(seen, metric_names.SAMPLES)["applied",] == 10.0
    assert series(seen, metric_names.CONFUSION)["yes", "no"] == 4.0
    assert series(seen, metric_names.TILES) == {("here", "0"): 5.0}
    assert only(seen, metric_names.MODEL_VERSION) == 8.0
    assert series(seen, metric_names.WINDOW_SAMPLES)["no",] == 3.0
    # And the model of another that believes to be the merger: a lower version that contains more.
    seen.observe(model(6, counts={"no": 9}, totals={"applied": 12}, scores=scores(no_no=9, yes_no=4)))
    assert series(seen, metric_names.SAMPLES)["applied",] == 12.0
    assert series(seen, metric_names.CONFUSION)["no", "no"] == 9.0
    assert only(seen, metric_names.MODEL_VERSION) == 8.0
    assert series(seen, metric_names.WINDOW_SAMPLES)["no",] == 3.0


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6))
def test_no_counter_ever_goes_down_whatever_models_come(steps: list[tuple[int, int, int]]) -> None:
    seen = view()
    known: dict[tuple[str, ...], float] = {}
    for version, right, wrong in steps:
        totals = {"applied": right + wrong, "replaced": wrong, "late": right}
        seen.observe(model(version, totals=totals, scores=scores(no_no=right, yes_no=wrong)))
        counted = counters(seen)
        assert all(counted[place] >= value for place, value in known.items())
        known = counted


def counters(seen: StreamView) -> dict[tuple[str, ...], float]:
    samples = [sample for family in seen.collect() if family.type == "counter" for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_a_merger_that_takes_over_goes_on_where_the_counters_were_and_none_goes_down() -> None:
    definition = stream(partitions=2)
    runner, before = EmbeddedRunner(definition, options=RunnerOptions(keep_log=True)), view(definition)
    draw = random.Random(3)
    for turn in range(12):
        for row in range(4):
            label = draw.choice(["no", "yes"])
            sample_id = str(draw.randrange(30))
            value = write_sample(sample_id, turn, label, [draw.gauss(0.0, 9.0), row], definition.data_fingerprint)
            runner.broker.append(Outgoing(SAMPLES, row % 2, None, value), turn)
        runner.round(turn)
        assert runner.merger.model is not None
        before.observe(runner.merger.model)
        if turn == 5:
            runner.checkpoint(turn)
    # The next one starts from the checkpoints, and publishes after every delta: models that contain less at first.
    merger, positions = start_merger(definition, runner.broker)
    after = view(definition)
    assert merger.model is not None
    after.observe(merger.model)
    known = counters(before)
    assert counters(after) == known
    fewer = 0
    for partition, start in positions.items():
        for record in runner.broker.fetch(DELTAS, partition, start):
            merger.process([record])
            if merger.publish(20).then:
                fewer += merger.model.totals["applied"] < before_model_total(before)
                after.observe(merger.model)
                assert counters(after) == known
    assert fewer > 3, "the models that contain less are what this is about"


def before_model_total(seen: StreamView) -> int:
    assert seen.model is not None
    return seen.model.totals["applied"]


# Quality -------------------------------------------------------------------------------------------------------------


def test_the_measures_are_those_of_the_core_for_all_samples_and_for_the_recent_ones() -> None:
    seen = view(samples=50)
    first, second = scores(no_no=70, no_yes=10, yes_no=5, yes_yes=15), scores(no_no=35, no_yes=5, yes_no=4, yes_yes=6)
    seen.observe(model(1, scores=first))
    seen.observe(model(2, scores=first + second))
    for span, confusion in (("all", first + second), ("recent", second)):
        expected = summary(confusion, "yes")
        assert series(seen, metric_names.GMEAN)[span,] == expected.gmean
        assert series(seen, metric_names.ACCURACY)[span,] == expected.accuracy
        assert series(seen, metric_names.SENSITIVITY)["yes", span] == expected.sensitivity
        assert series(seen, metric_names.SPECIFICITY)["yes", span] == expected.specificity
        assert series(seen, metric_names.SENSITIVITY)["no", span] == expected.specificity
        assert series(seen, metric_names.F_MEASURE)["yes", span] == expected.f_measure
        assert series(seen, metric_names.PRECISION)["yes", span] == expected.precision
        assert series(seen, metric_names.KAPPA)[span,] == expected.kappa
        assert series(seen, metric_names.MATTHEWS)[span,] == expected.matthews
        alarms = series(seen, metric_names.FALSE_ALARMS)["yes", span]
        assert alarms == pytest.approx(expected.false_alarms_per_1000_rows / 1000.0)
        assert series(seen, metric_names.RELATIVE_SENSITIVITY)["yes", span] == expected.relative_sensitivity
        assert series(seen, metric_names.PREQUENTIAL_ROWS)[span,] == confusion.rows
    assert only(seen, metric_names.PREQUENTIAL_SPAN) == 50.0


def test_what_is_not_defined_has_no_series() -> None:
    seen = view()
    seen.observe(model(1))
    for metric in (
        metric_names.GMEAN,
        metric_names.ACCURACY,
        metric_names.SENSITIVITY,
        metric_names.F_MEASURE,
        metric_names.IMBALANCE,
        metric_names.SIGMA,
    ):
        assert series(seen, metric) == {}
    for metric in (metric_names.WATERMARK, metric_names.MODEL_C, metric_names.WEIGHT_NORM, metric_names.WEIGHT_CHANGE):
        assert only(seen, metric) is None
    seen.observe(model(2, scores=scores(no_no=5), counts={"no": 5}, watermark=NO_WATERMARK))
    assert series(seen, metric_names.GMEAN) == {}
    assert series(seen, metric_names.SENSITIVITY) == {("no", "all"): 1.0, ("no", "recent"): 1.0}
    assert series(seen, metric_names.SPECIFICITY) == {("yes", "all"): 1.0, ("yes", "recent"): 1.0}
    assert series(seen, metric_names.WINDOW_SAMPLES) == {("no",): 5.0, ("yes",): 0.0}
    assert only(seen, metric_names.IMBALANCE) is None


@pytest.mark.parametrize("seed", [1, 2])
def test_a_class_that_vanishes_for_a_while_leaves_a_gap(seed: int) -> None:
    definition = stream(window={"length": 60}, solver={"C": 1.0})
    runner, seen = EmbeddedRunner(definition), StreamView(definition, 40)
    draw = random.Random(seed)
    shown, imbalance = [], []
    for turn in range(60):
        for row in range(10):
            label = "yes" if not 20 <= turn < 40 and row % 2 else "no"
            features = [draw.gauss(4.0 if label == "yes" else -4.0, 3.0), draw.gauss(0.0, 2.0)]
            value = write_sample(f"{turn}-{row}", 1000 * turn, label, features, definition.data_fingerprint)
            runner.broker.append(Outgoing(SAMPLES, 0, None, value), 1000 * turn)
        runner.round(1000 * turn)
        assert runner.merger.model is not None
        seen.observe(runner.merger.model)
        shown.append(series(seen, metric_names.GMEAN).get(("recent",)))
        imbalance.append(only(seen, metric_names.IMBALANCE))
    there = [value for value in (*shown[5:20], *shown[44:]) if value is not None]
    assert len(there) == 31
    assert all(0.5 < value < 1.0 for value in there)
    # Four turns make up the recent span, six the window.
    assert shown[24:40] == [None] * 16
    assert imbalance[26:40] == [None] * 14
    assert None not in imbalance[40:]


@given(
    st.lists(st.dictionaries(st.sampled_from(["a_a", "a_b", "b_a", "b_b"]), st.integers(1, 30)), max_size=20),
    st.integers(1, 60),
)
def test_the_recent_scores_are_those_of_the_fewest_last_models_that_have_enough(
    parts: list[dict[str, int]], most: int
) -> None:
    recent, total, seen = RecentScores(most), Confusion(), []
    recent.see(total)
    for part in parts:
        total = total + scores(**part)
        recent.see(total)
        if part:
            seen.append(scores(**part))
        expected, at = Confusion(), len(seen)
        while expected.rows < most and at:
            at -= 1
            expected = expected + seen[at]
        assert recent.recent == expected
        assert recent.total == total


def test_a_long_past_is_no_part_of_the_recent_scores_and_a_short_one_is_all_of_them() -> None:
    for rows, expected in ((500, 0), (40, 40)):
        recent = RecentScores(50)
        recent.see(scores(no_no=rows))
        assert recent.recent.rows == expected
        recent.see(scores(no_no=rows + 5))
        assert recent.recent.rows == expected + 5


# Labels --------------------------------------------------------------------------------------------------------------


def test_an_open_stream_of_many_classes_has_few_series_and_loses_no_sample() -> None:
    labels = [f"c{at:03}" for at in range(200)]
    wrong = {(label, labels[0]): 1 + at for at, label in enumerate(labels)}
    seen = view(OPEN)
    seen.observe(model(1, OPEN, scores=Confusion(wrong), counts=dict.fromkeys(labels, 2)))
    cells = series(seen, metric_names.CONFUSION)
    assert sum(cells.values()) == sum(wrong.values())
    assert len({truth for truth, _ in cells}) == label_values.MOST_CLASSES + 1
    assert len(cells) <= (label_values.MOST_CLASSES + 1) ** 2
    assert ("c199", label_values.OTHER) in cells
    live = series(seen, metric_names.WINDOW_SAMPLES)
    assert len(live) == label_values.MOST_CLASSES + 1
    assert sum(live.values()) == 400.0
    assert label_values.OTHER not in {label for label, _ in series(seen, metric_names.SENSITIVITY)}


def test_a_class_keeps_its_name_when_others_outgrow_it() -> None:
    few = ClassNames().having_seen({f"c{at}": 1 for at in range(label_values.MOST_CLASSES - 1)})
    full = few.having_seen({"late": 10, "later": 9})
    assert (full.name("late"), full.name("later"), full.name("c0")) == ("late", label_values.OTHER, "c0")
    assert full.having_seen({"later": 10**9}) == full
    assert full.sums({"c0": 1, "later": 2, "never seen": 3}) == {"c0": 1, label_values.OTHER: 5}


def test_labels_of_any_text_come_through_the_wire_as_they_are() -> None:
    labels = ('say "yes"', "a\\b", "line\nbreak", "ünïcode")
    seen = view(OPEN)
    seen.observe(model(1, OPEN, counts=dict.fromkeys(labels, 3)))
    assert series(seen, metric_names.WINDOW_SAMPLES) == {(label,): 3.0 for label in labels}


def test_a_class_called_other_is_counted_with_the_others_and_makes_no_series_twice() -> None:
    counts = {label_values.OTHER: 100, **{f"c{at:02}": 1 for at in range(30)}}
    seen = view(OPEN)
    seen.observe(model(1, OPEN, counts=counts))
    live = series(seen, metric_names.WINDOW_SAMPLES)
    assert live[label_values.OTHER,] == 100 + 30 - (label_values.MOST_CLASSES - 1)
    assert sum(live.values()) == 130.0


# The plane -----------------------------------------------------------------------------------------------------------


def test_the_plane_is_shown_with_the_way_it_moved_since_the_one_before() -> None:
    seen = view()
    seen.observe(model(1, plane=plane(), plane_version=1, watermark=5_500))
    assert only(seen, metric_names.WEIGHT_NORM) == 5.0
    assert only(seen, metric_names.WEIGHT_CHANGE) is None
    assert only(seen, metric_names.WATERMARK) == 5.5
    assert only(seen, metric_names.MODEL_CREATED) == 1000.001
    seen.observe(model(2, plane=plane(weights=(3.0, 6.5)), plane_version=2))
    assert only(seen, metric_names.WEIGHT_CHANGE) == 2.5
    assert series(seen, metric_names.WEIGHT) == {("yes", "a"): 3.0, ("yes", "b"): 6.5}
    assert series(seen, metric_names.STANDARDIZED_WEIGHT) == {}
    seen.deviations = np.array([2.0, 0.5])
    assert series(seen, metric_names.STANDARDIZED_WEIGHT) == {("yes", "a"): 6.0, ("yes", "b"): 3.25}
    assert series(seen, metric_names.SIGMA) == {("no",): 0.5, ("yes",): 1.5}
    assert (only(seen, metric_names.MODEL_C), only(seen, metric_names.CONDITION)) == (2.0, 1000.0)
    assert only(seen, metric_names.MODEL_REFUSED) == 0.0
    # Refused: the plane stays, and has not moved again.
    seen.observe(model(3, plane=plane(weights=(3.0, 6.5)), plane_version=2, refusal="one class only"))
    assert only(seen, metric_names.MODEL_REFUSED) == 1.0
    assert (only(seen, metric_names.MODEL_VERSION), only(seen, metric_names.PLANE_VERSION)) == (3.0, 2.0)
    assert only(seen, metric_names.WEIGHT_CHANGE) == 2.5


def test_planes_of_other_classes_have_no_distance_between_them() -> None:
    seen = view(OPEN)
    seen.observe(model(1, OPEN, plane=plane(("a", "b", "c")), plane_version=1, counts={"a": 1, "b": 1, "c": 1}))
    assert only(seen, metric_names.WEIGHT_NORM) == pytest.approx(np.sqrt(75.0))
    seen.observe(model(2, OPEN, plane=plane(("a", "b")), plane_version=2, counts={"a": 1, "b": 1}))
    assert only(seen, metric_names.WEIGHT_CHANGE) is None


def test_removed_sources_are_shown_and_keep_their_tiles() -> None:
    seen = view()
    seen.observe(model(1, positions=(position(0, 3), position(1, 4, removed=True))))
    assert series(seen, metric_names.BARRED) == {("here", "0"): 0.0, ("here", "1"): 1.0}
    assert series(seen, metric_names.TILES) == {("here", "0"): 3.0, ("here", "1"): 4.0}


def test_what_the_automatic_mode_leans_to_is_shown_choice_by_choice_and_adds_up() -> None:
    definition = stream(window={"length": "auto", "max": 400})
    runner, draw = EmbeddedRunner(definition), random.Random(5)
    for turn in range(6):
        for row in range(40):
            label = draw.choice(["no", "yes"])
            features = [draw.gauss(3.0 if label == "yes" else -3.0, 3.0), draw.gauss(0.0, 2.0)]
            value = write_sample(f"{turn}-{row}", turn, label, features, definition.data_fingerprint)
            runner.broker.append(Outgoing(SAMPLES, 0, None, value), turn)
        runner.round(turn)
    newest = runner.merger.model
    assert newest is not None
    seen = view(definition)
    seen.observe(newest)
    expected = blend_shares(newest.leaning, definition)
    assert expected is not None
    assert {"windows", "C", "cuts"} <= expected.keys()
    found = series(seen, metric_names.BLEND_SHARE)
    assert found == {(of, choice): share for of, shares in expected.items() for choice, share in shares.items()}
    for of in expected:
        assert sum(share for (kind, _), share in found.items() if kind == of) == pytest.approx(1.0)


def test_a_plane_that_is_solved_for_leans_to_nothing() -> None:
    seen = view()
    seen.observe(model(2, plane=plane(), plane_version=2))
    assert series(seen, metric_names.BLEND_SHARE) == {}
