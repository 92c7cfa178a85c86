"""Clocks that are not right, from the outside of a worker: what is refused, moved, counted and said of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crashing_runner import CrashingRunner
from deltaplane.log.delta import Delta
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_claim_or_delta, read_dead_letter, write_sample, write_sample_batch
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.kafka.clocks import BETWEEN_SECONDS, ClockWarnings
from deltaplane_services.observe.metrics import MergerMetrics, WorkerMetrics, metric_names
from deltaplane_services.processors.messages import DEAD_LETTERS, DELTAS, SAMPLES, Outgoing
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.produce.event_clock import longest_step, refuse_bogus_times
from deltaplane_services.readers import RowBlock
from services.metrics_models import only, series, stream

NOW, SECOND, HOUR, DAY, YEAR = 1_750_000_000_000, 1_000, 3_600_000, 86_400_000, 365 * 86_400_000
TIMED = stream(window={"length": "1h"})


class Live:
    """A stream in this process whose log has the time that a test gives it."""

    def __init__(self, definition: StreamDefinition = TIMED) -> None:
        self.definition = definition
        self.runner = CrashingRunner(definition, options=RunnerOptions(keep_log=True))
        self.sent = 0

    @property
    def broker(self) -> EmbeddedBroker:
        return self.runner.broker

    @property
    def worker(self) -> WorkerProcessor:
        return self.runner._workers[0].sources[0]

    @property
    def model(self) -> Model:
        assert self.runner.merger.model is not None
        return self.runner.merger.model

    def put(self, *times: int, now: int = NOW, partition: int = 0) -> None:
        """Samples of these event times are appended at a time of the log, and go their way into a model."""
        for time in times:
            label, values = ("no", "yes")[self.sent % 2], (float(self.sent % 7), float(self.sent % 5))
            value = write_sample(f"s{self.sent}", time, label, values, self.definition.data_fingerprint)
            self.broker.append(Outgoing(SAMPLES, partition, None, value), now)
            self.sent += 1
        self.runner.drain(now)

    def letters(self) -> list[DeadLetter]:
        return [read_dead_letter(record.value) for record in self.broker.fetch_topic(DEAD_LETTERS)]

    @property
    def live(self) -> int:
        return sum(self.model.counts.values())


@pytest.mark.parametrize("ahead", [2 * HOUR, HOUR * 9 // 10, 23 * HOUR, 10 * YEAR, 6 * 60 * SECOND + 1])
def test_one_clock_that_is_ahead_neither_empties_a_window_nor_makes_anybody_late(ahead: int) -> None:
    live = Live(stream(window={"length": "1h"}, partitions=3, partitioner="crc32"))
    for partition in range(3):
        live.put(*range(NOW - 40 * SECOND, NOW, SECOND), partition=partition)
    live.put(NOW + ahead, partition=1)
    for partition in range(3):
        live.put(*range(NOW, NOW + 40 * SECOND, SECOND), now=NOW + 40 * SECOND, partition=partition)
    assert live.live == 240
    assert live.model.totals.get("late", 0) == live.model.totals.get("expired", 0) == 0
    (letter,) = live.letters()
    assert letter.kind == "bogus time"
    assert f"is {ahead} ms ahead of the log, expected at most 360000 ms (max_skew)" in letter.reason


def test_a_clock_within_the_skew_ends_windows_early_by_what_it_is_ahead_and_by_no_more() -> None:
    live, ahead = Live(), 6 * 60 * SECOND
    live.put(NOW - HOUR + ahead, NOW - HOUR + ahead + 1, NOW)
    live.put(NOW + ahead)
    assert live.live == 3
    assert live.model.totals["expired"] == 1
    live.put(NOW - HOUR + ahead + 2)
    assert live.model.totals.get("late", 0) == 0


@pytest.mark.parametrize("seed", range(4))
def test_however_many_workers_read_however_much_at_once_clocks_that_are_ahead_come_to_the_same_rows(seed: int) -> None:
    definition = stream(window={"length": ["20m", "1h"]}, partitions=3, partitioner="crc32")
    draw, skew = np.random.default_rng(seed), definition.max_skew_milliseconds
    reference, log = Reference(definition), []
    for at in range(400):
        log_time, partition = NOW + at * 15 * SECOND, int(draw.integers(3))
        ahead = int(
            draw.choice([0, 0, 0, -SECOND, -30 * 60 * SECOND, -2 * HOUR, skew // 2, skew, skew + 1, HOUR, YEAR])
        )
        features = draw.integers(-9, 9, (1, 2)).astype(np.float64)
        rows = Samples.of_record([f"s{at}"], log_time + ahead, ("no", "yes"), np.array([at % 2], np.int32), features)
        reference.add(partition, rows.at(at, log_time))
        log.append(
            (Outgoing(SAMPLES, partition, None, write_sample_batch(rows, definition.data_fingerprint)), log_time)
        )
    digests = set()
    for workers, records in ((1, 500), (1, 1), (3, 500), (3, 7)):
        runner = CrashingRunner(definition, workers, RunnerOptions(records_per_poll=records, seed=seed))
        for outgoing, log_time in log:
            runner.broker.append(outgoing, log_time)
        runner.drain(log[-1][1])
        assert runner.merger.model is not None
        digests.add(runner.merger.model.digest)
        assert runner.merger.model.watermark == reference.watermark <= log[-1][1] + skew
    assert digests == {reference.statistics().digest(definition.data_fingerprint)}, f"seed {seed}"


def forge(live: Live, change: Callable[[Model], Model], log_time: int = NOW) -> None:
    forged = replace(change(live.model), version=live.runner.merger.merger.version + 1)
    live.runner.merger.see_model(forged)
    live.worker.see_model(forged, log_time)
    live.runner.drain(NOW)


@pytest.mark.parametrize("years", [1, 10, 1000])
def test_a_forged_model_moves_no_window_and_is_counted(years: int) -> None:
    live = Live()
    live.put(*range(NOW - HOUR + SECOND, NOW, 60 * SECOND))
    rows = live.live
    forge(live, lambda model: replace(model, watermark=NOW + years * YEAR))
    (position,) = live.model.positions
    forge(live, lambda model: replace(model, positions=(replace(position, watermark=NOW + years * YEAR),)))
    assert (live.live, live.worker.ignored_watermarks) == (rows, 2)
    live.put(NOW - HOUR + 2 * SECOND)
    assert live.live == rows + 1
    # What the worker applied is in its deltas, so whoever takes over stands where it stood.
    deltas = [read_claim_or_delta(record.value, 3) for record in live.broker.fetch(DELTAS, 0, 0)]
    assert max(delta.rebuild.watermark for delta in deltas if isinstance(delta, Delta)) < NOW
    live.runner.crash_worker(0, NOW)
    live.put(NOW - SECOND)
    assert live.live == rows + 2


def test_an_honest_model_moves_a_partition_that_has_no_rows_of_its_own() -> None:
    live = Live(stream(window={"length": "1h"}, partitions=2, partitioner="crc32"))
    live.put(NOW - HOUR + SECOND, NOW, partition=0)
    live.put(NOW + 2 * SECOND, now=NOW + 2 * SECOND, partition=1)
    assert (live.live, live.model.totals["expired"]) == (2, 1)
    assert live.worker.ignored_watermarks == 0


def test_where_a_producer_writes_the_time_of_the_log_itself_it_ends_the_windows_of_its_own_partition_alone() -> None:
    live = Live(stream(window={"length": "1h"}, partitions=2, partitioner="crc32"))
    live.put(*range(NOW - 20 * SECOND, NOW, SECOND), partition=0)
    live.put(*range(NOW - 20 * SECOND, NOW, SECOND), partition=1)
    values = write_sample("future", NOW + HOUR, "yes", (1.0, 1.0), live.definition.data_fingerprint)
    live.broker.append(Outgoing(SAMPLES, 1, None, values), NOW + HOUR)
    live.put(NOW, NOW, partition=0)
    assert (live.live, live.model.totals["expired"]) == (23, 20)
    assert live.worker.ignored_watermarks > 0


def test_a_worker_without_windows_of_time_asks_no_watermark_whether_it_can_be() -> None:
    live = Live(stream())
    live.put(NOW)
    forge(live, lambda model: replace(model, watermark=NOW + YEAR))
    assert live.worker.ignored_watermarks == 0


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ((NOW - 2 * HOUR) // 1000, "it looks like seconds since the epoch, expected milliseconds"),
        (NOW - 2 * HOUR, f"event time {NOW - 2 * HOUR} ms is {2 * HOUR} ms behind the log"),
    ],
)
def test_a_late_row_is_told_how_far_behind_it_is_and_in_which_unit_it_seems_to_be(late: int, words: str) -> None:
    live = Live()
    live.put(NOW)
    live.put(late)
    (letter,) = live.letters()
    assert letter.kind == "late"
    assert "lies outside the window" in letter.reason
    assert words in letter.reason
    assert ("looks like" in letter.reason) == ("looks like" in words)


def test_rows_in_seconds_are_counted_although_an_empty_window_takes_them_and_a_log_line_names_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live, metrics, now = Live(), WorkerMetrics(TIMED, "local"), [0.0]
    warnings = ClockWarnings(TIMED, lambda: now[0])
    live.put(*((NOW - at * SECOND) // 1000 for at in range(100)))
    assert (live.live, live.letters()) == (100, [])
    for _ in range(2):
        metrics.turn({0: live.worker}, (), joined=True)
        warnings.tell([live.worker])
    assert only(metrics.registry, metric_names.LIKE_SECONDS, "") == 100.0
    assert [message.count("100 rows have event times that look like seconds") for message in caplog.messages] == [1]
    live.put(NOW // 1000)
    warnings.tell([live.worker])
    assert len(caplog.messages) == 1
    now[0] = BETWEEN_SECONDS
    warnings.tell([live.worker])
    assert "101 rows" in caplog.messages[-1]


def test_how_far_event_times_are_ahead_of_the_log_is_exported_by_source_beside_what_is_allowed() -> None:
    live, metrics = Live(), WorkerMetrics(TIMED, "local")
    metrics.turn({0: live.worker}, (), joined=True)
    assert series(metrics.registry, metric_names.EVENT_TIME_AHEAD) == {}
    assert only(metrics.registry, metric_names.MAX_SKEW, "") == 360.0
    live.put(NOW - SECOND, NOW + 90 * SECOND)
    metrics.turn({0: live.worker}, (), joined=True)
    assert series(metrics.registry, metric_names.EVENT_TIME_AHEAD) == {("local", "0"): 90.0}
    live.put(NOW + 95 * SECOND, now=NOW + 100 * SECOND)
    metrics.turn({0: live.worker}, (), joined=True)
    assert series(metrics.registry, metric_names.EVENT_TIME_AHEAD) == {("local", "0"): -5.0}
    untimed = WorkerMetrics(stream(), "local")
    assert only(untimed.registry, metric_names.MAX_SKEW, "") == math.inf


def test_what_was_passed_over_stays_counted_when_a_source_has_left() -> None:
    live, metrics = Live(), WorkerMetrics(TIMED, "local")
    live.put(NOW)
    forge(live, lambda model: replace(model, watermark=NOW + YEAR))
    old = live.worker
    metrics.turn({0: old}, (), joined=True)
    live.runner.crash_worker(0, NOW)
    live.put(NOW + 1)
    forge(live, lambda model: replace(model, watermark=NOW + YEAR))
    for sources in ({}, {0: live.worker}, {0: old}):
        metrics.turn(sources, (), joined=True)
    assert only(metrics.registry, metric_names.IGNORED_WATERMARKS, "") == 2.0
    merging = MergerMetrics(TIMED)
    merging.turn({}, joined=True, has_place=True, ignored_watermarks=3)
    assert only(merging.registry, metric_names.IGNORED_WATERMARKS, "") == 3.0


@pytest.mark.parametrize(("skew", "said"), [({}, 0), ({"max_skew": "30m"}, 0), ({"max_skew": "1d"}, 1)])
def test_a_max_skew_by_which_one_clock_may_empty_a_window_is_said_at_the_start(
    skew: dict[str, Any], said: int, caplog: pytest.LogCaptureFixture
) -> None:
    ClockWarnings(stream(window={"length": "1h"}, **skew))
    ClockWarnings(stream(**skew))
    assert sum("max_skew is 1d and the shortest window 1h" in message for message in caplog.messages) == said


# Files ---------------------------------------------------------------------------------------------------------------


def refused(times: list[int], definition: StreamDefinition) -> list[int]:
    """Line numbers of rows whose event times a replay refuses."""
    block = RowBlock(
        features=np.zeros((len(times), 2)),
        labels=["no"] * len(times),
        ids=None,
        event_times_milliseconds=np.array(times, dtype=np.int64),
        line_numbers=np.arange(len(times), dtype=np.int64),
        refused=(),
    )
    blocks = refuse_bogus_times([block], longest_step(definition))
    return [row.line_number for after in blocks for row in after.refused]


@pytest.mark.parametrize("window", ["10s", "1h", "7d"])
@pytest.mark.parametrize("gap", [20 * 60 * SECOND, HOUR, 23 * HOUR])
def test_a_file_whose_rows_are_far_apart_loses_none_of_them_to_a_window_that_is_short(window: str, gap: int) -> None:
    definition = stream(window={"length": window})
    times = [NOW + at * gap for at in range(50)]
    assert refused(times, definition) == []
    # Nor one that is there before its time, and has nobody behind it to bear witness.
    assert refused([*times, times[0], times[-1] + gap], definition) == []
    assert refused([*times[:20], NOW + 10 * YEAR, *times[20:]], definition) == [20]


def test_a_max_skew_that_a_definition_declares_holds_for_files_as_it_did() -> None:
    times = [NOW, NOW + 1, NOW + 2 * HOUR, NOW + 2]
    assert refused(times, stream(window={"length": "7d"}, max_skew="1h")) == [2]
    assert refused(times, stream(window={"length": "7d"}, max_skew="1d")) == []
    assert refused(times, stream(window={"length": "7d"})) == []


def test_a_definition_that_a_replay_has_written_down_judges_a_file_alike() -> None:
    definition = stream(window={"length": "1h"})
    assert longest_step(StreamDefinition.from_tables(definition.to_tables())) == longest_step(definition) == DAY
