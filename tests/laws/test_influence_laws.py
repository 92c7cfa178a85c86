"""What is said of retiring live rows is what comes of really retiring them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import deltaplane
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.influence import influence, statistics_of_rows
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import write_retirement, write_sample_batch
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing

SOLVERS = (
    {"C": 1.0},
    {"C": 1.0, "weighting": "balanced"},
    {"C": 0.5, "standardize": False},
    {"C": 1.0, "kind": "lssvm"},
    {"C": [0.1, 10.0]},
)


def stream(solver: dict[str, object], classes: int, *, mapped: bool) -> StreamDefinition:
    tables: dict[str, object] = {
        "name": "s",
        "features": {"names": ["x", "y"]},
        "grid": {"steps": [2.0**-16] * 2},
        "classes": {"names": list("abc"[:classes])},
        "window": {"length": "all"},
        "solver": solver,
    }
    if mapped:
        kind = {"kind": "hidden", "units": 3, "sigma": 1.0, "centers": [0, 0], "scales": [2.0**16] * 2}
        tables["feature_map"] = kind
    return StreamDefinition.from_tables(tables)


@settings(max_examples=40)
@given(
    rows=hnp.arrays(np.float64, (30, 2), elements=st.floats(-4.0, 4.0)),
    leaving=st.lists(st.integers(0, 29), min_size=1, max_size=4, unique=True),
    solver=st.sampled_from(SOLVERS),
    classes=st.sampled_from([2, 3]),
    mapped=st.booleans(),
)
def test_influence_is_that_of_really_retiring(
    rows: Floats, leaving: list[int], solver: dict[str, object], classes: int, *, mapped: bool
) -> None:
    definition = stream(solver, classes, mapped=mapped)
    codes = np.arange(30) % classes
    labels = list("abc"[:classes])
    runner = EmbeddedRunner(definition, options=RunnerOptions(records_per_poll=2**31))
    ids = [f"row-{at}" for at in range(30)]
    samples = Samples.of_record(ids, 0, tuple(labels), codes.astype(np.int32), rows)
    runner.broker.append(Outgoing(SAMPLES, 0, None, write_sample_batch(samples, definition.data_fingerprint)), 0)
    runner.round(0)
    before = runner.merger.model
    assert before is not None
    assume(before.plane is not None)
    live = runner.merger.merger.statistics
    gone = statistics_of_rows(rows[leaving], [labels[codes[at]] for at in leaving], definition)
    told = influence(live, gone, definition, before.blend)
    for at in leaving:
        value = write_retirement(Retirement(ids[at], "", 0, time=0), definition.data_fingerprint)
        runner.broker.append(Outgoing(RETIREMENTS, 0, ids[at].encode(), value), 0)
    runner.round(0)
    after = runner.merger.model
    assert after is not None
    assert after.version > before.version
    assert told.statistics == runner.merger.merger.statistics, "the same integers"
    assert told.statistics.digest(definition.data_fingerprint) == after.digest
    assert after.plane is not None
    assert before.plane is not None
    np.testing.assert_allclose(told.after.weights, after.plane.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(told.after.biases, after.plane.biases, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(told.before.weights, before.plane.weights, rtol=1e-9, atol=1e-12)
    query = np.array([[0.5, -0.25], [3.0, 3.0]])
    inputs, _ = definition.plane_inputs(query)
    expected = after.plane.decide(inputs) - before.plane.decide(inputs)
    np.testing.assert_allclose(told.on(query), expected, rtol=1e-9, atol=1e-11)


@settings(max_examples=30)
@given(
    hnp.arrays(np.float64, (24, 2), elements=st.floats(-4.0, 4.0)),
    st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True),
)
def test_an_estimator_says_the_same_and_retires_nothing(rows: Floats, leaving: list[int]) -> None:
    labels = np.arange(24) % 2
    model = deltaplane.ProximalSVM(C=1.0, grid=stream({"C": 1.0}, 2, mapped=False).grid).fit(rows, labels)
    digest, before = model.digest(), model.decision_function(rows)
    told = model.influence(rows[leaving], labels[leaving], rows)
    assert model.digest() == digest
    model.retire(rows[leaving], labels[leaving])
    np.testing.assert_array_equal(told, model.decision_function(rows) - before)


def test_a_row_that_the_stream_never_had_is_refused() -> None:
    definition = stream({"C": 1.0}, 2, mapped=False)
    for rows, label in ((np.array([[0.0, 2.0**30]]), "a"), (np.zeros((1, 2)), "z")):
        with pytest.raises(DefinitionError, match="expected rows that the stream admits"):
            statistics_of_rows(rows, [label], definition)
    assert isinstance(statistics_of_rows(np.zeros((1, 2)), ["a"], definition), Statistics)
