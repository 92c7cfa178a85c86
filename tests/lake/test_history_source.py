"""A history becomes a source once, and loses rows once, whatever is killed on the way and whoever else is there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from broker_log import BrokerLog, Killed
from deltaplane.errors import StateMismatch
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Source, SourceOrder
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import write_claim, write_sample_batch, write_source_order
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner
from deltaplane_services.processors.history_source import HistoryRefused, HistorySource, Standing
from deltaplane_services.processors.messages import DELTAS, MODELS, RECEIPTS, SAMPLES, Outgoing, source_key
from lake_tables import TABLES

DEFINITION = StreamDefinition.from_tables(TABLES)
PAST = Source("history", 0)
IDS = [f"row-{number}" for number in range(30)]


def rows_of(ids: Sequence[str]) -> Samples:
    """The rows of some ids, of which the table is a function."""
    numbers = np.array([int(one.removeprefix("row-")) for one in ids], dtype=np.float64)
    features = np.stack([numbers / 7, numbers % 5], axis=1)
    return Samples.of_record(list(ids), 0, ("DOWN", "UP"), (numbers % 2).astype(np.int32), features)


def partial_of(ids: Sequence[str], definition: StreamDefinition = DEFINITION) -> Partial:
    return Partial.of(definition, rows_of(ids))


def found_among(ids: Sequence[str], _: Standing) -> tuple[Statistics, Sequence[str]]:
    """What the lake says of some ids."""
    there = [one for one in ids if one in IDS]
    return partial_of(there).statistics, there


def source_of(ids: Sequence[str] = IDS, name: str = "0123456789abcdef") -> HistorySource:
    return HistorySource(DEFINITION, PAST, History(DEFINITION, partial_of(ids)), name)


def test_a_history_is_published_once_and_a_second_run_writes_nothing() -> None:
    log = BrokerLog(EmbeddedBroker(1))
    assert source_of().publish(log)
    end = log.broker.end(DELTAS, 0)
    assert not source_of().publish(log)
    assert log.broker.end(DELTAS, 0) == end == 2
    state = log.state(PAST)
    assert state.statistics == partial_of(IDS).statistics
    assert (state.sequence, state.samples_position, dict(state.counts)) == (1, 30, {"applied": 30})


@pytest.mark.parametrize("step", range(2))
def test_killed_at_any_step_and_run_again_it_is_published_once(step: int) -> None:
    broker = EmbeddedBroker(1)
    with pytest.raises(Killed):
        source_of().publish(BrokerLog(broker, dies_before=step))
    assert source_of().publish(BrokerLog(broker))
    state = BrokerLog(broker).state(PAST)
    assert state.statistics == partial_of(IDS).statistics
    assert not state.dropped
    assert broker.end(DELTAS, 0) == 2


def test_the_first_run_that_wakes_up_late_adds_nothing() -> None:
    broker = EmbeddedBroker(1)
    claim, delta = _records_of_publishing()
    broker.append(claim, 0)
    assert source_of().publish(BrokerLog(broker))
    broker.append(delta, 0)
    state = BrokerLog(broker).state(PAST)
    assert state.statistics == partial_of(IDS).statistics
    assert dict(state.dropped) == {"repeat": 1}


def _records_of_publishing() -> list[Outgoing]:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    return [Outgoing(DELTAS, 0, record.key, record.value) for record in broker.fetch(DELTAS, 0, 0)]


@pytest.mark.parametrize("steps", [(None,), (0,), (1,), (2,), (3,), (1, 2), (3, 1, 2), (2, 2)])
def test_killed_at_any_step_and_run_again_rows_are_taken_out_once(steps: tuple[int | None, ...]) -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    ids = ["row-3", "row-4"]
    for step in steps:
        if step is None:
            continue
        with pytest.raises(Killed):
            source_of().retire(BrokerLog(broker, dies_before=step), ids, found_among, frozenset())
    source_of().retire(BrokerLog(broker), ids, found_among, frozenset())
    again = source_of().retire(BrokerLog(broker), ids, found_among, frozenset())
    assert again == {"row-3": "duplicate", "row-4": "duplicate"}
    kept = [one for one in IDS if one not in ids]
    assert BrokerLog(broker).state(PAST).statistics == partial_of(kept).statistics
    assert len({record.key for record in broker.fetch_topic(RECEIPTS)}) == 2


def test_who_died_over_other_ids_has_taken_nothing_out_and_its_receipts_count_for_nothing() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    with pytest.raises(Killed):
        source_of().retire(BrokerLog(broker, dies_before=3), ["row-1", "row-2"], found_among, frozenset())
    assert source_of().retire(BrokerLog(broker), ["row-2"], found_among, frozenset()) == {"row-2": "retired"}
    assert source_of().retire(BrokerLog(broker), ["row-1"], found_among, frozenset()) == {"row-1": "retired"}
    kept = [one for one in IDS if one not in ("row-1", "row-2")]
    assert BrokerLog(broker).state(PAST).statistics == partial_of(kept).statistics


def test_unknown_ids_and_ids_that_never_counted_are_said_and_change_nothing() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    end = broker.end(DELTAS, 0)
    told = source_of().retire(BrokerLog(broker), ["nobody", "row-5"], found_among, frozenset(["row-5"]))
    assert told == {"nobody": "unknown", "row-5": "duplicate"}
    assert broker.end(DELTAS, 0) == end
    assert not broker.fetch_topic(RECEIPTS)


def test_receipts_say_the_digests_of_the_source_before_and_after() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    source_of().retire(BrokerLog(broker), ["row-8"], found_among, frozenset())
    (receipt,) = BrokerLog(broker).receipts(PAST)
    assert (receipt.id, receipt.outcome, receipt.source, receipt.sequence) == ("row-8", "retired", PAST, 1)
    assert receipt.digest_before == partial_of(IDS).digest()
    assert receipt.digest_after == partial_of([one for one in IDS if one != "row-8"]).digest()


def test_without_the_receipts_nobody_can_tell_what_is_out_and_nothing_is_taken_out_twice() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    source_of().retire(BrokerLog(broker), ["row-8"], found_among, frozenset())
    broker.trim(RECEIPTS, 0, broker.end(RECEIPTS, 0))
    with pytest.raises(HistoryRefused, match="receipts are gone"):
        source_of().retire(BrokerLog(broker), ["row-8"], found_among, frozenset())


def test_rows_that_the_history_cannot_have_are_not_taken_out() -> None:
    broker = EmbeddedBroker(1)
    source_of(["row-1", "row-3"]).publish(BrokerLog(broker))
    three = ["row-5", "row-7", "row-9"]
    with pytest.raises(StateMismatch, match="never was in"):
        source_of(["row-1", "row-3"]).retire(BrokerLog(broker), three, found_among, frozenset())
    assert not broker.fetch_topic(RECEIPTS)


def test_a_source_of_somebody_else_is_not_claimed() -> None:
    broker = EmbeddedBroker(1)
    claim = write_claim(Claim(PAST, "worker-7", DEFINITION.stream_fingerprint))
    broker.append(Outgoing(DELTAS, 0, source_key(PAST), claim), 0)
    with pytest.raises(HistoryRefused, match="is owned by 'worker-7'"):
        source_of().publish(BrokerLog(broker))
    assert broker.end(DELTAS, 0) == 1


def test_another_history_is_not_published_over_one_and_none_is_retired_from_another() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    other = source_of(IDS[:9], "fedcba9876543210")
    with pytest.raises(HistoryRefused, match="as another source"):
        other.publish(BrokerLog(broker))
    with pytest.raises(HistoryRefused, match="does not hold history fedcba9876543210"):
        other.retire(BrokerLog(broker), ["row-1"], found_among, frozenset())


def test_who_loses_the_source_while_publishing_says_so() -> None:
    broker = EmbeddedBroker(1)
    claim = write_claim(Claim(PAST, "history-other", DEFINITION.stream_fingerprint))
    log = BrokerLog(broker)
    append = log.append

    def late(*records: Outgoing) -> None:
        append(*records)
        if broker.end(DELTAS, 0) == 1:
            broker.append(Outgoing(DELTAS, 0, source_key(PAST), claim), 0)

    log.append = late  # type: ignore[method-assign]
    with pytest.raises(HistoryRefused, match="'history-other' has claimed"):
        source_of().publish(log)


def order(broker: EmbeddedBroker, *, removed: bool) -> None:
    said = write_source_order(SourceOrder(PAST, removed, "a test", DEFINITION.stream_fingerprint))
    broker.append(Outgoing(DELTAS, 0, source_key(PAST), said), 0)


def test_a_history_that_was_removed_comes_back_only_when_admitted_and_never_with_retired_rows() -> None:
    broker = EmbeddedBroker(1)
    source_of().publish(BrokerLog(broker))
    order(broker, removed=True)
    with pytest.raises(HistoryRefused, match="was removed"):
        source_of().publish(BrokerLog(broker))
    order(broker, removed=False)
    assert source_of().publish(BrokerLog(broker))
    assert BrokerLog(broker).state(PAST).statistics == partial_of(IDS).statistics
    source_of().retire(BrokerLog(broker), ["row-8"], found_among, frozenset())
    order(broker, removed=True)
    order(broker, removed=False)
    with pytest.raises(HistoryRefused, match="1 ids were retired from it"):
        source_of().publish(BrokerLog(broker))


def test_a_stream_without_a_window_over_everything_or_of_another_definition_takes_no_history() -> None:
    sliding = StreamDefinition.from_tables({**TABLES, "window": {"length": 100}})
    with pytest.raises(HistoryRefused, match="rows leave each window"):
        HistorySource(sliding, PAST, History(sliding, partial_of(IDS, sliding)), "0")
    with pytest.raises(HistoryRefused, match="computed for stream definition"):
        HistorySource(sliding, PAST, History(DEFINITION, partial_of(IDS)), "0")


def test_of_nested_windows_those_over_everything_have_the_history_and_no_other() -> None:
    tables = {**TABLES, "window": {"length": ["10", "all"]}}
    definition = StreamDefinition.from_tables(tables)
    source = HistorySource(definition, PAST, History(definition, partial_of(IDS, definition)), "0")
    log = BrokerLog(EmbeddedBroker(1), definition)
    source.publish(log)
    assert [key for key, _ in log.state(PAST).statistics.items()] == [(1, "DOWN"), (1, "UP")]


def test_the_model_of_a_live_stream_is_that_of_all_rows_and_its_workers_go_on() -> None:
    runner = EmbeddedRunner(DEFINITION)
    live = [f"row-{number}" for number in range(100, 160)]
    published = itertools.count()
    for begin in range(0, len(live), 20):
        batch = write_sample_batch(rows_of(live[begin : begin + 20]), DEFINITION.data_fingerprint)
        runner.broker.append(Outgoing(SAMPLES, 0, None, batch), next(published))
        runner.round(next(published))
        if begin == 20:
            source_of().publish(BrokerLog(runner.broker))
        if begin == 40:
            source_of().retire(BrokerLog(runner.broker), IDS[:5], found_among, frozenset())
    runner.round(next(published))
    assert runner.merger.merger.statistics == partial_of([*IDS[5:], *live]).statistics
    assert runner.broker.fetch_topic(MODELS)
