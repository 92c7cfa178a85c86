"""Where a merger that restarts begins to read: never after what it needs, and not before what it has."""

from __future__ import annotations

import numpy as np

from deltaplane.definition import StreamDefinition
from deltaplane.delta import Claim, Delta, Rebuild, Source, Tile
from deltaplane.grid import Grid
from deltaplane.ladder import Window, WindowLadder
from deltaplane.options import SolverOptions
from deltaplane.statistics import Statistics
from deltaplane.wire import write_claim, write_delta
from deltaplane_services.processors.merger import MergerProcessor
from deltaplane_services.processors.records import CHECKPOINTS, DELTAS, Output, Record

DEFINITION = StreamDefinition(
    "stream", ("a",), Grid(np.ones(1), np.zeros(1)), WindowLadder((Window("all"),)), SolverOptions()
)
IDLE, BUSY = Source("idle", 0), Source("busy", 0)


def delta_record(offset: int, value: bytes) -> Record:
    return Record(DELTAS, 0, offset, 0, b"key", value)


def claim_of(source: Source, offset: int) -> Record:
    return delta_record(offset, write_claim(Claim(source, f"w-{source.site}", DEFINITION.stream_fingerprint)))


def busy_delta(sequence: int, offset: int) -> Record:
    tile = Tile(sequence, sequence, sequence + 1, 0, 0)
    delta = Delta(BUSY, "w-busy", DEFINITION.stream_fingerprint, tile, Rebuild(), Statistics(2))
    return delta_record(offset, write_delta(delta))


def checkpoint_records(outputs: list[Output]) -> list[Record]:
    published = [record for output in outputs for record in (*output.first, *output.then)]
    return [Record(CHECKPOINTS, 0, at, 0, record.key, record.value) for at, record in enumerate(published)]


def test_an_idle_source_does_not_hold_back_where_the_next_merger_begins() -> None:
    merger = MergerProcessor(DEFINITION)
    merger.process([claim_of(IDLE, 0), claim_of(BUSY, 1)])
    outputs = []
    for sequence in range(20):
        merger.process([busy_delta(sequence, sequence + 2)])
        outputs.append(merger.checkpoints())
    assert MergerProcessor(DEFINITION).restore(checkpoint_records(outputs), []) == {0: 22}


def test_a_merger_that_restarted_from_checkpoints_writes_them_on() -> None:
    merger = MergerProcessor(DEFINITION)
    merger.process([claim_of(IDLE, 0), claim_of(BUSY, 1), busy_delta(0, 2)])
    first = [merger.checkpoints()]
    again = MergerProcessor(DEFINITION)
    assert again.restore(checkpoint_records(first), []) == {0: 3}
    assert again.checkpoints() == Output()
    again.process([busy_delta(1, 3)])
    second = [*first, again.checkpoints()]
    last = MergerProcessor(DEFINITION)
    assert last.restore(checkpoint_records(second), []) == {0: 4}
    assert last.merger.state(BUSY).sequence == 2
