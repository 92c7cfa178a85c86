"""A stream that keeps no rows, of which an earlier version took some out by content: it goes on, unproved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Rebuild, Source, SourceState
from deltaplane.wire import write_sample
from deltaplane_services.definition_file.settings import Cluster, ServiceSettings
from deltaplane_services.kafka.accepted import WENT_BY_CONTENT
from deltaplane_services.operations.audit import unprovable
from deltaplane_services.operations.copying import CannotCopy, _check_log_says_all
from deltaplane_services.processors.account import RecomputedSource, account_of
from deltaplane_services.processors.messages import SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import by_content
from strategies_streams import definition_of

SOURCE = Source("local", 0)
DEFINITION = definition_of("all", keep_rows=False)
NOWHERE = Cluster("site", "localhost:1")
SETTINGS = ServiceSettings(DEFINITION, "local", NOWHERE, NOWHERE)
LOG = {
    SAMPLES: [write_sample(f"s{at}", 0, "x", (float(at),), DEFINITION.data_fingerprint) for at in range(3)],
    "retirements": [by_content("r", "x", (1.0,), DEFINITION.data_fingerprint)],
}


class Log:
    """A site's log in memory."""

    def bounds(self, topic: str, _: int) -> tuple[int, int]:
        return 0, len(LOG[topic])

    def batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[list[Record]]:
        yield [Record(topic, partition, at, 0, None, LOG[topic][at]) for at in range(start, stop)]


def accepted(*values: float, retired: int) -> SourceState:
    """What was accepted of the log, where ``retired`` rows went by content."""
    sums = Statistics(2, {(0, "x"): sum_of(values)})
    counts = {"applied": 3, "retirements retired": retired, "retirements unknown": 0}
    return SourceState(SOURCE, sums, "w", 1, 3, 1, Rebuild(3, 3, 1, 3), counts=counts, labels=("x",))


def sum_of(values: tuple[float, ...]) -> Moments:
    quantized, _ = DEFINITION.grid.quantize(np.array([[value] for value in values]))
    return Moments.of_rows(quantized)


def account(state: SourceState) -> RecomputedSource:
    return account_of(DEFINITION, state, Log())


def test_an_audit_says_that_the_log_cannot_prove_it() -> None:
    state = accepted(0.0, 2.0, retired=1)
    assert unprovable(DEFINITION, state, account(state)) == (WENT_BY_CONTENT,)


def test_where_nothing_went_by_content_an_audit_is_what_it_was() -> None:
    whole, short = accepted(0.0, 1.0, 2.0, retired=0), accepted(0.0, 2.0, retired=0)
    assert account(whole).faults == ()
    assert account(short).faults
    assert unprovable(DEFINITION, short, account(short)) == ()


def test_a_worker_goes_on_where_the_stream_stood() -> None:
    state = accepted(0.0, 2.0, retired=1)
    worker = WorkerProcessor(DEFINITION, SOURCE, "w2")
    worker.restore(state)
    worker.process([], [Record("retirements", 0, 0, 0, None, LOG["retirements"][0])])
    assert worker.serving
    assert worker.partition.statistics == state.statistics


def test_a_copy_is_refused_with_the_reason() -> None:
    with pytest.raises(CannotCopy, match="took rows out of this stream by their content"):
        _check_log_says_all(SETTINGS, accepted(0.0, 2.0, retired=1))
    kept = replace(SETTINGS, definition=definition_of("all"))
    _check_log_says_all(kept, accepted(0.0, 2.0, retired=1))
