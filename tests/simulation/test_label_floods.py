"""A producer that makes up labels costs the others nothing: only what is one too many is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from crashing_runner import CrashingRunner
from deltaplane import limits
from deltaplane.log.confusion import Confusion
from deltaplane.reference import Reference
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_dead_letter, read_model, write_sample_batch
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.processors.messages import DEAD_LETTERS, MODELS, SAMPLES, Outgoing
from strategies_streams import Row, definition_of, samples_of

SIZE = 60


def batches(definition: StreamDefinition, rows: Sequence[Row]) -> Iterator[tuple[int, Sequence[Row]]]:
    for partition in range(definition.partitions):
        mine = [row for row in rows if definition.partition_of(row.id) == partition]
        if mine:
            yield partition, mine


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_flood_of_labels_leaves_the_stream_alive_and_its_old_classes_as_they_were(partitions: int) -> None:
    definition = definition_of("90", partitions=partitions, features=2, classes=ClassDefinition(most=6))
    runner, reference = CrashingRunner(definition, options=RunnerOptions(keep_log=True)), Reference(definition)
    born = 0
    for now in range(12):
        rows = []
        for _ in range(SIZE):
            # Two classes, apart; from the third round on, every other row has a label of its own.
            label = f"made up {born}" if now >= 2 and born % 2 else "xy"[born % 4 // 2]
            at = {"x": 5.0, "y": -5.0}.get(label, 0.0)
            rows.append(Row(f"s{born}", label, (at + born % 3, at - born % 2), now))
            born += 1
        for partition, mine in batches(definition, rows):
            offset = runner.broker.end(SAMPLES, partition)
            samples = samples_of([tuple(mine)], offset, 2)
            value = write_sample_batch(samples, definition.data_fingerprint)
            runner.broker.append(Outgoing(SAMPLES, partition, None, value), now)
            reference.add(partition, samples)
        runner.drain(now)
        if now % 4 == 3:
            runner.crash_worker(0, now)
            runner.checkpoint(now)
            runner.crash_merger()
    model = read_model(runner.broker.fetch_topic(MODELS)[-1].value)
    assert model.digest == reference.statistics().digest(definition.data_fingerprint)
    assert model.refusal is None
    assert model.plane is not None
    assert {"x", "y"} <= set(model.plane.classes)
    assert len(model.plane.classes) <= 6
    kinds = Counter(read_dead_letter(record.value).kind for record in runner.broker.fetch_topic(DEAD_LETTERS))
    assert kinds.keys() == {"too many classes"}
    assert kinds["too many classes"] == model.totals["refused too many classes"] == 10 * SIZE // 2 - 4 * partitions
    assert model.totals["applied"] == 12 * SIZE - kinds["too many classes"]


def test_more_pairs_of_classes_than_a_checkpoint_has_room_for_are_not_scored_and_the_others_are() -> None:
    definition = definition_of("all", classes=ClassDefinition(most=2))
    worker = CrashingRunner(definition)._workers[0].sources[0]
    assert worker._with_room(Confusion({("a", "b"): 1, ("a", "c"): 2})).rows == 3
    assert worker._with_room(Confusion({("a", "d"): 4})).rows == 4
    # Three pairs are known, and there is room for four.
    assert worker._with_room(Confusion({("a", "b"): 1, ("a", "e"): 8, ("a", "f"): 16})).rows == 9
    assert worker._with_room(Confusion({("a", "e"): 32, ("b", "a"): 64})).rows == 32


def test_a_batch_with_as_many_labels_as_it_can_hold_is_refused_row_by_row_without_a_crash() -> None:
    definition = definition_of("all")
    runner = CrashingRunner(definition)
    rows = [Row(f"s{at}", f"{at:0{limits.LABEL_BYTES}}") for at in range(2000)]
    value = write_sample_batch(samples_of([tuple(rows)]), definition.data_fingerprint)
    runner.broker.append(Outgoing(SAMPLES, 0, None, value), 1)
    runner.drain(1)
    state = runner.merger.merger.sources()[0]
    assert state.counts["applied"] == definition.most_classes == len(state.labels)
    assert state.counts["refused too many classes"] == 2000 - definition.most_classes
    assert np.sum(list(state.statistics.counts().values())) == definition.most_classes
