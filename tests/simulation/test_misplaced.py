"""Records in a partition that is not their id's: refused with a letter, or, in streams of earlier versions, counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from crashing_runner import CrashingRunner
from deltaplane.errors import DefinitionMismatch
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement
from deltaplane.wire import read_dead_letter, read_receipt, write_retirement, write_sample, write_sample_batch
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.processors.announced import explained_mismatch
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DEAD_LETTERS,
    MODELS,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Record,
)
from deltaplane_services.processors.regroup import Regroup
from strategies_streams import Row, definition_of, samples_of

NOW = 1_000_000
NEW = definition_of("all", partitions=3)
OLD = replace(NEW, partitioner="crc32")
IDS = [f"person-{at}" for at in range(40)]


def runner_of(definition: StreamDefinition) -> CrashingRunner:
    return CrashingRunner(definition, options=RunnerOptions(keep_log=True))


def send(runner: CrashingRunner, rows: Sequence[Row], producers: StreamDefinition) -> None:
    """Rows by a producer that follows another definition's rule, by twos of a partition as batches, else one by one."""
    for partition in range(producers.partitions):
        mine = [row for row in rows if producers.partition_of(row.id) == partition]
        for pair in (mine[at : at + 2] for at in range(0, len(mine), 2)):
            fingerprint = runner.definition.data_fingerprint
            value = write_sample_batch(samples_of([tuple(pair)]), fingerprint)
            if len(pair) == 1:
                value = write_sample(pair[0].id, pair[0].time, pair[0].label, pair[0].values, fingerprint)
            runner.broker.append(Outgoing(SAMPLES, partition, None, value), NOW)


def retire(runner: CrashingRunner, sample_id: str, partition: int) -> None:
    value = write_retirement(Retirement(sample_id, "asked", 0), runner.definition.data_fingerprint)
    runner.broker.append(Outgoing(RETIREMENTS, partition, sample_id.encode(), value), NOW)


def live(runner: CrashingRunner) -> int:
    model = runner.merger.model
    assert model is not None
    return sum(model.counts.values())


def lies_right(sample_id: str) -> bool:
    return NEW.partition_of(sample_id) == OLD.partition_of(sample_id)


def test_misplaced_rows_change_nothing_but_letters_and_counts() -> None:
    rows = [Row(sample_id, "xy"[at % 2]) for at, sample_id in enumerate(IDS)]
    wrong = [sample_id for sample_id in IDS if not lies_right(sample_id)]
    assert 10 < len(wrong) < 35
    astray, tidy = runner_of(NEW), runner_of(NEW)
    send(astray, rows, OLD)
    send(tidy, [row for row in rows if lies_right(row.id)], NEW)
    for runner in (astray, tidy):
        runner.drain(NOW)
    assert astray.merger.merger.statistics == tidy.merger.merger.statistics
    assert astray.merger.merger.totals["refused wrong partition"] == len(wrong)
    letters = [read_dead_letter(record.value) for record in astray.broker.fetch_topic(DEAD_LETTERS)]
    assert {letter.kind for letter in letters} == {"wrong partition"}
    assert len(letters) == len(wrong)
    for sample_id in wrong:
        said = f"sample {sample_id!r}: it lies in partition {OLD.partition_of(sample_id)}"
        assert [letter for letter in letters if letter.reason.startswith(f"{said}, and by its id belongs in")]


def test_of_one_id_sent_by_two_producers_one_of_which_places_it_wrong_one_row_is_live() -> None:
    sample_id = next(sample_id for sample_id in IDS if not lies_right(sample_id))
    for first, second in ((NEW, OLD), (OLD, NEW)):
        runner = runner_of(NEW)
        send(runner, [Row(sample_id, "x")], first)
        send(runner, [Row(sample_id, "y", (5.0,))], second)
        runner.drain(NOW)
        assert live(runner) == 1
        retire(runner, sample_id, NEW.partition_of(sample_id))
        runner.drain(NOW)
        assert live(runner) == 0


def test_a_misplaced_retirement_never_acts_and_never_waits() -> None:
    sample_id = next(sample_id for sample_id in IDS if not lies_right(sample_id))
    runner = runner_of(NEW)
    send(runner, [Row("other", "x"), Row(sample_id, "y")], NEW)
    wrong = OLD.partition_of(sample_id)
    retire(runner, sample_id, wrong)
    runner.drain(NOW)
    assert live(runner) == 2
    assert not runner.broker.fetch_topic(RECEIPTS)
    (letter,) = (read_dead_letter(record.value) for record in runner.broker.fetch_topic(DEAD_LETTERS))
    assert (letter.kind, letter.topic, letter.partition) == ("wrong partition", RETIREMENTS, wrong)
    assert letter.reason.startswith(f"retirement of {sample_id!r}: it lies in partition {wrong}")
    assert runner.merger.merger.totals["refused wrong partition"] == 1


def test_a_stream_of_an_earlier_version_keeps_its_misplaced_rows_through_a_rebuild_and_counts_new_ones() -> None:
    rows, runner = [Row(sample_id, "xy"[at % 2]) for at, sample_id in enumerate(IDS)], runner_of(OLD)
    wrong = [sample_id for sample_id in IDS if not lies_right(sample_id)]
    send(runner, rows, NEW)
    retire(runner, wrong[0], NEW.partition_of(wrong[0]))
    runner.drain(NOW)
    # A rebuild raises where the rows read again do not give what was accepted.
    runner.crash_worker(0, NOW)
    send(runner, [Row("one more", "x")], OLD)
    runner.drain(NOW)
    assert live(runner) == len(IDS)
    totals = runner.merger.merger.totals
    assert totals["samples misplaced"] == len(wrong)
    assert totals["retirements misplaced"] == 1
    assert "refused wrong partition" not in totals
    assert not runner.broker.fetch_topic(DEAD_LETTERS)


def test_where_a_row_lies_in_another_partition_the_receipt_of_its_retirement_says_waiting() -> None:
    sample_id, runner = next(sample_id for sample_id in IDS if not lies_right(sample_id)), runner_of(OLD)
    send(runner, [Row(sample_id, "x")], NEW)
    retire(runner, sample_id, OLD.partition_of(sample_id))
    runner.drain(NOW)
    (receipt,) = (read_receipt(record.value) for record in runner.broker.fetch_topic(RECEIPTS))
    assert receipt.outcome == "waiting"
    assert live(runner) == 1


@pytest.mark.parametrize("begun_by", ["model", "checkpoint"])
def test_a_stream_of_an_earlier_version_says_which_line_its_definition_lacks(begun_by: str) -> None:
    runner = runner_of(OLD)
    send(runner, [Row(sample_id, "xy"[at % 2]) for at, sample_id in enumerate(IDS)], OLD)
    runner.drain(NOW)
    runner.checkpoint(NOW)
    checkpoints, models = runner.broker.fetch_topic(CHECKPOINTS), runner.broker.fetch_topic(MODELS)
    line = r'what was the default once: .*add the line partitioner = "crc32" at the top of the definition'
    with pytest.raises(DefinitionMismatch) as fault:
        MergerProcessor(NEW).restore(*((checkpoints, ()) if begun_by == "checkpoint" else ((), models)))
    (record,) = checkpoints[:1] if begun_by == "checkpoint" else models[-1:]
    assert re.search(line, str(explained_mismatch(NEW, record, fault.value)))
    MergerProcessor(OLD).restore(checkpoints, models)


@pytest.mark.parametrize(("old", "refused"), [(NEW, True), (OLD, False)])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_copy_takes_along_what_the_old_stream_admitted_and_puts_it_right(
    old: StreamDefinition, partitions: int, *, refused: bool
) -> None:
    new = replace(NEW, name="copy", partitions=partitions)
    others = OLD if old is NEW else NEW
    rows = [Row(sample_id, "xy"[at % 2]) for at, sample_id in enumerate(IDS)]
    wrong = [row for row in rows if not lies_right(row.id)]
    first, second, regroup = runner_of(old), runner_of(new), Regroup(old, new)
    send(first, rows, others)
    retire(first, wrong[0].id, others.partition_of(wrong[0].id))
    for topic in (SAMPLES, RETIREMENTS):
        for record in first.broker.fetch_topic(topic):
            second.broker.append_all(regroup.record(record), NOW)
    second.drain(NOW)
    expected = Reference(new)
    for row in rows:
        if not refused or row not in wrong:
            expected.add(new.partition_of(row.id), samples_of([(row,)]))
    if not refused:
        expected.retire(wrong[0].id)
    assert second.merger.merger.statistics == expected.statistics()
    assert "refused wrong partition" not in second.merger.merger.totals
    assert regroup.counts["refused rows"] == (len(wrong) if refused else 0)
    assert regroup.counts["refused retirements"] == (1 if refused else 0)
    assert regroup.counts["rows that lay in another partition than their id's"] == (0 if refused else len(wrong))


def test_a_misplaced_row_stays_out_of_a_copy_though_the_new_stream_admits_other_rows() -> None:
    wider = replace(NEW, name="wider", max_skew_milliseconds=NEW.max_skew_milliseconds + 1, partitions=1)
    timed = replace(NEW, nested_windows=definition_of("1000ms").nested_windows)
    wider = replace(wider, nested_windows=timed.nested_windows)
    sample_id = next(sample_id for sample_id in IDS if not lies_right(sample_id))
    regroup = Regroup(timed, wider)
    for partition in range(3):
        value = write_sample_batch(samples_of([(Row(sample_id), Row("x" * 300))]), timed.data_fingerprint)
        out = regroup.record(Record(SAMPLES, partition, 0, NOW, None, value))
        assert len(out) == (partition == timed.partition_of(sample_id))
    assert regroup.counts["refused rows"] == 5
