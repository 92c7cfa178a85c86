"""Flat and curved candidates of nested windows: each is the very one that it would be in a stream of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane.arrays import Floats, Int64s
from deltaplane.errors import DefinitionError, SolveRefused
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.merger import fit_candidates, plane_of
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.solve.candidates import Blend, weigh
from deltaplane.solve.flat_and_curved import curved_among
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver import solve
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire.blends import blend_fields, blend_of, prequential_counts_fields, prequential_counts_of
from strategies_streams import definition_of

MAP = FeatureMap("mixed", 20, 3, 1.0, (0, 0), (1000.0, 1000.0))
WINDOWS = ("40", "144", "all")


def stream(feature_map: FeatureMap = MAP) -> StreamDefinition:
    plain = definition_of(*WINDOWS, features=2, feature_map=feature_map)
    return replace(plain, choices=(0.01, 1.0), weightings=("inverse", "none"), solver=SolverOptions(C=1.0))


def rows_of(seed: int, number: int = 300, classes: int = 2) -> tuple[Floats, Int64s]:
    random = np.random.default_rng(seed)
    rows = np.rint(random.normal(size=(number, 2)) * 1000)
    radius = np.hypot(*rows.T)
    return rows, np.digitize(radius, np.quantile(radius, np.arange(1, classes) / classes))


def statistics_of(definition: StreamDefinition, seed: int, classes: int = 2) -> Statistics:
    rows, truth = rows_of(seed, classes=classes)
    mapped = definition.feature_map.apply(rows.astype(np.int32))
    parts = {}
    for w, (rows_in, dimension) in enumerate(zip((40, 144, 300), definition.dimensions, strict=True)):
        for code in range(classes):
            part = mapped[-rows_in:][truth[-rows_in:] == code]
            if len(part):
                parts[w, "xyz"[code]] = Moments.of_rows(part[:, : dimension - 1])
    return Statistics(definition.dimension, parts)


def test_short_windows_have_the_statistics_of_fewer_units() -> None:
    assert stream().dimensions == (3, 21, 23)
    assert stream().dimension == 23
    assert len(stream().choices_tried) == 6
    assert [choice.curved for choice in stream().choices_tried] == [False] * 4 + [True] * 2


def test_few_choices_are_curved_too() -> None:
    def curved(*options: tuple[str, float]) -> list[tuple[object, float]]:
        tried = [SolverOptions(weighting=weighting, C=C) for weighting, C in options]  # type: ignore[arg-type]
        return [(one.weighting, one.C) for one in curved_among(tried)]

    three = (0.001, 0.1, 10.0)
    every = [(weighting, C) for weighting in ("inverse", "none") for C in three]
    assert curved(*every) == [("inverse", 0.1), ("inverse", 10.0), ("none", 0.1)]
    assert curved(("inverse", 2.0)) == [("inverse", 2.0)]
    assert curved(("none", 1.0), ("none", 2.0)) == [("none", 2.0)]
    assert SolverOptions(weighting={"a": 1.0, "b": 2.0}) in curved_among(
        [SolverOptions(weighting={"a": 1.0, "b": 2.0})]
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_flat_candidates_are_those_of_a_stream_without_a_map_bit_for_bit(classes: int) -> None:
    mixed, plain = stream(), stream(FeatureMap())
    both = fit_candidates(statistics_of(mixed, 1, classes), mixed)
    flat = fit_candidates(statistics_of(plain, 1, classes), plain)
    assert both.counts == flat.counts
    for target in flat.weights:
        assert both.weights[target][:, :4, :2].tobytes() == flat.weights[target].tobytes()
        assert not both.weights[target][:, :4, 2:].any()
        assert both.biases[target][:, :4].tobytes() == flat.biases[target].tobytes()
    for label in flat.sigmas:
        assert both.sigmas[label][:, :4].tobytes() == flat.sigmas[label].tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_curved_candidates_are_the_planes_of_all_units_of_their_window(seed: int) -> None:
    definition = stream()
    statistics = statistics_of(definition, seed)
    fitted = fit_candidates(statistics, definition)
    assert np.isnan(fitted.weights["y"][0, 4:]).all(), "the shortest window has no units"
    for w in (1, 2):
        features = definition.dimensions[w] - 1
        for c, options in enumerate(definition.curved_options):
            plane = solve(statistics.grams(w), definition.plane_grid.leading(features), options)
            assert fitted.weights["y"][w, 4 + c, :features].tobytes() == plane.weights[0].tobytes()
            assert not fitted.weights["y"][w, 4 + c, features:].any()
            assert fitted.biases["y"][w, 4 + c, 0] == plane.biases[0]


def test_where_no_window_gives_a_plane_the_reason_is_told() -> None:
    definition = stream()
    one = Statistics(definition.dimension, {(2, "x"): Moments.of_rows(np.ones((3, 22), dtype=np.int32))})
    with pytest.raises(SolveRefused, match="at least two classes"):
        fit_candidates(one, definition)
    few = one + Statistics(definition.dimension, {(2, "y"): Moments.of_rows(np.ones((1, 22), dtype=np.int32))})
    with pytest.raises(SolveRefused, match="no candidate of 3 windows and 6 choices"):
        fit_candidates(few, definition)


def test_a_blend_of_flat_and_curved_goes_over_the_wire() -> None:
    definition = stream()
    statistics = statistics_of(definition, 4)
    fitted, choices = fit_candidates(statistics, definition), definition.choices_tried
    prequential_counts = PrequentialCounts(choices, {"y": np.full((3, 6, 2, 2), 6)}, {"y": np.full((3, 6, 2), 10)})
    blend = weigh(fitted, choices, None, prequential_counts)
    read = blend_of(blend_fields(blend))
    assert isinstance(read, Blend)
    assert read.choices == choices
    assert prequential_counts_of(prequential_counts_fields(prequential_counts)) == prequential_counts
    assert (
        plane_of(statistics, definition, read).weights.tobytes()
        == plane_of(statistics, definition, blend).weights.tobytes()
    )
    assert {field["weighting"] for field in (prequential_counts_fields(prequential_counts) or {})["choices"]} == {
        "inverse",
        "none",
        "inverse, curved",
        "none, curved",
    }


def test_a_prior_of_all_features_draws_flat_planes_by_its_first_weights() -> None:
    plain = stream()
    flat = solve(statistics_of(plain, 1).grams(2), plain.plane_grid, SolverOptions(C=1.0))
    drawn = replace(plain, prior=flat)
    over_two = replace(stream(FeatureMap()), prior=replace(flat, weights=flat.weights[:, :2]))
    both = fit_candidates(statistics_of(drawn, 2), drawn)
    alone = fit_candidates(statistics_of(over_two, 2), over_two)
    assert both.weights["y"][:, :4, :2].tobytes() == alone.weights["y"].tobytes()


def test_a_map_of_more_units_than_any_window_has_is_refused_by_name() -> None:
    with pytest.raises(
        DefinitionError, match="statistics of 18 units, one for 8 of its rows, and there are 20; set units = 18"
    ):
        definition_of("40", "144", features=2, feature_map=MAP)


def test_a_grid_says_where_its_first_features_lie() -> None:
    grid = Grid(np.array([0.5, 2.0, 4.0]), np.array([1.0, 0.0, 8.0]), 45)
    assert grid.leading(2) == Grid(np.array([0.5, 2.0]), np.array([1.0, 0.0]), 45)
