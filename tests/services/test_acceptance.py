"""Every reader of the deltas skips the same records, and stands where all others stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceOrder, Tile, Verdict
from deltaplane.wire import read_model, write_claim, write_delta, write_source_order
from deltaplane_services.processors.acceptance import Change, SourceHistory, next_state, nothing_of, with_verdicts
from deltaplane_services.processors.codec import Codec
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import DELTAS, MODELS, Record
from deltaplane_services.processors.model_account import account_of_model
from deltaplane_services.processors.recovery import accepted_state
from strategies_streams import definition_of

DEFINITION = definition_of("4")
HERE, THERE = Source("here", 0), Source("there", 0)
PRINT = DEFINITION.stream_fingerprint


def rows(window: int = 0) -> Statistics:
    return Statistics(
        2, {(window, label): Moments.of_rows(np.array([[value]])) for label, value in (("a", 1), ("b", 5))}
    )


def delta(sequence: int, change: Statistics | None = None, source: Source = HERE) -> Delta:
    tile = Tile(sequence, 2 * sequence, 2 * sequence + 2, 0, 0)
    return Delta(source, "w", PRINT, tile, Rebuild(), change or rows())


def written(change: Change) -> bytes:
    if isinstance(change, Claim):
        return write_claim(change)
    return write_delta(change) if isinstance(change, Delta) else write_source_order(change)


GONE = Statistics(2) - rows()
SKIPPED: dict[str, bytes | None] = {
    "bytes that are no record": b"?",
    "a record without a value": None,
    "another definition": write_delta(replace(delta(1), stream_fingerprint=bytes(16))),
    "a window that the stream has not": write_delta(delta(1, rows(window=3))),
    "rows that never were in": write_delta(delta(1, GONE + GONE)),
    "a tile that ends before it begins": write_delta(replace(delta(1), tile=Tile(1, 2, 1, 0, 0))),
}
LOG: list[Change] = [Claim(HERE, "w", PRINT), Claim(THERE, "w", PRINT), delta(0), delta(0), delta(0, source=THERE)]


def records_of(values: Iterable[bytes | None]) -> list[Record]:
    return [Record(DELTAS, 0, at, 0, None, value) for at, value in enumerate(values)]


class Log:
    """Deltas and one model, as an audit reads them."""

    def __init__(self, deltas: list[Record], model: Record) -> None:
        self._of = {DELTAS: deltas, MODELS: [model]}

    def bounds(self, topic: str, _partition: int) -> tuple[int, int]:
        return 0, len(self._of[topic])

    def read(self, topic: str, _partition: int, start: int, stop: int) -> Iterable[Record]:
        return self._of[topic][start:stop]


@pytest.mark.parametrize("what", SKIPPED)
def test_all_readers_skip_what_no_reader_takes_and_go_on_behind_it(what: str) -> None:
    log = records_of([*map(written, LOG), SKIPPED[what], write_delta(delta(1))])
    merger = MergerProcessor(DEFINITION)
    letters = merger.process(log).first
    expected = merger.merger.state(HERE)
    assert (len(letters), expected.sequence) == (1, 2)

    assert accepted_state(DEFINITION, nothing_of(DEFINITION, HERE), log, len(log)).sequence == 2
    history = SourceHistory(DEFINITION, nothing_of(DEFINITION, HERE))
    verdicts = [one.verdict for one in history.follow(log)]
    assert verdicts == [Verdict.CLAIMED, Verdict.ACCEPTED, Verdict.REPEAT, Verdict.ACCEPTED]
    assert history.state.statistics == expected.statistics


@pytest.mark.parametrize("what", [what for what in SKIPPED if "rows" not in what])
def test_an_audit_counts_no_tile_behind_a_model_that_no_merger_will_take(what: str) -> None:
    # Of what lies behind a model an audit looks at positions alone, so that rows that never were in are not seen.
    log = records_of([*map(written, LOG), SKIPPED[what]])
    merger = MergerProcessor(DEFINITION)
    merger.process(log[: len(LOG)])
    published = merger.publish(1).then[0]
    model = read_model(published.value)
    record = Record(MODELS, 0, 0, 0, None, published.value)
    account = account_of_model(DEFINITION, model, record, Log(log, record), [])
    assert account.notes == ()
    assert not any(account.faults.values())


def test_positions_alone_leave_the_statistics_as_they_are() -> None:
    state, _ = next_state(DEFINITION, nothing_of(DEFINITION, HERE), LOG[0], positions_alone=True)
    for change in (delta(0), SourceOrder(HERE, removed=True, reason="", stream_fingerprint=PRINT)):
        state, _ = next_state(DEFINITION, state, change, positions_alone=True)
        assert state.statistics == Statistics(2)
    assert state.removed


def test_a_rule_may_pass_a_record_over_and_is_told_of_each_once() -> None:
    log, seen, skipped = records_of([*map(written, LOG), b"?"]), [], []

    def rule(record: Record, change: Change) -> Verdict | None:
        seen.append(record.offset)
        return Verdict.GAP if change.source == THERE else None

    found = list(
        with_verdicts(log, Codec(DEFINITION), rule, lambda record, fault: skipped.append((record.offset, str(fault))))
    )
    assert [(one.record.offset, one.verdict) for one in found] == [(1, Verdict.GAP), (4, Verdict.GAP)]
    assert seen == [0, 1, 2, 3, 4]
    assert [offset for offset, _ in skipped] == [5]
