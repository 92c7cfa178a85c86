"""Hard class shares: none, one row, one in a million, ten million rows, and majorities that change places."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.log.merger import plane_of
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane.window.partition import Partition
from exact_planes import exact_plane
from torture.torture_stream import MODES, TortureStream, bits, cloud, definition_for, plane, planes_of, with_window


@pytest.mark.parametrize("mode", MODES)
def test_when_all_rows_of_a_class_are_retired_the_last_good_plane_stays_and_the_model_says_so(mode: str) -> None:
    rows, labels = cloud(1, 40)
    stream = TortureStream(definition_for(mode, [1.0, 1.0], 200))
    good = stream.take(rows, labels)
    model = stream.retire([at for at, label in enumerate(labels) if label == "yes"])
    assert model.counts == {"no": labels.count("no")}
    assert model.refusal is not None
    assert "two classes" in model.refusal
    assert f"{{'no': {labels.count('no')}}}" in model.refusal
    assert bits(model.plane) == bits(plane(good))
    # Nothing of them is left: whoever comes now is learned as if they had never been.
    more, names = cloud(2, 40)
    again = stream.take(more, names)
    never = TortureStream(stream.definition)
    never.take(rows[np.array(labels) == "no"], [label for label in labels if label == "no"])
    other = never.take(more, names)
    assert again.digest == other.digest
    assert planes_of(again) == planes_of(other)
    assert plane(again).classes == ("no", "yes")


@pytest.mark.parametrize("mode", MODES)
def test_when_everything_is_retired_the_last_good_plane_stays_and_the_digest_is_that_of_nothing(mode: str) -> None:
    rows, labels = cloud(3, 30)
    stream = TortureStream(definition_for(mode, [1.0, 1.0]))
    good = stream.take(rows, labels)
    model = stream.retire(range(30))
    assert model.counts == {}
    assert model.refusal is not None
    assert bits(model.plane) == bits(plane(good))
    assert not stream.runner.merger.merger.statistics


@pytest.mark.parametrize("mode", ["plain", "hidden", "fourier"])
def test_one_row_is_a_class(mode: str) -> None:
    rows, _ = cloud(4, 30)
    rows[17] = [4000.0, 5000.0]
    labels = ["yes" if at == 17 else "no" for at in range(30)]
    definition = definition_for(mode, [1.0, 1.0])
    found = plane(TortureStream(definition).take(rows, labels))
    assert found.counts == {"no": 29, "yes": 1}
    assert found.sigmas == {"no": 1 / 30, "yes": 29 / 30}
    if mode == "plain":
        expected = exact_plane(rows, np.array(labels) == "yes", definition.grid, definition.solver)
        np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-12)
    assert found.predict(definition.plane_inputs(rows[17:18])[0]).tolist() == [1]


def test_one_row_is_no_candidate_of_the_automatic_mode_and_two_are() -> None:
    rows, _ = cloud(5, 31)
    stream = TortureStream(definition_for("automatic", [1.0, 1.0]))
    model = stream.take(rows[:30], ["yes" if at == 17 else "no" for at in range(30)])
    assert model.plane is None
    assert model.refusal is not None
    assert "no window has 2 rows of two classes, got {'no': 29, 'yes': 1}" in model.refusal
    model = stream.take(rows[30:], ["yes"])
    assert plane(model).counts == {"no": 29, "yes": 2}
    assert model.blend is not None
    # The window of 20 rows holds both of them, too.
    assert model.blend.of["yes"].exist.all()


@pytest.mark.parametrize("mode", MODES)
def test_two_classes_that_change_places_as_the_majority_leave_no_trace_of_the_time_before(mode: str) -> None:
    definition = definition_for(mode, [1.0, 1.0], 100)
    stream, fresh = TortureStream(definition), TortureStream(definition)
    rare, common = cloud(6, 200, share=0.1), cloud(7, 100, share=0.9)
    before = [stream.take(rare[0][at : at + 50], rare[1][at : at + 50]) for at in range(0, 200, 50)][-1]
    model = [stream.take(common[0][at : at + 50], common[1][at : at + 50]) for at in range(0, 100, 50)][-1]
    other = fresh.take(*common)
    assert before.counts["yes"] < 20
    assert before.counts["no"] > 80
    assert model.counts["no"] < 20
    assert model.counts["yes"] > 80
    assert model.digest == other.digest
    assert planes_of(model) == planes_of(other)
    inputs, _ = definition.plane_inputs(common[0])
    right = plane(model).predict(inputs) == (np.array(common[1]) == "yes")
    for label in ("no", "yes"):
        assert right[np.array(common[1]) == label].mean() > 0.75


def batch_of(rows: Floats, labels: Sequence[str], first: int = 0) -> Samples:
    """Rows as a worker takes them, without a broker between."""
    count = len(rows)
    table = tuple(sorted(set(labels)))
    return Samples.of_record(
        ids=list(map(str, range(first, first + count))),
        event_times=0,
        label_table=table,
        label_codes=np.array([table.index(label) for label in labels], dtype=np.int32),
        features=rows,
    )


def many(mode: str) -> StreamDefinition:
    """A stream over everything that holds no rows."""
    return with_window(definition_for(mode, [1.0, 1.0]), "all", keep_rows=False)


FOUR = np.array([[0.0, 5.0], [1.0, -3.0], [-2.0, 0.0], [3.0, 1.0]])


@pytest.mark.parametrize("mode", MODES)
def test_one_row_in_a_million_is_a_class_of_its_own(mode: str) -> None:
    definition = many(mode)
    partition = Partition(definition, 0)
    common, refusals = admit(batch_of(np.tile(FOUR, (25_000, 1)), ["no"] * 100_000), definition)
    assert not refusals
    for _ in range(10):
        partition.step(common, [])
    # The automatic mode wants two of a class.
    few = 2 if mode == "automatic" else 1
    rare, _ = admit(batch_of(np.array([[40.0, 30.0]] * few), ["yes"] * few), definition)
    partition.step(rare, [])
    assert partition.statistics.counts() == {"no": 1_000_000, "yes": few}
    merged = TortureStream(definition).runner.merger.merger
    merged.statistics = partition.statistics
    model = merged.publish(0)
    assert model is not None
    found = plane(model)
    if mode == "plain":
        assert found.sigmas == {"no": 1 / 1_000_001, "yes": 1_000_000 / 1_000_001}
        quantized, own = np.vstack([FOUR, [[40.0, 30.0]]]), np.array([False] * 4 + [True])
        times = [250_000] * 4 + [1]
        expected = exact_plane(quantized, own, definition.grid, definition.solver, times)
        np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-12)
    inputs, _ = definition.plane_inputs(np.vstack([FOUR, [[40.0, 30.0]]]))
    if mode != "fourier":
        assert found.predict(inputs).tolist() == [0, 0, 0, 0, 1]
    # And taken away again among a million, it leaves no trace.
    alone = Partition(definition, 0)
    alone.step(rare, [])
    partition.statistics = partition.statistics - alone.statistics
    assert partition.statistics.counts() == {"no": 1_000_000}
    assert plane_refused(partition, definition)


def plane_refused(partition: Partition, definition: StreamDefinition) -> bool:
    """Whether the statistics determine no plane."""
    merger = TortureStream(definition).runner.merger.merger
    merger.statistics = partition.statistics
    model = merger.publish(0)
    return model is not None and model.refusal is not None and model.plane is None


def test_ten_million_rows_are_as_exact_as_ten_and_take_no_more_memory() -> None:
    definition = many("plain")
    largest = 2.0**30 - 1
    corners = np.array([[largest, -largest], [largest, largest], [-largest, -largest], [0.0, 1.0]])
    batches = [
        admit(batch_of(np.tile(corners, (25_000, 1)), ["no"] * 100_000), definition)[0],
        admit(batch_of(np.tile(corners[::-1] // 2, (25_000, 1)), ["yes"] * 100_000), definition)[0],
    ]
    partition = Partition(definition, 0)
    partition.step(batches[0], [])
    tracemalloc.start()
    for at in range(1, 100):
        partition.step(batches[at % 2], [])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10**5
    gram = partition.statistics.grams()["no"]
    assert gram.count == partition.statistics.grams()["yes"].count == 5_000_000
    assert gram.entry(0, 0) == 5_000_000 // 4 * 3 * int(largest) ** 2
    assert gram.entry(0, 1) == 5_000_000 // 4 * int(largest) ** 2
    assert gram.entry(1, 2) == -5_000_000 // 4 * (1 - int(largest))
    quantized, own = np.vstack([corners, corners[::-1] // 2]), np.repeat([False, True], 4)
    expected = exact_plane(quantized, own, definition.grid, definition.solver, [1_250_000] * 8)
    found = plane_of(partition.statistics, definition)
    np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-12)
