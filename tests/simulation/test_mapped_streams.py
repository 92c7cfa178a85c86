"""A stream with a feature map: curved, and as exact as any other, from the log to the answer of a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from crashing_runner import CrashingRunner
from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.merger import plane_of
from deltaplane.log.records import Query
from deltaplane.log.scoring import score
from deltaplane.maps.feature_maps import FeatureMap, Kind
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.partition import Partition
from deltaplane.wire import read_prediction, write_query, write_sample_batch
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.processors.messages import PREDICTIONS, QUERIES, SAMPLES, Outgoing
from strategies_streams import FOURIER, HIDDEN, MIXED, Row, admitted, definition_of, samples_of

NOW = 1_700_000_000_000
CURVED: tuple[Kind, ...] = ("fourier", "mixed")
MAPS = pytest.mark.parametrize("feature_map", [HIDDEN, FOURIER, MIXED], ids=["hidden", "fourier", "mixed"])


def rows_of(seed: int, number: int = 120) -> list[Row]:
    """Points in and around a circle: no straight line parts them."""
    random = np.random.default_rng(seed)
    points = np.rint(random.normal(size=(number, 2)) * [2, 500])
    inside = (points**2 / [4, 250_000]).sum(axis=1) < 1
    return [Row(f"u{at}", "in" if inside[at] else "out", tuple(points[at].tolist())) for at in range(number)]


def mapped_moments(feature_map: FeatureMap, rows: Sequence[Row]) -> Statistics:
    """The statistics of all rows, from their mapped values one by one."""
    dimension = feature_map.width(2) + 1
    total = Statistics(dimension)
    for row in rows:
        quantized = np.array([row.values], dtype=np.int64)
        total = total + Statistics(
            dimension, {(0, row.label): Moments.of_rows(feature_map.apply(quantized).astype(np.int64))}
        )
    return total


@MAPS
@pytest.mark.parametrize("keep_rows", [True, False])
def test_the_statistics_are_those_of_the_mapped_rows(feature_map: FeatureMap, *, keep_rows: bool) -> None:
    definition = definition_of("all", features=2, feature_map=feature_map, keep_rows=keep_rows)
    rows = rows_of(1)
    partition = Partition(definition, 0)
    for start in range(0, len(rows), 7):
        partition.step(admitted(definition, [(row,) for row in rows[start : start + 7]]), [])
    assert partition.statistics == mapped_moments(feature_map, rows)
    assert partition.statistics.digest(definition.data_fingerprint) != partition.statistics.digest(
        definition_of("all", features=2).data_fingerprint
    )


@MAPS
def test_a_batch_that_is_mapped_in_pieces_gives_what_one_mapped_at_once_gives(
    feature_map: FeatureMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = definition_of("50", features=2, feature_map=feature_map)
    batch = [(row,) for row in rows_of(2)]

    def results() -> tuple[Statistics, list[Floats]]:
        partition = Partition(definition, 0)
        samples = admitted(definition, batch)
        partition.step(samples, [])
        return partition.statistics, [inputs for _, inputs in samples.inputs()]

    whole, one = results()
    monkeypatch.setattr(limits, "MAPPED_ENTRIES", 5 * feature_map.width(2))
    parted, many = results()
    assert parted == whole
    assert (len(one), len(many)) == (1, 24)
    assert np.vstack(many).tobytes() == one[0].tobytes()


def runner_with(definition: StreamDefinition, rows: Sequence[Row], chunk: int = 10) -> CrashingRunner:
    runner = CrashingRunner(definition, options=RunnerOptions(keep_log=True))
    for at, start in enumerate(range(0, len(rows), chunk)):
        samples = samples_of([(row,) for row in rows[start : start + chunk]], features=2)
        value = write_sample_batch(samples, definition.data_fingerprint)
        runner.broker.append(Outgoing(SAMPLES, 0, None, value), NOW)
        runner.round(NOW)
        if at % 3 == 1:
            runner.crash_worker(0, NOW)
    runner.drain(NOW)
    return runner


@MAPS
@pytest.mark.parametrize("window", ["40", "all"])
def test_after_crashes_the_model_is_that_of_the_rows_that_are_live(feature_map: FeatureMap, window: str) -> None:
    definition = definition_of(window, features=2, feature_map=feature_map)
    rows = rows_of(3)
    model = runner_with(definition, rows).merger.model
    reference = Reference(definition)
    reference.add(0, samples_of([(row,) for row in rows], features=2))
    assert model is not None
    assert model.plane is not None
    assert model.digest == reference.statistics().digest(definition.data_fingerprint)
    again = plane_of(reference.statistics(), definition, model.blend)
    assert again.weights.shape == (1, feature_map.width(2))
    assert again.weights.tobytes() == model.plane.weights.tobytes()


@MAPS
def test_a_query_is_mapped_before_it_is_answered(feature_map: FeatureMap) -> None:
    definition = definition_of("all", features=2, feature_map=feature_map)
    rows = rows_of(4)
    runner = runner_with(definition, rows)
    for at, row in enumerate(rows[:20]):
        query = Query(str(at), np.array(row.values), definition.data_fingerprint)
        runner.broker.append(Outgoing(QUERIES, 0, None, write_query(query)), NOW)
    runner.drain(NOW)
    answers = {a.id: a for a in (read_prediction(record.value) for record in runner.broker.fetch_topic(PREDICTIONS))}
    model = runner.merger.model
    assert model is not None
    assert model.plane is not None
    quantized = np.array([row.values for row in rows[:20]], dtype=np.int64)
    asked = feature_map.inputs(quantized.astype(np.float64), feature_map.apply(quantized))
    decisions = asked @ model.plane.weights[0] - model.plane.biases[0]
    for at, decision in enumerate(decisions.tolist()):
        assert answers[str(at)].decisions["out"] == pytest.approx(decision, abs=1e-12)
        assert answers[str(at)].predicted == ("out" if decision > 0 else "in")


def test_a_map_parts_what_no_line_parts() -> None:
    quality = []
    for feature_map in (FeatureMap(), *(FeatureMap(kind, 60, 1, 1.0, (0, 0), (2.0, 500.0)) for kind in CURVED)):
        definition = definition_of("all", features=2, feature_map=feature_map)
        model = runner_with(definition, rows_of(5, 600), 20).merger.model
        assert model is not None
        new = admitted(definition, [(row,) for row in rows_of(6, 300)])
        scores = score(model, new, []).scores
        quality.append(scores.correct / scores.rows)
    assert quality[0] < 0.7
    assert min(quality[1:]) > 0.9


@pytest.mark.parametrize("values", [(np.nan, 0.0), (0.0, 2.0**31), (np.inf, 0.0)])
def test_a_row_off_the_grid_is_known_to_be_no_input_of_a_map(values: tuple[float, float]) -> None:
    definition = definition_of("all", features=2, feature_map=HIDDEN)
    inputs, fits = definition.plane_inputs(np.array([values, (1.0, 2.0)]))
    assert fits.tolist() == [False, True]
    assert inputs[1].tobytes() == HIDDEN.inputs(np.zeros((1, 2)), HIDDEN.apply(np.array([[1, 2]]))).tobytes()
