"""The one law of feature maps, bitwise: what becomes of a row depends on the row and the map, and on nothing else."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane.arrays import Floats, Int64s
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.stream.component_tables import (
    feature_map_of,
    feature_map_table,
    fit_feature_map,
)
from deltaplane.stream.declared import DeclaredMap


@st.composite
def feature_maps(draw: st.DrawFn, features: int) -> FeatureMap:
    """A map of any kind but none, with any settings."""
    return FeatureMap(
        kind=draw(st.sampled_from(["hidden", "fourier"])),
        units=2 * draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 2**63 - 1)),
        sigma=draw(st.floats(2.0**-10, 2.0**20)),
        centers=tuple(draw(strategies.magnitudes(bits=30)) for _ in range(features)),
        scales=tuple(draw(st.floats(2.0**-10, 2.0**31)) for _ in range(features)),
    )


@st.composite
def maps_and_rows(draw: st.DrawFn) -> tuple[FeatureMap, Int64s]:
    """A map, and grid rows for it."""
    rows = draw(strategies.grid_rows(max_rows=20))
    return draw(feature_maps(rows.shape[1])), rows


@given(maps_and_rows(), st.data())
def test_any_order_and_any_cut_into_batches_map_a_row_to_the_same_bits(
    case: tuple[FeatureMap, Int64s], data: st.DataObject
) -> None:
    feature_map, rows = case
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=int)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [
        np.asarray(feature_map.apply(rows[order][start:stop]))
        for start, stop in itertools.pairwise([0, *cuts, len(rows)])
    ]
    assert np.vstack(parts).tobytes() == np.asarray(feature_map.apply(rows))[order].tobytes()


@given(maps_and_rows())
def test_mapped_rows_are_on_their_grid(case: tuple[FeatureMap, Int64s]) -> None:
    feature_map, rows = case
    mapped = feature_map.apply(rows)
    assert mapped.shape == (len(rows), feature_map.units)
    assert (np.abs(mapped) <= 2**20).all()


@given(maps_and_rows(), st.data())
def test_a_retired_row_leaves_mapped_statistics_as_if_it_had_never_come(
    case: tuple[FeatureMap, Int64s], data: st.DataObject
) -> None:
    feature_map, rows = case
    retired = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    everything = Moments.of_rows(feature_map.apply(rows))
    gone, rest = (Moments.of_rows(feature_map.apply(rows[which])) for which in (retired, ~retired))
    assert (everything - gone).to_bytes() == rest.to_bytes()


@given(maps_and_rows())
def test_a_map_read_from_its_table_maps_every_row_alike(case: tuple[FeatureMap, Int64s]) -> None:
    feature_map, rows = case
    again = feature_map_of(DeclaredMap.of(feature_map_table(feature_map)), len(feature_map.centers))
    assert (again, again.identity) == (feature_map, feature_map.identity)
    assert np.array_equal(again.apply(rows), feature_map.apply(rows))


@given(st.lists(strategies.columns(min_rows=5, max_rows=5), min_size=1, max_size=3), st.integers(-40, 40))
def test_whatever_the_rows_what_is_fitted_on_them_is_a_map(columns: list[Floats], power: int) -> None:
    rows = np.column_stack(columns)
    grid = Grid(np.full(len(columns), 2.0**power), np.zeros(len(columns)))
    feature_map = feature_map_of(fit_feature_map(DeclaredMap(kind="hidden", units=2), grid, rows), len(columns))
    quantized, fits = grid.quantize(rows)
    assert feature_map.apply(quantized[fits]).shape == (np.count_nonzero(fits), 2)
