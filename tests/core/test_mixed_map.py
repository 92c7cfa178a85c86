"""The mixed map: a row's own features and, behind them, cosines and sines of a few features each, of many widths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.maps.drawing import drawn_directions
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.maps.standards import fit_standards
from deltaplane.stream.component_tables import feature_map_of, feature_map_table, fit_feature_map
from deltaplane.stream.declared import DeclaredMap
from deltaplane.stream.nested_windows import FEWEST_UNITS, ROWS_OF_A_UNIT, NestedWindows, Window

END = limits.GRID_RANGE - 1


def mixed(features: int, units: int = 24, *, seed: int = 1, sigma: float = 1.0) -> FeatureMap:
    return FeatureMap("mixed", units, seed, sigma, tuple(range(features)), (2.0**18,) * features)


def some_rows(features: int, rows: int = 60) -> Int32s:
    return np.random.default_rng(features).integers(-(2**20), 2**20, size=(rows, features)).astype(np.int32)


def formula(feature_map: FeatureMap, quantized: Int32s) -> Floats:
    """Cosines and sines as the formula says, by the library's functions, in steps of 2**-20."""
    features, pairs = len(feature_map.centers), feature_map.units // 2
    directions, widths = drawn_directions(feature_map.seed, features, pairs)
    z = np.rint((quantized - np.array(feature_map.centers, dtype=np.float64)) * 2**20 / np.array(feature_map.scales))
    product = np.clip(z, -(2**23), 2**23).astype(np.int64) @ directions.astype(np.int64)
    angles = product * (math.sqrt(2) / feature_map.sigma / widths / 2**32)
    return np.asarray(2**20 * np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(len(quantized), -1))


@pytest.mark.parametrize("features", [1, 2, 6, 54])
def test_the_units_are_their_formula_to_within_a_step(features: int) -> None:
    feature_map, rows = mixed(features, sigma=1.5), some_rows(features)
    mapped = feature_map.apply(rows)
    assert mapped.shape == (60, features + 24)
    assert np.abs(mapped[:, features:] - formula(feature_map, rows)).max() < 0.8


@pytest.mark.parametrize("rows", [some_rows(3), some_rows(3).astype(np.int64) * 2**24])
def test_the_rows_own_features_stand_first_as_they_were(rows: Int32s) -> None:
    mapped = mixed(3).apply(rows)
    assert mapped.dtype == rows.dtype
    assert np.array_equal(mapped[:, :3], rows)
    assert np.abs(mapped[:, 3:]).max() <= 2**20


def test_the_first_units_are_those_of_a_map_of_fewer() -> None:
    feature_map, rows = mixed(4, 30), some_rows(4)
    whole = feature_map.apply(rows)
    for units in (0, 2, 10, 30):
        assert np.array_equal(feature_map.apply(rows, units), whole[:, : 4 + units])
        if units:
            assert np.array_equal(mixed(4, units).apply(rows), whole[:, : 4 + units])


def test_auto_has_the_units_that_the_longest_window_has_or_is_no_map() -> None:
    grid, rows = Grid(np.ones(2), np.zeros(2)), np.array([[1.0, 5.0], [3.0, 9.0]])

    def units(*windows: str, most: int = 200) -> int:
        nested_windows = NestedWindows(tuple(map(Window.parse, windows)))
        table = fit_feature_map(DeclaredMap.of({"kind": "auto", "units": most}), grid, rows, nested_windows)
        assert table.kind == ("none" if table.units is None else "mixed")
        return table.units or 0

    assert [units("100"), units("100", "800"), units("100", "6400"), units("100", "all")] == [0, 100, 200, 200]
    assert [units("6400", most=31), units("6400", most=1)] == [30, 0]
    wide = limits.FEATURES - 1
    nothing = fit_feature_map(DeclaredMap(kind="auto"), Grid(np.ones(wide), np.zeros(wide)), np.zeros((1, wide)))
    assert nothing == DeclaredMap(kind="none")


def test_directions_look_at_one_two_three_and_all_features_in_turn() -> None:
    directions, widths = drawn_directions(5, 9, 40)
    looks_at = (directions != 0).sum(axis=0)
    assert looks_at.tolist() == [1, 2, 3, 9] * 10
    assert set(np.flatnonzero(directions[:, ::4].any(axis=1))) > {0, 1, 2}
    for_one = widths / np.sqrt(looks_at)
    assert for_one.min() >= 0.5
    assert for_one.max() < 2.0
    assert 0.3 < np.log2(for_one).std() < 0.85, "log-uniform from -1 to 1 has a deviation of 0.58"


def test_a_direction_of_few_features_looks_at_no_more_than_there_are() -> None:
    assert (drawn_directions(0, 1, 8)[0] != 0).all()
    assert (drawn_directions(0, 2, 8)[0] != 0).sum(axis=0).tolist() == [1, 2, 2, 2] * 2


def test_directions_of_few_features_look_at_those_that_are_curved() -> None:
    directions, _ = drawn_directions(5, 9, 40, (2, 7))
    few = directions[:, np.arange(40) % 4 != 3]
    assert set(np.flatnonzero(few.any(axis=1))) == {2, 7}
    assert (directions != 0).sum(axis=0).tolist() == [1, 2, 2, 9] * 10


def test_flags_are_not_curved() -> None:
    random = np.random.default_rng(2)
    rows = np.column_stack(
        [random.integers(0, 2, 500), random.normal(size=500), np.ones(500), random.integers(0, 3, 500)]
    )
    rows[7, 0] = np.nan
    assert fit_feature_map(DeclaredMap(kind="auto"), Grid(np.full(4, 2.0**-10), np.zeros(4)), rows).curved == (
        1,
        3,
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"curved": [0, 0]}, "expected different places from 0 to 1"),
        ({"curved": [2]}, "expected different places from 0 to 1"),
        ({"curved": [0.5]}, "feature_map.curved: expected a whole number"),
        ({"curved": 1}, "feature_map.curved: expected a list, got 1"),
        ({"curved": [1], "kind": "fourier"}, "kind 'fourier' looks at all features"),
    ],
)
def test_places_that_cannot_be_are_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    table = {"kind": "mixed", "units": 4, "centers": [0, 0], "scales": [1.0, 1.0]} | change
    with pytest.raises(DefinitionError, match=complaint):
        feature_map_of(DeclaredMap.of(table), 2)


def test_a_value_further_out_than_eight_scales_counts_as_one_there() -> None:
    feature_map = FeatureMap("mixed", 8, 1, 1.0, (100, 0), (3.0, 2.0**18))
    edge, beyond, inside = feature_map.apply(np.array([[124, 7], [10_000_000, 7], [123, 7]], dtype=np.int32))
    assert np.array_equal(edge[2:], beyond[2:])
    assert not np.array_equal(edge[2:], inside[2:])


def test_batch_layout_and_type_of_the_rows_do_not_matter() -> None:
    feature_map, rows = mixed(7, 130), some_rows(7, 1300)
    mapped = feature_map.apply(rows)
    assert np.array_equal(mapped, np.vstack([feature_map.apply(rows[at : at + 1]) for at in range(len(rows))]))
    for other in (np.asfortranarray(rows), rows.astype(np.int64), np.hstack([rows, rows])[:, :7]):
        assert np.array_equal(mapped, feature_map.apply(other))
    assert np.array_equal(mapped[511:], feature_map.apply(rows[511:]))
    assert feature_map.apply(rows[:0]).shape == (0, 137)


def test_projections_at_the_ends_of_the_grid_are_exact() -> None:
    feature_map = FeatureMap("mixed", 40, 9, 1.0, (0,) * limits.FEATURES, (0.5,) * limits.FEATURES)
    directions = feature_map._directions
    z = feature_map._standardised(np.where(directions.T >= 0, END, -END).astype(np.int32))
    exact = z.astype(np.int64).astype(object) @ directions.astype(np.int64).astype(object)
    assert np.abs(z).min() == 2**23
    assert np.array_equal((z @ directions).astype(object), exact)


def test_a_plane_is_asked_about_rows_as_they_came_and_then_about_units() -> None:
    feature_map, rows = mixed(2, 4), np.array([[0.1, 7.7]])
    mapped = feature_map.apply(np.array([[3, 4]], dtype=np.int32))
    asked = feature_map.inputs(rows, mapped)
    assert asked.tolist() == [[0.1, 7.7, *(mapped[0, 2:] * 2.0**-20).tolist()]]


def test_grid_and_names_are_those_of_the_rows_and_then_of_the_units() -> None:
    feature_map, grid = mixed(2, 4), Grid(np.array([0.5, 2.0]), np.array([1.0, 0.0]), 45)
    assert feature_map.grid(grid) == Grid(np.array([0.5, 2.0, *[2.0**-20] * 4]), np.array([1.0, *[0.0] * 5]), 45)
    assert feature_map.grid(grid).leading(2) == grid
    assert feature_map.names(["a", "b"]) == ("a", "b", "cosine_0", "sine_0", "cosine_1", "sine_1")
    clash = feature_map.names(["sine_1", "mapped_cosine_0"])
    assert clash[2:4] == ("mapped_mapped_cosine_0", "mapped_mapped_sine_0")
    assert (feature_map.width(2), feature_map.beside) == (6, 2)


def test_auto_is_written_down_as_what_it_became() -> None:
    grid, rows = Grid(np.ones(2), np.zeros(2)), np.array([[1.0, 5.0], [3.0, 9.0]])
    table = fit_feature_map(DeclaredMap.of({"kind": "auto", "units": 8}), grid, rows)
    standards = fit_standards(grid, rows)
    assert table.table == {
        "kind": "mixed", "units": 8, "sigma": 1.0,
        "centers": [center for center, _ in standards], "scales": [scale for _, scale in standards], "curved": [],
    }  # fmt: skip
    read = feature_map_of(table, 2)
    assert feature_map_of(DeclaredMap.of(feature_map_table(read)), 2) == read
    assert feature_map_of(table.with_said(kind="auto"), 2) == read


@pytest.mark.parametrize("size", [1, 2**28])
def test_statistics_of_the_first_features_are_a_part_of_those_of_all(size: int) -> None:
    rows = np.random.default_rng(0).integers(-1000, 1000, size=(50, 9)) * size
    whole = Moments.of_rows(rows)
    for features in (1, 4, 9):
        part = whole.leading(features + 1)
        assert part == Moments.of_rows(rows[:, :features])
        assert part.to_bytes() == Moments.of_rows(rows[:, :features]).to_bytes()
        assert part.fits_int64 == Moments.of_rows(rows[:, :features]).fits_int64


def test_a_short_window_has_few_units_and_the_shortest_none() -> None:
    units = [Window("count", rows).units(200) for rows in (1, 100, 16 * ROWS_OF_A_UNIT, 400, 1600, 6400)]
    assert units == [0, 0, FEWEST_UNITS, 400 // ROWS_OF_A_UNIT // 2 * 2, 200, 200]
    assert Window("all").units(200) == Window("time", 5).units(200) == 200
    assert [Window("count", rows).units(4) for rows in (8, 31, 32)] == [0, 0, 4]
