"""What each service exports of itself, and what it says of its health."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceState, Verdict
from deltaplane.log.drift import DriftWatch
from deltaplane.log.records import Query
from deltaplane.wire import write_query
from deltaplane_services.kafka.access import ROLES
from deltaplane_services.observe.metrics import MergerMetrics, ScorerMetrics, WorkerMetrics, label_values, metric_names
from deltaplane_services.observe.metrics.process_metrics import LAG_SECONDS, SILENCE_SECONDS
from deltaplane_services.processors.codec import outgoing
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    QUERIES,
    SAMPLES,
    Outgoing,
    Output,
    Record,
)
from deltaplane_services.processors.refused_records import dead_letter
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.solving import solver_digest
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import PREDICTION, UNANSWERED
from services.metrics_models import BINARY, exported, model, only, plane, position, series


class Clock:
    """Monotonic seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(clock: Clock) -> WorkerMetrics:
    return WorkerMetrics(BINARY, "here", clock)


@pytest.fixture
def merger(clock: Clock) -> MergerMetrics:
    return MergerMetrics(BINARY, clock)


def source(partition: int = 0, writer: str = "w.1", *, serving: bool = True) -> WorkerProcessor:
    processor = WorkerProcessor(BINARY, Source("here", partition), writer)
    if serving:
        processor.restore(SourceState(processor.source, Statistics(BINARY.dimension)))
    return processor


def record(log_time: int, offset: int = 0) -> Record:
    return Record(SAMPLES, 0, offset, log_time, None, b"whatever")


DELTA = Output(then=(Outgoing(DELTAS, 0, b"here/0", bytes(1000)),))


# Health --------------------------------------------------------------------------------------------------------------


def test_a_loop_that_has_not_turned_for_long_is_neither_alive_nor_ready(worker: WorkerMetrics, clock: Clock) -> None:
    worker.turn({0: source()}, (), joined=True)
    clock.now = SILENCE_SECONDS
    assert worker.alive().good
    assert worker.ready().good
    clock.now += 1.0
    assert not worker.alive().good
    assert not worker.ready().good
    assert "has not turned for 121 s" in worker.ready().why
    assert only(worker.registry, metric_names.READY) == 0.0


def test_a_service_that_ends_is_alive_and_not_ready(worker: WorkerMetrics) -> None:
    worker.turn({0: source()}, (), joined=True)
    worker.ends()
    assert worker.alive().good
    assert (worker.ready().good, worker.ready().why) == (False, "worker: ending")


def test_a_service_that_is_starting_is_alive_and_not_ready(worker: WorkerMetrics, merger: MergerMetrics) -> None:
    for service in (worker, merger):
        assert service.alive().good
        assert not service.ready().good
        assert "starting" in service.ready().why


def test_a_worker_is_ready_once_all_its_sources_are_rebuilt(worker: WorkerMetrics) -> None:
    worker.turn({}, (), joined=False)
    assert (worker.ready().good, worker.ready().why) == (False, "worker: not a member of the group yet")
    worker.turn({0: source()}, (2,), joined=True)
    assert (worker.ready().good, worker.ready().why) == (False, "worker: rebuilding partitions [2], serving [0]")
    worker.turn({0: source(), 2: source(2, serving=False)}, (), joined=True)
    assert not worker.ready().good
    worker.turn({0: source(), 2: source(2)}, (), joined=True)
    assert (worker.ready().good, worker.ready().why) == (True, "worker: serving partitions [0, 2]")
    worker.turn({}, (), joined=True)
    assert worker.ready().good
    assert "standing by" in worker.ready().why


def test_a_merger_that_stands_by_is_ready_and_exports_nothing_of_the_stream(merger: MergerMetrics) -> None:
    merger.turn(None, joined=False, has_place=False)
    assert not merger.ready().good
    merger.turn(None, joined=True, has_place=False)
    assert (merger.ready().good, merger.ready().why) == (True, "merger: standing by, another merger is elected")
    merger.turn(None, joined=True, has_place=True)
    assert (merger.ready().good, merger.ready().why) == (False, "merger: elected, and has not read the checkpoints yet")
    merger.turn({}, joined=True, has_place=True, caught_up=False)
    assert not merger.ready().good
    merger.turn(None, joined=True, has_place=False)
    merger.model(model(5, plane=plane(), plane_version=4, refusal="one class only"))
    assert not stream_metrics(merger)
    merger.turn({Verdict.ACCEPTED: 3}, joined=True, has_place=True)
    assert merger.ready().good
    assert merger.ready().why.endswith("version 5; plane of version 4: one class only")
    assert {metric.name for metric in (metric_names.MODEL_VERSION, metric_names.CONFUSION)} <= stream_metrics(merger)
    assert only(merger.registry, metric_names.ELECTED) == 1.0
    # Another is elected.
    merger.turn(None, joined=True, has_place=False)
    assert not stream_metrics(merger)
    assert only(merger.registry, metric_names.ELECTED) == 0.0


def stream_metrics(merger: MergerMetrics) -> set[str]:
    return exported(merger.registry).keys() & {metric.name for metric in metric_names.STREAM}


def test_a_scorer_that_no_broker_answers_or_whose_model_nobody_renews_is_not_ready_and_says_by_what_it_answers() -> (
    None
):
    now = [0.0]
    scorer, processor = ScorerMetrics(BINARY, clock=lambda: now[0]), ScorerProcessor(BINARY)
    processor.see_model(model(7, plane=plane(), plane_version=7))
    scorer.turn(processor, outage="no broker answers: timed out", stale="models are gone")
    assert not scorer.ready().good
    assert scorer.ready().why == "scorer: no broker answers: timed out (answers by model version 7)"
    assert only(scorer.registry, metric_names.STALE_MODEL) == 1.0
    scorer.turn(processor, stale="models are gone")
    assert scorer.ready().why == "scorer: models are gone (answers by model version 7)"
    assert only(scorer.registry, metric_names.READY) == 0.0
    scorer.turn(processor)
    assert scorer.ready().good
    assert only(scorer.registry, metric_names.STALE_MODEL) == 0.0
    now[0] += 11.0
    assert not scorer.ready().good, "a turn that does not end cannot say so itself"
    assert "waits for a broker" in scorer.ready().why
    assert scorer.alive().good


def test_a_scorer_shows_the_version_that_it_answers_by_though_it_has_seen_higher_ones() -> None:
    scorer, processor = ScorerMetrics(BINARY), ScorerProcessor(BINARY)
    for version in (50, 1):
        processor.model = model(version, plane=plane(), plane_version=version)
        scorer.turn(processor)
    assert only(scorer.registry, metric_names.SEEN_VERSION) == 1.0


def test_a_scorer_is_ready_once_there_is_a_plane() -> None:
    scorer, processor = ScorerMetrics(BINARY), ScorerProcessor(BINARY)
    scorer.turn(processor)
    assert not scorer.ready().good
    assert "no model yet" in scorer.ready().why
    processor.see_model(model(1, refusal="one class only"))
    scorer.turn(processor)
    assert not scorer.ready().good
    assert "model version 1 has no plane: one class only" in scorer.ready().why
    processor.see_model(model(2, plane=plane(), plane_version=2))
    scorer.turn(processor)
    assert (scorer.ready().good, scorer.ready().why) == (True, "scorer: answers by model version 2")
    assert only(scorer.registry, metric_names.SEEN_VERSION) == 2.0


def query(at: int, features: Floats, partition: int = 0) -> Record:
    return Record(QUERIES, partition, at, at, None, write_query(Query(f"q{at}", features, BINARY.data_fingerprint)))


def test_queries_that_shift_are_told_by_the_scorer_before_any_label_comes() -> None:
    scorer, processor = ScorerMetrics(BINARY), ScorerProcessor(BINARY)
    processor.see_model(model(1, plane=plane(), plane_version=1))
    scorer.turn(processor)
    assert only(scorer.registry, metric_names.QUERY_DRIFTS) == 0.0
    assert series(scorer.registry, metric_names.QUERY_SHIFT) == {}
    rows = np.random.default_rng(5).normal(size=(4000, 2))
    rows[3000:, 1] += 1.0
    reference = DriftWatch(2)
    expected = reference.add(rows)
    assert [drift.row for drift in expected] == [3300], "within one window"
    for begin in range(0, 4000, 37):
        records = [query(at, rows[at]) for at in range(begin, min(begin + 37, 4000))]
        unread = Record(QUERIES, 0, 10_000 + begin, 0, None, b"no query")
        infinite = query(20_000 + begin, np.array([1e300, 1e300]))
        processor.process([*records, unread, infinite])
        # Another partition that does not shift is watched by itself.
        processor.process([query(at, np.array([0.5, at % 2]), partition=1) for at in range(begin, begin + 37)])
        scorer.turn(processor)
    assert only(scorer.registry, metric_names.QUERY_DRIFTS) == 1.0
    processor.keep_watches({0})
    scorer.turn(processor)
    shifts, spreads = reference.shifts()
    told = [series(scorer.registry, metric) for metric in (metric_names.QUERY_SHIFT, metric_names.QUERY_SPREAD)]
    assert told == [dict(zip((("a",), ("b",)), values.tolist(), strict=True)) for values in (shifts, spreads)]
    processor.keep_watches(set())
    scorer.turn(processor)
    assert series(scorer.registry, metric_names.QUERY_SHIFT) == {}
    assert only(scorer.registry, metric_names.QUERY_DRIFTS) == 1.0, "a counter never goes down"


# Workers -------------------------------------------------------------------------------------------------------------


def test_a_rebuild_is_timed_from_the_assignment_until_the_source_serves(worker: WorkerMetrics, clock: Clock) -> None:
    ages = []
    for now, sources, waiting in (
        (10.0, {}, (0, 1)),
        (13.0, {0: source(serving=False)}, (1,)),
        (17.0, {0: source()}, (1,)),
        (19.0, {0: source(), 1: source(1)}, ()),
        (30.0, {0: source(), 1: source(1)}, ()),
    ):
        clock.now = now
        worker.turn(sources, waiting, joined=True)
        ages.append(series(worker.registry, metric_names.REBUILDING))
    assert ages[1] == {("here", "0"): 3.0, ("here", "1"): 3.0}
    assert ages[2] == {("here", "0"): 0.0, ("here", "1"): 7.0}
    assert ages[4] == {("here", "0"): 0.0, ("here", "1"): 0.0}
    assert only(worker.registry, metric_names.REBUILD_SECONDS, "_count") == 2.0
    assert only(worker.registry, metric_names.REBUILD_SECONDS, "_sum") == 7.0 + 9.0


def test_a_source_that_is_given_up_has_no_series_and_no_rebuild_of_it_is_counted(worker: WorkerMetrics) -> None:
    worker.turn({0: source(serving=False)}, (1,), joined=True)
    worker.turn({}, (), joined=True)
    assert series(worker.registry, metric_names.REBUILDING) == {}
    assert series(worker.registry, metric_names.ROWS_HELD) == {}
    assert only(worker.registry, metric_names.REBUILD_SECONDS, "_count") == 0.0


def test_the_time_from_sample_to_model_is_that_of_the_first_model_with_the_delta(worker: WorkerMetrics) -> None:
    processor = source()
    worker.delta(processor, 4, [record(999_000), record(999_500, 1)], DELTA)
    worker.delta(processor, 5, [record(999_900)], DELTA)
    worker.delta(processor, 6, [], DELTA)
    worker.model(model(1, positions=(position(sequence=4),), created=1_000_000))
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_count") == 0.0
    worker.model(model(2, positions=(position(sequence=5),), created=1_000_000))
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_sum") == 0.5
    worker.model(model(3, positions=(position(sequence=7),), created=1_002_000))
    worker.model(model(4, positions=(position(sequence=7),), created=1_009_000))
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_count") == 2.0
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_sum") == pytest.approx(0.5 + 2.1)
    assert only(worker.registry, metric_names.DELTA_BYTES, "_count") == 3.0
    assert only(worker.registry, metric_names.DELTA_BYTES, "_sum") == 3000.0


def test_a_delta_that_was_never_accepted_is_not_found_in_what_another_writer_brought(worker: WorkerMetrics) -> None:
    worker.delta(source(writer="w.1"), 0, [record(900_000)], DELTA)
    worker.model(model(1, positions=(position(sequence=9, owner="v.1"),)))
    worker.delta(source(writer="w.2"), 9, [record(1_000_000)], DELTA)
    worker.model(model(2, positions=(position(sequence=10, owner="w.2"),), created=1_000_250))
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_count") == 1.0
    assert only(worker.registry, metric_names.SAMPLE_TO_MODEL, "_sum") == 0.25


def test_rounding_is_the_largest_of_all_sources_in_units_and_in_steps(worker: WorkerMetrics) -> None:
    one, other = source(), source(1)
    one._intake.rounding_error, other._intake.rounding_error = np.array([0.1, 0.2]), np.array([0.4, 0.0])
    worker.turn({0: one, 1: other}, (), joined=True)
    assert series(worker.registry, metric_names.ROUNDING) == {("a",): 0.4, ("b",): 0.2}
    assert only(worker.registry, metric_names.ROUNDING_STEPS) == 0.4


def test_features_that_shift_are_told_without_labels_by_the_partition_that_shifted_most(worker: WorkerMetrics) -> None:
    one, other = source(), source(1)
    worker.turn({0: one, 1: other}, (), joined=True)
    assert only(worker.registry, metric_names.DRIFTS) == 0.0
    assert series(worker.registry, metric_names.FEATURE_SHIFT) == {}
    rows = np.random.default_rng(3).normal(size=(2000, 2))
    for processor, by in ((one, 0.2), (other, -0.1)):
        assert processor.watch is not None
        processor.watch.add(rows + by * (np.arange(2000) >= 1000)[:, None])
    assert one.watch is not None
    one.watch.drifts = 2
    worker.turn({0: one, 1: other}, (), joined=True)
    worker.turn({0: one}, (1,), joined=True)
    assert only(worker.registry, metric_names.DRIFTS) == 2.0
    usual = (rows[1000:].mean(axis=0) - rows[:1000].mean(axis=0)) / rows[:1000].std(axis=0)
    shifted = usual + 0.2 / rows[:1000].std(axis=0)
    assert list(series(worker.registry, metric_names.FEATURE_SHIFT).values()) == pytest.approx(shifted.tolist())
    assert set(series(worker.registry, metric_names.FEATURE_SPREAD)) == {("a",), ("b",)}


# All services --------------------------------------------------------------------------------------------------------


def test_dead_letters_are_counted_by_reason_from_zero_on(worker: WorkerMetrics) -> None:
    assert series(worker.registry, metric_names.DEAD_LETTERS) == {
        (reason,): 0.0 for reason in label_values.DEAD_LETTER_REASONS
    }
    bad = [dead_letter(record(0), kind, "why", 10) for kind in ("bad value", "bad value", "late", "of a later version")]
    worker.published([*bad, Outgoing(DEAD_LETTERS, 0, None, b"no letter"), Outgoing(MODELS, 0, None, b"")])
    counted = {
        reason: count for (reason,), count in series(worker.registry, metric_names.DEAD_LETTERS).items() if count
    }
    assert counted == {"bad_value": 2.0, "late": 1.0, "other": 2.0}


def test_lags_and_commits_are_shown_by_topic_without_the_streams_name(
    merger: MergerMetrics, worker: WorkerMetrics
) -> None:
    merger.lags({(DELTAS, 0): 5, (DELTAS, 1): 0})
    worker.lags({(SAMPLES, 1): 7})
    assert series(worker.registry, metric_names.LAG) == {(SAMPLES, "here", "1"): 7.0}
    assert series(merger.registry, metric_names.LAG) == {(DELTAS, "", "0"): 5.0, (DELTAS, "", "1"): 0.0}
    merger.delivered("s.models", 0.02)
    merger.delivered("models", 0.03)
    assert series(merger.registry, metric_names.COMMIT_SECONDS, "_count") == {(MODELS,): 2.0}
    assert series(merger.registry, metric_names.COMMIT_SECONDS, "_sum")[MODELS,] == pytest.approx(0.05)


def test_lags_are_looked_at_once_a_second_however_many_turns_it_has(merger: MergerMetrics, clock: Clock) -> None:
    looks: list[float] = []

    def look() -> dict[tuple[str, int], int]:
        looks.append(clock.now)
        return {(DELTAS, 0): len(looks)}

    for _ in range(9):
        merger.look_at_lags(look)
        clock.now += LAG_SECONDS / 4
    assert looks == [0.0, LAG_SECONDS, 2 * LAG_SECONDS]
    assert series(merger.registry, metric_names.LAG) == {(DELTAS, "", "0"): 3.0}


def test_batches_that_no_client_reads_are_counted_from_zero_on_for_every_topic_that_a_service_reads(
    merger: MergerMetrics, worker: WorkerMetrics
) -> None:
    """Of a counter that begins with its first count no alert sees an increase."""
    for role, metrics in (("merger", merger), ("worker", worker), ("scorer", ScorerMetrics(BINARY))):
        begun = series(metrics.registry, metric_names.SILENT_BATCHES)
        rights = [right for right in ROLES[role].rights if right.resource == "topic" and "Read" in right.operations]
        assert begun == {(right.name,): 0.0 for right in rights}
    assert (CHECKPOINTS,) in series(merger.registry, metric_names.SILENT_BATCHES)


def test_solving_is_timed_where_there_was_something_to_solve(merger: MergerMetrics) -> None:
    merger.solved(0.5, Output())
    merger.solved(0.25, Output(then=(Outgoing(MODELS, 0, b"s", b"model"),)))
    assert only(merger.registry, metric_names.SOLVE_SECONDS, "_count") == 1.0
    assert only(merger.registry, metric_names.SOLVE_SECONDS, "_sum") == 0.25
    merger.turn({Verdict.ACCEPTED: 3, Verdict.STALE_WRITER: 1}, joined=True, has_place=True)
    judged = {verdict: count for (verdict,), count in series(merger.registry, metric_names.DELTAS).items() if count}
    assert judged == {"accepted": 3.0, "stale_writer": 1.0}


def test_void_prequential_counts_are_counted_while_elected_and_the_solver_is_named_standing_by_too(
    merger: MergerMetrics,
) -> None:
    merger.turn({Verdict.ACCEPTED: 9}, joined=True, has_place=True, void_prequential_counts=4)
    assert only(merger.registry, metric_names.VOID_TRIALS) == 4.0
    merger.turn(None, joined=True, has_place=False)
    assert only(merger.registry, metric_names.VOID_TRIALS) == 0.0
    assert series(merger.registry, metric_names.SOLVER) == {(solver_digest(BINARY),): 1.0}


def test_predictions_and_what_could_not_be_answered_are_counted() -> None:
    scorer = ScorerMetrics(BINARY)
    told = (PREDICTION, PREDICTION, UNANSWERED, PREDICTION)
    answers = tuple(outgoing("predictions", 0, b"", one) for one in told)
    scorer.answered(Output((dead_letter(record(0), "bad record", "why", 10),), answers))
    assert only(scorer.registry, metric_names.PREDICTIONS) == 3.0
    assert series(scorer.registry, metric_names.DEAD_LETTERS)["bad_record",] == 1.0


def services() -> Iterator[WorkerMetrics | MergerMetrics | ScorerMetrics]:
    yield from (WorkerMetrics(BINARY, "here"), MergerMetrics(BINARY), ScorerMetrics(BINARY))


def test_every_service_says_what_it_is_and_how_much_memory_it_takes() -> None:
    for service in services():
        assert len(series(service.registry, metric_names.BUILD)) == 1
        assert exported(service.registry)["process_resident_memory_bytes"][0][1] > 0
        assert not [name for name in exported(service.registry) if name.endswith("_created")]


# Topics --------------------------------------------------------------------------------------------------------------


def test_unsafe_settings_are_counted_by_topic_and_a_topic_that_may_not_be_seen_has_no_series(
    worker: WorkerMetrics,
) -> None:
    assert series(worker.registry, metric_names.UNSAFE_SETTINGS) == {}
    worker.unsafe_topics({"samples": 2, "deltas": 0})
    assert series(worker.registry, metric_names.UNSAFE_SETTINGS) == {("samples",): 2.0, ("deltas",): 0.0}
    worker.unsafe_topics({"samples": 0, "deltas": 0})
    assert series(worker.registry, metric_names.UNSAFE_SETTINGS) == {("samples",): 0.0, ("deltas",): 0.0}


def test_records_let_go_of_are_added_up_and_the_logs_begin_where_they_were_last_seen_to(clock: Clock) -> None:
    merger = MergerMetrics(BINARY, clock, site="here")
    merger.trimmed({}, {("samples", 0): 0, ("retirements", 0): 0})
    merger.trimmed({("samples", 0): 70}, {("samples", 0): 70, ("retirements", 0): 0})
    merger.trimmed({("samples", 0): 30}, {("samples", 0): 100, ("retirements", 0): 0})
    assert series(merger.registry, metric_names.TRIMMED) == {
        ("samples", "here", "0"): 100.0,
        ("retirements", "here", "0"): 0.0,
    }
    assert series(merger.registry, metric_names.LOG_BEGIN)["samples", "here", "0"] == 100.0
