"""Where a merger that restarts begins to read: never after what it needs, and not before what it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.errors import WireError
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile
from deltaplane.log.model import Model
from deltaplane.log.records import Checkpoint
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.wire import (
    read_checkpoint,
    read_claim_or_delta,
    read_model,
    write_checkpoint,
    write_claim,
    write_delta,
)
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, MODELS, Outgoing, Output, Record
from deltaplane_services.processors.recovery import newest_checkpoint, readable_checkpoint
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import with_fields

DEFINITION = StreamDefinition(
    "stream", ("a",), Grid(np.ones(1), np.zeros(1)), NestedWindows((Window("all"),)), SolverOptions()
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


def model_of(published: tuple[Outgoing, ...]) -> Model:
    assert published[0].value is not None
    return read_model(published[0].value)


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


def test_a_worker_learns_of_a_late_claim_although_the_merger_died_before_its_model_told_of_it() -> None:
    worker = WorkerProcessor(DEFINITION, BUSY, "mine")
    mine, late = (
        delta_record(at, write_claim(Claim(BUSY, writer, DEFINITION.stream_fingerprint)))
        for at, writer in enumerate(("mine", "late"))
    )
    merger = MergerProcessor(DEFINITION)
    merger.process([mine])
    worker.restore(merger.merger.state(BUSY), claimed_at=0)
    told = merger.publish(0).then
    worker.see_model(model_of(told), 0)
    assert not worker.fenced
    merger.process([late])
    outputs = [merger.checkpoints()]
    # It dies here, and the log of deltas may lose what the checkpoint has. There is no record to tell of the claim.
    again = MergerProcessor(DEFINITION)
    models = [Record(MODELS, 0, 0, 0, record.key, record.value) for record in told]
    assert again.restore(checkpoint_records(outputs), models) == {0: 2}
    worker.see_model(model_of(again.publish(0).then), 0)
    assert worker.fenced


def test_a_checkpoint_that_no_merger_can_have_written_is_passed_over_by_all_who_begin() -> None:
    merger = MergerProcessor(DEFINITION)
    merger.process([claim_of(BUSY, 0), busy_delta(0, 1)])
    merger.checkpoints()
    state, fingerprint = merger.merger.state(BUSY), DEFINITION.stream_fingerprint
    debts = Statistics(2) - Statistics(2, {(0, "x"): Moments.of_rows(np.ones((3, 1)))})
    forged = [
        Checkpoint(state, 3, fingerprint),
        Checkpoint(state, limits.POSITION, fingerprint),
        Checkpoint(replace(state, statistics=debts), 2, fingerprint),
        Checkpoint(replace(state, counts={"applied": -1}), 2, fingerprint),
        Checkpoint(replace(state, counts={"applied": limits.COUNT + 1}), 2, fingerprint),
        Checkpoint(replace(state, dropped={"gap": 2**63 - 1}), 2, fingerprint),
        Checkpoint(replace(state, labels=("a", "a")), 2, fingerprint),
    ]
    written = [Record(CHECKPOINTS, 0, 0, 0, b"busy/0", write_checkpoint(checkpoint)) for checkpoint in forged]
    for record in written:
        assert readable_checkpoint(DEFINITION, record, {0: 2}) is None
        assert newest_checkpoint(DEFINITION, BUSY, [record], 2) == (SourceState(BUSY, Statistics(2)), 0)
    good = Record(CHECKPOINTS, 0, 0, 0, b"busy/0", write_checkpoint(Checkpoint(state, 2, fingerprint)))
    assert newest_checkpoint(DEFINITION, BUSY, [*written, good], 2) == (state, 2)


@pytest.mark.parametrize("field", ["sequence", "samples_position", "retirements_position", "slots_to", "next_offset"])
def test_a_position_near_the_end_of_int64_does_not_decode(field: str) -> None:
    with pytest.raises(WireError, match=f"expected {field} to be at most {limits.POSITION}"):
        read_checkpoint(with_fields("checkpoint", **{field: limits.POSITION + 1}), 3)


@pytest.mark.parametrize("field", ["sequence", "samples_to", "retirements_to", "slots_to", "window_from"])
def test_a_tile_near_the_end_of_int64_does_not_decode(field: str) -> None:
    with pytest.raises(WireError, match=f"expected {field} to be at most {limits.POSITION}"):
        read_claim_or_delta(with_fields("delta", **{field: limits.POSITION + 1}), 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"site": "s" * 257}, "expected a site of at most 256 bytes, got 257"),
        ({"writer": "ü" * 129}, "expected a writer of at most 256 bytes, got 258"),
        ({"counts": {"o" * 300: 1}}, "expected an outcome of at most 256 bytes"),
        ({"counts": dict.fromkeys(map(str, range(101)), 1)}, "expected up to 100 counts, got 101"),
        ({"scores": [{"truth": "t" * 300, "predicted": "p", "count": 1}]}, "expected a class of at most 260 bytes"),
        (
            {"change": [{"window": 0, "class": "c" * 300, "entries": bytes(48)}]},
            "expected a class of at most 260 bytes",
        ),
    ],
)
def test_a_name_longer_than_it_may_be_does_not_decode(changes: Mapping[str, Any], words: str) -> None:
    with pytest.raises(WireError, match=words):
        read_claim_or_delta(with_fields("delta", **changes), 3)


@pytest.mark.parametrize("labels", [[], [""], ["a", "a"], ["l" * 257], list(map(str, range(1025)))])
def test_labels_that_cannot_have_been_admitted_do_not_decode(labels: list[str]) -> None:
    with pytest.raises(WireError, match=r"labelled: expected|delta: expected"):
        read_claim_or_delta(with_fields("delta_labelled", labels=labels), 3)


def test_a_labelled_message_within_another_does_not_decode() -> None:
    inner = with_fields("delta_labelled")
    with pytest.raises(WireError, match="expected delta, got labelled"):
        read_claim_or_delta(with_fields("delta_labelled", message=inner), 3)
