"""From scores to probabilities: what is counted, remembered, and made of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.log.scoring import score
from deltaplane.solve.calibration import MEMORIES, Calibration, Tallies, curve_of, tally_plane
from deltaplane.solve.score_histograms import BINS, EDGES
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_model, write_model
from deltaplane.wire.frame import header
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import DELTAS
from golden.wire_examples import MODEL, PLANE, THREE_PLANES

UNITS = np.array([[0.0, 1.0]])
TWO = replace(PLANE, units=UNITS, counts={"DOWN": 30, "UP": 10})
THREE = replace(THREE_PLANES, units=np.repeat(UNITS, 3, axis=0))


def counted(own: Floats, rest: Floats) -> Calibration:
    """What is known after rows with these scores, of one class and of the other, were scored by ``TWO``."""
    values = np.concatenate([own, rest])[:, None]
    truths = np.repeat([1, 0], [len(own), len(rest)])
    tallies = tally_plane(TWO, values, truths, {"DOWN": 0, "UP": 1})
    return Calibration({}).remembers(TWO.targets, tallies)


def histograms(*classes: int, most: int) -> st.SearchStrategy[Floats]:
    """Counts float64[*classes, memories, 2, BINS] up to ``most``, of which some share is zero, from a drawn seed."""

    def made(seed: int, empty: float) -> Floats:
        random = np.random.default_rng(seed)
        shape = (*classes, len(MEMORIES), 2, BINS)
        return np.where(random.random(shape) < empty, 0.0, random.integers(0, most, shape, endpoint=True))

    return st.builds(made, st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))


@given(histograms(most=1000))
def test_a_curve_never_falls_and_stays_between_0_and_1(counts: Floats) -> None:
    curve = curve_of(counts)
    assert (np.diff(curve) >= -1e-12).all()
    assert ((curve > 0.0) & (curve < 1.0)).all()


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans()), max_size=60), st.integers(0, 60))
def test_tallies_of_parts_add_up_to_those_of_the_whole(rows: list[tuple[float, bool]], at: int) -> None:
    def tallied(some: list[tuple[float, bool]]) -> Tallies:
        values = np.array([value for value, _ in some]).reshape(-1, 1)
        return tally_plane(TWO, values, np.array([int(own) for _, own in some]), {"DOWN": 0, "UP": 1})

    assert tallied(rows[:at]) + tallied(rows[at:]) == tallied(rows)
    assert tallied(rows).of["UP"].sum() == len(rows)


def test_probabilities_are_the_shares_of_rows_with_such_scores() -> None:
    random = np.random.default_rng(1)
    scores = random.uniform(-2.0, 2.0, 40_000)
    truth = np.where(scores > 1.0, 0.8, 0.3)
    own = random.random(len(scores)) < truth
    known = counted(scores[own], scores[~own])
    found = known.probabilities(TWO, np.array([[-1.5], [0.0], [1.5]]))
    np.testing.assert_allclose(found[:, TWO.classes.index("UP")], [0.3, 0.3, 0.8], atol=0.03)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)


def test_what_was_long_ago_counts_less_and_the_short_memory_forgets_it_first() -> None:
    before = counted(np.full(500, 1.0), np.full(500, 1.0))
    after = before.remembers(TWO.targets, Tallies({"UP": np.stack([_at(1.0, 2000), _at(-1.0, 2000)])}))
    place = int(np.searchsorted(EDGES, 1.0, side="right")) - 1
    short, long = (after.of["UP"][memory, 1, place] for memory in range(len(MEMORIES)))
    assert short == pytest.approx(500 * np.exp(-4000 / MEMORIES[0]))
    assert long == pytest.approx(500 * np.exp(-4000 / MEMORIES[1]))


def _at(score_value: float, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = np.zeros(BINS, dtype=np.int64)
    counts[int(np.searchsorted(EDGES, score_value, side="right")) - 1] = rows
    return counts


@given(histograms(3, most=9))
def test_of_several_classes_the_probabilities_add_to_one(counts: Floats) -> None:
    known = Calibration(dict(zip("abc", counts, strict=True)))
    decisions = np.array([[-1.0, 0.5, 3.0], [0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]])
    found = known.probabilities(THREE, decisions)
    if known.curves:
        np.testing.assert_allclose(found[:2].sum(axis=1), 1.0, rtol=1e-12)
    else:
        assert np.isnan(found).all()
    assert np.isnan(found[2]).all()


def test_nothing_is_said_before_rows_of_both_sides_were_scored() -> None:
    nothing = np.empty(0)
    assert np.isnan(counted(np.ones(50), nothing).probabilities(TWO, np.zeros((1, 1)))).all()
    assert np.isnan(Calibration({}).probabilities(TWO, np.zeros((1, 1)))).all()
    assert replace(MODEL, plane=TWO, calibration=Calibration({})).probabilities(np.zeros((1, 1))) is None
    assert replace(MODEL, plane=TWO).probabilities(np.zeros((1, 1))) is None


def stream(**solver: object) -> StreamDefinition:
    tables = {
        "name": "s",
        "features": {"names": ["x", "y"]},
        "grid": {"steps": [2.0**-16] * 2},
        "classes": {"names": ["n", "p"], "positive": "p"},
        "window": {"length": "500"},
        "solver": {"C": 1.0, **solver},
    }
    return StreamDefinition.from_tables(tables)


def run(definition: StreamDefinition, chunks: int = 20, *, decode: bool = True) -> EmbeddedRunner:
    """A pipeline that has learned rows of two classes, a fifth of which are of the wrong side."""
    random = np.random.default_rng(7)
    runner = EmbeddedRunner(definition, options=RunnerOptions(records_per_poll=2**31, keep_log=True, decode=decode))
    for chunk in range(chunks):
        rows = random.normal(size=(100, 2))
        codes = ((rows[:, 0] > 0) ^ (random.random(100) < 0.2)).astype(np.int32)
        ids = [f"{chunk}-{row}" for row in range(100)]
        samples = Samples.of_record(ids, 0, ("n", "p"), codes, rows)
        runner.broker.append(codec_of(definition).sample_batch(0, samples), 0)
        runner.round(0)
    return runner


@pytest.mark.parametrize("solver", [{}, {"C": [0.1, 10.0]}, {"objective": "kappa"}, {"weighting": "none"}])
def test_a_stream_knows_how_often_it_is_right(solver: dict[str, object]) -> None:
    model = run(stream(**solver)).merger.model
    assert model is not None
    assert model.plane is not None
    far = model.plane.decide(np.array([[-2.0, 0.0], [2.0, 0.0]]))
    found = model.probabilities(far)
    assert found is not None
    np.testing.assert_allclose(found[:, 1], [0.2, 0.8], atol=0.06)
    assert model.plane.means is not None
    np.testing.assert_allclose(model.plane.means, [0.0, 0.0], atol=0.2)


def test_a_merger_that_starts_again_goes_on_with_what_was_known() -> None:
    from deltaplane_services.embedded.embedded_runner import start_merger  # noqa: PLC0415

    runner = run(stream())
    runner.checkpoint(0)
    known = runner.merger.model
    again, _ = start_merger(runner.definition, runner.broker)
    output = again.publish(1)
    assert known is not None
    assert known.calibration is not None
    found = read_model(output.then[0].value)
    assert found.calibration is not None
    np.testing.assert_array_equal(found.calibration.of["p"], known.calibration.of["p"])


def test_deltas_that_are_read_again_are_not_counted_again() -> None:
    from deltaplane_services.embedded.embedded_runner import start_merger  # noqa: PLC0415

    runner = run(stream())
    known = runner.merger.model
    # No checkpoint was written: all deltas are behind the last model, and all of them are read again.
    again, positions = start_merger(runner.definition, runner.broker)
    assert positions == {0: 0}
    again.process(runner.broker.fetch(DELTAS, 0, 0))
    found = read_model(again.publish(1).then[0].value)
    assert known is not None
    assert known.calibration is not None
    assert found.calibration is not None
    np.testing.assert_array_equal(found.calibration.of["p"], known.calibration.of["p"])
    assert found.digest == known.digest


def test_probabilities_can_be_left_out_and_messages_are_then_what_they_were() -> None:
    with_them, without = run(stream()), run(stream(calibrate=False))
    assert without.merger.model is not None
    assert with_them.merger.model is not None
    assert without.merger.model.calibration is None
    assert without.merger.model.digest == with_them.merger.model.digest
    assert without.merger.model.plane is not None
    assert write_model(without.merger.model)[:10] == write_model(MODEL)[:10]
    deltas = {(runner.broker.fetch(DELTAS, 0, 0)[-1].value or b"")[:10] for runner in (with_them, without)}
    assert deltas == {header("binned"), header("delta")}
    assert stream(calibrate=False).to_tables()["solver"]["calibrate"] is False
    assert stream(calibrate=False).stream_fingerprint == stream().stream_fingerprint
    with pytest.raises(DefinitionError, match="calibrate"):
        stream(calibrate="no")


def test_where_a_model_without_calibration_scores_nothing_is_counted() -> None:
    definition = stream()
    runner = run(definition, 3)
    model = runner.merger.model
    assert model is not None
    from deltaplane.stream.sample import admit  # noqa: PLC0415

    samples = Samples.of_record(["a", "b"], 0, ("n", "p"), np.array([0, 1], np.int32), np.array([[0.5, 0.0]] * 2))
    admitted, _ = admit(samples, definition, [])
    assert score(model, admitted, ()).tallies.of["p"].sum() == 2
    assert score(replace(model, calibration=None), admitted, ()).tallies == Tallies()


def test_very_many_classes_have_no_probabilities() -> None:
    names = [f"c{at}" for at in range(200)]
    tables = stream().to_tables() | {"classes": {"names": names}}
    assert StreamDefinition.from_tables(tables).most_calibrated == 128
    assert stream(calibrate=False).most_calibrated == 0


def _plane_without_units() -> Plane:
    return replace(TWO, units=None)


def test_a_plane_of_an_earlier_version_gives_none() -> None:
    known = counted(np.ones(5), -np.ones(5))
    assert np.isnan(known.probabilities(_plane_without_units(), np.zeros((2, 1)))).all()
    assert tally_plane(_plane_without_units(), np.zeros((2, 1)), np.zeros(2, np.int64), {}) == Tallies()
