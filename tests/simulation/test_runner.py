"""The embedded runner: how the work is shared out, cut up or repeated changes nothing of what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pytest

from crashing_runner import CrashingRunner
from deltaplane.errors import DeltaGap, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Source, SourceState, Verdict
from deltaplane.log.model import Model
from deltaplane.log.records import Prediction, Query, Unanswered
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement
from deltaplane.wire import (
    read_answer,
    read_claim_or_delta,
    read_dead_letter,
    read_model,
    read_prediction,
    read_receipt,
    write_query,
    write_retirement,
    write_sample,
    write_sample_batch,
)
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker, OffsetOutOfRange
from deltaplane_services.embedded.embedded_runner import RunnerOptions, start_merger, take_source
from deltaplane_services.processors import codec as codec_module
from deltaplane_services.processors.codec import Codec, read_published_samples
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    Encoding,
    Outgoing,
)
from deltaplane_services.processors.recovery import accepted_state
from golden.wire_examples import by_content
from strategies_streams import Record, Row, definition_of, samples_of

NOW = 1_000_000


@dataclass(frozen=True)
class Delivery:
    """How rows are sent and processed: rows a record, records between rounds, and by how many workers."""

    rows_per_record: int = 5
    records_per_round: int = 3
    workers: int = 1
    single: bool = False
    twice: bool = False


def rows_of(seed: int, count: int = 150) -> list[Row]:
    """Rows of few ids, so that corrections and duplicates abound, with event times out of order."""
    random = np.random.default_rng(seed)
    return [
        Row(
            f"s{random.integers(0, count)}",
            "xyz"[random.integers(0, 3)],
            tuple(random.integers(-500, 500, size=2).astype(float)),
            NOW + int(random.integers(-50, 3 * at + 1)),
        )
        for at in range(count)
    ]


def delivered(
    definition: StreamDefinition, rows: Sequence[Row], retired: Sequence[str] = (), delivery: Delivery | None = None
) -> CrashingRunner:
    """A runner that has been sent everything, and is drained."""
    delivery = delivery or Delivery()
    runner = CrashingRunner(definition, delivery.workers, RunnerOptions(keep_log=True))
    now = NOW + 10_000
    for times in range(1 + delivery.twice):
        for start in range(0, len(rows), delivery.rows_per_record):
            send(runner.broker, definition, rows[start : start + delivery.rows_per_record], now, single=delivery.single)
            if start // delivery.rows_per_record % delivery.records_per_round == 0:
                runner.round(now)
        for sample_id in retired if not times else ():
            value = write_retirement(Retirement(sample_id, "asked", 0), definition.data_fingerprint)
            partition = definition.partition_of(sample_id)
            runner.broker.append(Outgoing(RETIREMENTS, partition, None, value), now)
    runner.drain(now)
    return runner


def send(broker: EmbeddedBroker, definition: StreamDefinition, rows: Sequence[Row], now: int, *, single: bool) -> None:
    """Some rows, each to the partition of its id, together or one by one."""
    for partition in range(definition.partitions):
        mine = [row for row in rows if definition.partition_of(row.id) == partition]
        records: list[Record] = [(row,) for row in mine] if single else [tuple(mine)] if mine else []
        for record in records:
            value = write_sample_batch(samples_of([record], 0, 2), definition.data_fingerprint)
            if single:
                row = record[0]
                value = write_sample(row.id, row.time, row.label, row.values, definition.data_fingerprint)
            broker.append(Outgoing(SAMPLES, partition, None, value), now)


def end(runner: CrashingRunner) -> str:
    """The digest of the last model, which is that of the reference, too."""
    model = runner.merger.model
    assert model is not None
    assert model.digest == runner.merger.merger.statistics.digest(runner.definition.data_fingerprint)
    return model.digest


def batch(definition: StreamDefinition, rows: Sequence[Row], retired: Sequence[str] = ()) -> str:
    """The digest of the same rows from scratch."""
    reference = Reference(definition)
    for row in rows:
        reference.add(definition.partition_of(row.id), samples_of([(row,)], 0, 2))
    for sample_id in retired:
        reference.retire(sample_id)
    return reference.statistics().digest(definition.data_fingerprint)


WINDOWS = [("all",), ("40",), ("100ms",), ("10", "60"), ("50ms", "200ms")]
RETIRED = ("s3", "s50", "s77", "s3", "nobody")


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize(
    "delivery",
    [
        Delivery(rows_per_record=1, records_per_round=1),
        Delivery(rows_per_record=1, single=True),
        Delivery(rows_per_record=40),
        Delivery(records_per_round=1000),
        Delivery(workers=3),
        Delivery(rows_per_record=2, workers=2),
    ],
)
def test_how_rows_are_cut_into_records_rounds_and_workers_changes_nothing(
    windows: tuple[str, ...], delivery: Delivery
) -> None:
    definition = definition_of(*windows, partitions=3, features=2)
    rows = rows_of(len(windows))
    assert end(delivered(definition, rows, RETIRED, delivery)) == batch(definition, rows, RETIRED)


@pytest.mark.parametrize("windows", [("all",), ("100ms",), ("50ms", "200ms")])
def test_how_many_partitions_there_are_changes_nothing_once_the_input_is_drained(windows: tuple[str, ...]) -> None:
    rows = rows_of(5)
    digests = {
        end(delivered(definition_of(*windows, partitions=partitions, features=2), rows, RETIRED))
        for partitions in (1, 2, 5)
    }
    assert len(digests) == 1


def test_everything_sent_twice_is_everything_sent_once() -> None:
    definition = definition_of("all", partitions=2, features=2)
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(6))]
    once, twice = delivered(definition, rows), delivered(definition, rows, delivery=Delivery(twice=True))
    assert end(once) == end(twice)
    assert twice.merger.merger.totals["duplicate"] == once.merger.merger.totals["applied"] == len(rows)


def test_rows_shuffled_are_rows_in_order_where_the_window_is_everything() -> None:
    definition = definition_of("all", partitions=2, features=2)
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(7))]
    order = np.random.default_rng(7).permutation(len(rows))
    retired = ("u5", "u140")
    assert end(delivered(definition, rows, retired)) == end(delivered(definition, [rows[at] for at in order], retired))


def test_without_rows_the_sums_are_the_same() -> None:
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(8))]
    kept, not_kept = (
        delivered(definition_of("all", partitions=2, features=2, keep_rows=keep_rows), rows)
        for keep_rows in (True, False)
    )
    assert end(kept) == end(not_kept)


@pytest.mark.parametrize("windows", WINDOWS)
def test_crashes_and_rebalances_at_every_round_change_nothing(windows: tuple[str, ...]) -> None:
    definition = definition_of(*windows, partitions=3, features=2)
    runner = CrashingRunner(definition, 1, RunnerOptions(keep_log=True, seed=4))
    rows, now = rows_of(9), NOW + 10_000
    for at, start in enumerate(range(0, len(rows), 10)):
        send(runner.broker, definition, rows[start : start + 10], now, single=False)
        runner.round(now)
        runner.rebalance(now, workers=(3, 1, 2)[at % 3])
        runner.crash_worker(0, now)
        if at % 4 == 0:
            runner.checkpoint(now)
        runner.crash_merger()
    runner.drain(now)
    assert end(runner) == batch(definition, rows)
    records = [read_claim_or_delta(record.value, definition.dimensions) for record in runner.broker.fetch_topic(DELTAS)]
    writers = [record.writer for record in records if isinstance(record, Claim)]
    assert len(writers) == len(set(writers)) > 30


def test_every_query_has_one_answer_by_the_newest_model() -> None:
    definition = definition_of("all", partitions=2, features=2)
    runner = delivered(definition, [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(10))])
    for at in range(6):
        query = Query(f"q{at}", np.array([float(at), 1.0]), definition.data_fingerprint)
        runner.broker.append(Outgoing(QUERIES, at % 2, None, write_query(query)), NOW)
    runner.drain(NOW + 10_000)
    answers = [read_prediction(record.value) for record in runner.broker.fetch_topic(PREDICTIONS)]
    model = runner.merger.model
    assert model is not None
    assert sorted(answer.id for answer in answers) == [f"q{at}" for at in range(6)]
    assert {answer.model_version for answer in answers} == {model.version}
    assert {answer.predicted for answer in answers} <= {"x", "y", "z"}


def test_a_query_that_cannot_be_answered_gets_the_reason_and_a_dead_letter_and_the_others_are_answered() -> None:
    definition = definition_of("all", features=2)
    runner = delivered(definition, [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(16))])
    good = write_query(Query("good", np.array([1.0, 1.0]), definition.data_fingerprint))
    far = write_query(Query("far", np.array([1.0, 2.0**31]), definition.data_fingerprint))
    other = write_query(Query("other", np.array([1.0, 1.0]), b"\0" * 16))
    for value in (b"?", far, other, None, good):
        runner.broker.append(Outgoing(QUERIES, 0, None, value), NOW)
    runner.drain(NOW + 10_000)
    letters = [read_dead_letter(record.value) for record in runner.broker.fetch_topic(DEAD_LETTERS)]
    assert [(letter.offset, letter.kind) for letter in letters] == [
        (0, "bad record"),
        (1, "bad value"),
        (2, "other definition"),
        (3, "bad record"),
    ]
    assert "outside the grid's range" in letters[1].reason
    records = runner.broker.fetch_topic(PREDICTIONS)
    answers = [read_answer(record.value) for record in records]
    assert [answer.id for answer in answers] == ["", "far", "other", "", "good"]
    assert [record.key for record in records] == [f"stream.queries-0-{at}".encode() for at in range(5)]
    for answer, letter in zip(answers, letters, strict=False):
        assert isinstance(answer, Unanswered)
        assert (answer.kind, answer.reason) == (letter.kind, letter.reason)
    assert isinstance(answers[-1], Prediction)


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("features", [(1.0, 2.0), (1000.0, -5e8)])
def test_without_rows_whatever_asks_to_retire_by_content_gets_the_reason_and_changes_nothing(
    features: tuple[float, float], *, ahead: bool
) -> None:
    definition = definition_of("all", partitions=2, features=2, keep_rows=False)
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(17))]
    runner, now = CrashingRunner(definition, options=RunnerOptions(keep_log=True)), NOW + 10_000
    asked = [row.id for row in rows[20:40:3]]

    def ask() -> None:
        for sample_id in asked:
            value = by_content(sample_id, "x", features, definition.data_fingerprint)
            place = definition.partition_of(sample_id)
            runner.broker.append(Outgoing(RETIREMENTS, place, sample_id.encode(), value), now)
        runner.drain(now)

    if ahead:
        ask()
    for start in range(0, len(rows), 10):
        send(runner.broker, definition, rows[start : start + 10], now, single=False)
        runner.round(now)
        runner.crash_worker(0, now)
    if not ahead:
        ask()
    runner.crash_worker(0, now)
    runner.drain(now)
    assert end(runner) == batch(definition, rows)
    receipts = [read_receipt(record.value) for record in runner.broker.fetch_topic(RECEIPTS)]
    assert sorted((one.id, one.outcome) for one in receipts) == sorted((one, "unknown") for one in asked)
    letters = [read_dead_letter(record.value) for record in runner.broker.fetch_topic(DEAD_LETTERS)]
    assert {letter.kind for letter in letters} == {"no rows kept"}
    assert len(letters) == len(asked)
    assert all("declare keep_rows = true under another stream name" in letter.reason for letter in letters)
    refused = {verdict for verdict, count in runner.merger.verdicts.items() if count} - {Verdict.CLAIMED}
    assert refused == {Verdict.ACCEPTED}


# What the log no longer has ------------------------------------------------------------------------------------------


def test_a_stream_begun_on_a_log_that_has_lost_its_head_goes_on_from_what_is_left() -> None:
    definition = definition_of("all", features=2)
    runner = CrashingRunner(definition, options=RunnerOptions(keep_log=True))
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(11, 20))]
    for row in rows:
        send(runner.broker, definition, [row], NOW + 10_000, single=True)
    runner.broker.trim(SAMPLES, 0, 8)
    runner.crash_worker(0, NOW)
    runner.drain(NOW + 10_000)
    assert end(runner) == batch(definition, rows[8:])
    assert runner.merger.merger.state(Source("local", 0)).samples_position == 20


def test_a_rebuild_fails_loudly_where_retention_has_deleted_live_rows() -> None:
    definition = definition_of("30", features=2)
    runner = delivered(definition, [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(12))])
    needed = runner.merger.merger.state(Source("local", 0)).rebuild.window_from
    runner.broker.trim(SAMPLES, 0, needed)
    runner.crash_worker(0, NOW)
    runner.drain(NOW + 10_000)
    runner.broker.trim(SAMPLES, 0, needed + 1)
    with pytest.raises(DeltaGap, match="retention has deleted live rows"):
        runner.crash_worker(0, NOW)


def test_a_rebuild_fails_loudly_where_retention_has_deleted_a_retirement_that_matters() -> None:
    definition = definition_of("all", features=2)
    runner = delivered(definition, rows_of(13), RETIRED)
    runner.broker.trim(RETIREMENTS, 0, 1)
    with pytest.raises(DeltaGap, match="retirements from offset 0"):
        runner.crash_worker(0, NOW)


def test_a_worker_or_merger_that_cannot_know_the_accepted_state_does_not_guess_it() -> None:
    definition = definition_of("all", features=2)
    runner = delivered(definition, rows_of(14))
    runner.broker.trim(DELTAS, 0, 3)
    with pytest.raises(OffsetOutOfRange, match="retention has passed it"):
        runner.crash_worker(0, NOW)
    runner.crash_merger()
    with pytest.raises(OffsetOutOfRange, match="retention has passed it"):
        runner.round(NOW)


# Several sites in one partition of deltas ----------------------------------------------------------------------------


@pytest.mark.parametrize("written", range(5))
def test_a_merger_that_died_while_it_wrote_its_checkpoints_misses_no_source(written: int) -> None:
    definition = definition_of("all", features=2)
    broker = EmbeddedBroker(1)
    statistics = Statistics(definition.dimension)
    for site in ("here", "there"):
        worker = take_source(definition, broker, Source(site, 0), site, NOW)
        rows = [replace(row, id=f"{site}{at}") for at, row in enumerate(rows_of(15, 10))]
        inputs = EmbeddedBroker(1)
        send(inputs, definition, rows, NOW, single=False)
        broker.append_all(worker.process(inputs.fetch(SAMPLES, 0, 0), []).then, NOW)
        statistics = statistics + worker.partition.statistics
    merger, _ = start_merger(definition, broker)
    merger.process(broker.fetch(DELTAS, 0, 0))
    assert merger.merger.statistics == statistics
    output = merger.checkpoints()
    broker.append_all([*output.first, *output.then][:written], NOW)
    again, positions = start_merger(definition, broker)
    again.process(broker.fetch(DELTAS, 0, positions[0]))
    assert again.merger.statistics == statistics
    assert len(broker.fetch_topic(CHECKPOINTS)) == written


def test_the_checkpoint_that_reaches_furthest_counts_and_not_the_one_written_last() -> None:
    definition = definition_of("all", features=2)
    runner = CrashingRunner(definition, options=RunnerOptions(keep_log=True))
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(18, 40))]
    send(runner.broker, definition, rows[:20], NOW, single=True)
    runner.drain(NOW)
    behind = runner.merger.checkpoints().then
    send(runner.broker, definition, rows[20:], NOW, single=True)
    runner.drain(NOW)
    runner.checkpoint(NOW)
    # A merger that is behind, and does not know it, writes last; the deltas before the other's are gone.
    runner.broker.append_all(behind, NOW)
    runner.broker.trim(DELTAS, 0, runner.broker.end(DELTAS, 0))
    runner.crash_merger()
    runner.crash_worker(0, NOW)
    runner.drain(NOW)
    assert end(runner) == batch(definition, rows)


def test_a_reader_is_not_left_with_the_model_of_a_merger_that_is_behind() -> None:
    definition = definition_of("all", features=2)
    runner = CrashingRunner(definition, options=RunnerOptions(keep_log=True))
    rows = [replace(row, id=f"u{at}") for at, row in enumerate(rows_of(19, 20))]
    behind, _ = start_merger(definition, runner.broker)
    for row in rows:
        send(runner.broker, definition, [row], NOW, single=True)
        runner.round(NOW)
    behind.process(runner.broker.fetch(DELTAS, 0, 0, 8))
    behind.merger.version = 1000
    stale = behind.publish(NOW)
    model = read_model(stale.then[0].value)
    assert model.version == 1001
    runner.merger.see_model(model)
    last = read_model(runner.merger.publish(NOW).then[0].value)
    assert last.version == 1002
    assert last.digest == batch(definition, rows)


def test_a_worker_restores_what_was_accepted_before_its_own_claim_and_nothing_after() -> None:
    definition = definition_of("all", features=2)
    broker, source = EmbeddedBroker(1), Source("here", 0)
    worker = take_source(definition, broker, source, "first", NOW)
    send(broker, definition, rows_of(20, 3), NOW, single=True)
    for offset in range(3):
        broker.append_all(worker.process(broker.fetch(SAMPLES, 0, offset, 1), []).then, NOW)
    nothing = SourceState(source, Statistics(definition.dimension))
    records = broker.fetch(DELTAS, 0, 0)
    assert [accepted_state(definition, nothing, records, at).sequence for at in range(4)] == [0, 1, 2, 3]


def plain(value: object) -> object:
    """What a value consists of, arrays as their bytes, in a form that compares."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Statistics):
        return [(key, moments.to_bytes()) for key, moments in value.items()]
    if is_dataclass(value):
        return [(field.name, plain(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, Mapping):
        return [(plain(key), plain(inner)) for key, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value() if callable(value) else value


@pytest.mark.parametrize("windows", [("40",), ("50ms",), ("10", "60")])
def test_what_a_reader_is_spared_decoding_is_what_decoding_would_have_given(windows: tuple[str, ...]) -> None:
    definition = definition_of(*windows, partitions=2, features=2)
    logs = []
    for decode in (True, False):
        runner = CrashingRunner(definition, 1, RunnerOptions(keep_log=True, decode=decode))
        rows = rows_of(5)
        for start in range(0, len(rows), 7):
            for partition in range(2):
                mine = tuple(row for row in rows[start : start + 7] if definition.partition_of(row.id) == partition)
                if mine:
                    samples = samples_of([mine], 0, 2)
                    runner.broker.append(Codec(definition).sample_batch(partition, samples), NOW + 10_000)
            runner.round(NOW + 10_000)
        logs.append({topic: runner.broker.fetch_topic(topic) for topic in (SAMPLES, DELTAS, MODELS, DEAD_LETTERS)})
    decoded, spared = logs
    # Those of the one were encoded when they were published, those of the other are only now.
    for topic, records in spared.items():
        assert [record.value for record in records] == [record.value for record in decoded[topic]]
        assert not any(record.message for record in decoded[topic])
    for record in spared[SAMPLES]:
        read = read_published_samples(record._replace(content=record.value), definition)
        assert plain(read_published_samples(record, definition)) == plain(read)
    changes = [record for record in spared[DELTAS] if record.message is not None]
    assert len(changes) == len(spared[DELTAS]) - 2  # All but the claims.
    for record in changes:
        assert plain(record.message) == plain(Codec(definition).change(record._replace(content=record.value)))
    assert spared[MODELS]
    for record in spared[MODELS]:
        assert plain(record.message) == plain(read_model(record.value))


def test_where_nobody_decodes_nothing_is_encoded_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bytes:
        pytest.fail("nobody has asked")

    definition = definition_of("40", partitions=1, features=2)
    runner = CrashingRunner(definition, 1, RunnerOptions(decode=False))
    monkeypatch.setattr(codec_module, "_WRITERS", {**codec_module._WRITERS, **dict.fromkeys((Delta, Model), never)})
    rows = rows_of(5)
    for start in range(0, len(rows), 7):
        samples = samples_of([tuple(rows[start : start + 7])], 0, 2)
        runner.broker.append(Outgoing(SAMPLES, 0, None, Encoding(samples, never, 0)), NOW + 10_000)
        runner.round(NOW + 10_000)
    assert runner.merger.model is not None
    assert runner.merger.model.totals["applied"] > 0


def test_a_message_is_encoded_once_when_it_is_first_asked_for() -> None:
    written: list[int] = []

    def write() -> bytes:
        written.append(1)
        return b"bytes"

    outgoing = Outgoing(SAMPLES, 0, None, Encoding("a message", write, 0))
    assert not written
    assert (outgoing.value, outgoing.value, written) == (b"bytes", b"bytes", [1])
    assert [Outgoing(SAMPLES, 0, None, content).value for content in (b"own", None)] == [b"own", None]


def test_what_cannot_be_encoded_is_refused_where_it_is_published() -> None:
    def write() -> bytes:
        raise WireError("too long")

    with pytest.raises(WireError, match="too long"):
        EmbeddedBroker(1).append(Outgoing(SAMPLES, 0, None, Encoding("a message", write, 0)), NOW)
