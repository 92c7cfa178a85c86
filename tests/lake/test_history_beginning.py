"""A live source that begins with a history comes to the digest of its log read from the beginning."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from broker_log import BrokerLog, Killed
from crashing_runner import CrashingRunner
from deltaplane.log.delta import Source
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_sample_batch
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.processors.history_beginning import SourceBounds, begin_source
from deltaplane_services.processors.history_source import HistoryRefused, HistorySource
from deltaplane_services.processors.messages import DELTAS, SAMPLES, Outgoing
from lake_tables import TABLES
from simulation.lakes import rows_of

TABLES_WITHOUT_ROWS = {**TABLES, "window": {"length": "all", "keep_rows": False}}
DEFINITION = StreamDefinition.from_tables(TABLES_WITHOUT_ROWS)
LIVE = Source("local", 0)
ROWS, BATCH = 60, 5
BOUNDS = SourceBounds((0, ROWS // BATCH), (0, 0))


def ids_before(cut: int) -> list[str]:
    return [f"row-{at}" for at in range(cut * BATCH)]


def history_of(cut: int, definition: StreamDefinition = DEFINITION) -> HistorySource:
    """The history of a log up to a cut."""
    partial = Partial.of(definition, rows_of(ids_before(cut)))
    return HistorySource(definition, LIVE, History(definition, partial), "0123456789abcdef")


def world(batches: int = ROWS // BATCH) -> CrashingRunner:
    """A stream whose log has so many records."""
    runner = CrashingRunner(DEFINITION, options=RunnerOptions(keep_log=True))
    for at in range(batches):
        ids = [f"row-{row}" for row in range(at * BATCH, (at + 1) * BATCH)]
        value = write_sample_batch(rows_of(ids), DEFINITION.data_fingerprint)
        runner.broker.append(Outgoing(SAMPLES, 0, None, value), at)
    return runner


@pytest.mark.parametrize("cut", [1, 7, 12])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_the_worker_goes_on_at_the_cut_and_all_is_as_if_it_had_read_the_log(cut: int, *, is_trimmed: bool) -> None:
    runner, now = world(), itertools.count(100)
    assert begin_source(history_of(cut), BrokerLog(runner.broker, DEFINITION), cut, BOUNDS)
    if is_trimmed:
        runner.broker.trim(SAMPLES, 0, cut)
    runner.crash_worker(0, next(now))
    runner.drain(next(now))
    whole = world()
    whole.drain(next(now))
    data = DEFINITION.data_fingerprint
    assert runner.merger.merger.statistics.digest(data) == whole.merger.merger.statistics.digest(data)
    state, expected = (BrokerLog(one.broker, DEFINITION).state(LIVE) for one in (runner, whole))
    assert (state.samples_position, state.rebuild.slots_to) == (expected.samples_position, expected.rebuild.slots_to)
    assert state.counts["applied"] == ROWS


@pytest.mark.parametrize("step", range(2))
def test_killed_at_any_step_and_run_again_it_begins_once(step: int) -> None:
    broker = EmbeddedBroker(1)
    with pytest.raises(Killed):
        begin_source(history_of(7), BrokerLog(broker, DEFINITION, step), 7, BOUNDS)
    assert begin_source(history_of(7), BrokerLog(broker, DEFINITION), 7, BOUNDS)
    assert not begin_source(history_of(7), BrokerLog(broker, DEFINITION), 7, BOUNDS)
    assert broker.end(DELTAS, 0) == 2


def test_what_a_worker_reads_that_had_claimed_before_is_dropped_and_its_next_life_goes_on_at_the_cut() -> None:
    runner, history = world(), history_of(7)
    assert begin_source(history, BrokerLog(runner.broker, DEFINITION), 7, BOUNDS)
    runner.round(200)
    state = BrokerLog(runner.broker, DEFINITION).state(LIVE)
    assert state.statistics == history.statistics
    assert state.dropped["stale writer"] > 0
    runner.crash_worker(0, 300)
    runner.drain(300)
    state = BrokerLog(runner.broker, DEFINITION).state(LIVE)
    assert state.statistics == Partial.of(DEFINITION, rows_of(ids_before(12))).statistics


def test_a_source_that_has_begun_is_left_alone() -> None:
    runner = world()
    runner.drain(100)
    end = runner.broker.end(DELTAS, 0)
    with pytest.raises(HistoryRefused, match="has begun: 12 samples are read"):
        begin_source(history_of(7), BrokerLog(runner.broker, DEFINITION), 7, BOUNDS)
    assert runner.broker.end(DELTAS, 0) == end


@pytest.mark.parametrize(
    ("cut", "begin", "match"),
    [
        (13, 0, "to the end of the log, which is 12, got 13"),
        (0, 0, "expected a cut from 1"),
        (7, 9, "begins at offset 9, so that those from 7 to 8 are neither"),
    ],
)
def test_a_cut_at_which_the_log_does_not_go_on_is_refused(cut: int, begin: int, match: str) -> None:
    broker = EmbeddedBroker(1)
    with pytest.raises(HistoryRefused, match=match):
        begin_source(history_of(7), BrokerLog(broker, DEFINITION), cut, replace(BOUNDS, samples=(begin, 12)))
    assert broker.end(DELTAS, 0) == 0


def test_retirements_that_are_gone_are_passed_over() -> None:
    log = BrokerLog(EmbeddedBroker(1), DEFINITION)
    assert begin_source(history_of(7), log, 7, replace(BOUNDS, retirements=(3, 5)))
    state = log.state(LIVE)
    assert (state.retirements_position, state.rebuild.retirements_window_from) == (3, 3)


def test_where_ids_matter_it_is_refused() -> None:
    keeps = StreamDefinition.from_tables(TABLES)
    log = BrokerLog(EmbeddedBroker(1), keeps)
    with pytest.raises(HistoryRefused, match="only a stream that keeps no rows"):
        begin_source(history_of(7, keeps), log, 7, BOUNDS)
    history = history_of(7)
    partial = history.history.partial.without(Partial.of(DEFINITION, rows_of(["row-1"])).statistics, {"replaced": 1})
    left_out = replace(history, history=History(DEFINITION, partial))
    with pytest.raises(HistoryRefused, match=r"left out of the history by their ids \(1 replaced\)"):
        begin_source(left_out, BrokerLog(EmbeddedBroker(1), DEFINITION), 7, BOUNDS)
