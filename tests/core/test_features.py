"""Feature maps: that they are the functions they say they are, what they refuse, and how they are fitted and named."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.moments import Moments
from deltaplane.maps import feature_maps, portable, standards
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.maps.standards import default_sigma
from deltaplane.stream.component_tables import (
    feature_map_of,
    feature_map_table,
    fit_feature_map,
)
from deltaplane.stream.declared import DeclaredMap

KINDS: tuple[feature_maps.Kind, ...] = ("hidden", "fourier")
END = limits.GRID_RANGE - 1


def some_map(
    kind: feature_maps.Kind, features: int, units: int = 16, *, seed: int = 1, sigma: float = 0.0
) -> FeatureMap:
    """A map of rows as :func:`some_rows` makes them."""
    centers = tuple(range(features))
    scales = tuple(2.0**18 / (1 + j % 7) for j in range(features))
    return FeatureMap(kind, units, seed, sigma or default_sigma(features, kind), centers, scales)


def some_rows(features: int, rows: int, seed: int = 0) -> Int32s:
    """Ordinary grid rows int32[n, d]."""
    return np.random.default_rng(seed).integers(-(2**20), 2**20, size=(rows, features)).astype(np.int32)


def formula(feature_map: FeatureMap, quantized: Int32s) -> Floats:
    """The map as its formula says, by the library's functions: float64[n, units], in steps of 2**-20."""
    z = np.rint((quantized - np.array(feature_map.centers, dtype=np.float64)) * 2**20 / np.array(feature_map.scales))
    # Integer products are exact, and stay below 2**53.
    product = np.clip(z, -(2**30), 2**30).astype(np.int64) @ feature_map._directions.astype(np.int64)
    angles = product * (math.sqrt(2) / feature_map.sigma / 2**32)
    if feature_map.kind == "fourier":
        return 2**20 * np.hstack([np.cos(angles), np.sin(angles)])
    biases = feature_map._biases / -math.log2(math.e)
    with np.errstate(over="ignore"):
        return np.asarray(2**20 / (1 + np.exp(-(angles + biases))))


# As a function -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [1, 6, 54, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_map_is_its_formula_to_within_a_step(kind: feature_maps.Kind, features: int) -> None:
    feature_map = some_map(kind, features)
    rows = some_rows(features, 300)
    rows[:50] = np.random.default_rng(1).integers(-END, END + 1, size=(50, features))
    mapped = feature_map.apply(rows)
    assert mapped.dtype == np.int32
    assert np.abs(mapped - formula(feature_map, rows)).max() < 0.8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [2.0**-10, 0.1, 3.0, 2.0**20])
def test_any_width_that_is_allowed_gives_the_formula(kind: feature_maps.Kind, sigma: float) -> None:
    feature_map = some_map(kind, 3, sigma=sigma)
    rows = some_rows(3, 200)
    assert np.abs(feature_map.apply(rows) - formula(feature_map, rows)).max() < 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_rows_at_the_ends_of_the_grid_are_mapped_and_stay_in_range(kind: feature_maps.Kind) -> None:
    corners = np.array(list(itertools.product([-END, 0, END], repeat=3)), dtype=np.int32)
    for scale in (standards.SCALE_SMALLEST, 1.0, standards.SCALE_LARGEST):
        for center in (-END, END):
            mapped = FeatureMap(kind, 64, 3, 1.0, (center,) * 3, (scale,) * 3).apply(corners)
            assert mapped.max() <= 2**20
            assert mapped.min() >= (0 if kind == "hidden" else -(2**20))


@pytest.mark.parametrize("kind", KINDS)
def test_projections_of_the_most_features_at_the_end_of_their_range_are_exact(kind: feature_maps.Kind) -> None:
    feature_map = FeatureMap(kind, 40, 9, 1.0, (0,) * limits.FEATURES, (0.5,) * limits.FEATURES)
    directions = feature_map._directions
    rows = np.where(directions.T >= 0, END, -END).astype(np.int32)
    z = feature_map._standardised(rows)
    assert np.abs(z).min() == 2**30
    exact = z.astype(np.int64).astype(object) @ directions.astype(np.int64).astype(object)
    assert max(map(abs, exact.ravel())) < limits.EXACT_PRODUCT
    assert np.array_equal((z @ directions).astype(object), exact)


def test_a_value_further_out_than_1024_scales_counts_as_one_there() -> None:
    feature_map = FeatureMap("fourier", 8, 1, 1.0, (100, 0), (3.0, 2.0**18))
    edge, beyond, inside = feature_map.apply(
        np.array([[100 + 3072, 7], [10_000_000, 7], [100 + 3071, 7]], dtype=np.int32)
    )
    assert np.array_equal(edge, beyond)
    assert not np.array_equal(edge, inside)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_layout_alignment_and_type_of_the_rows_do_not_matter(kind: feature_maps.Kind) -> None:
    feature_map = some_map(kind, 7, 130)
    rows = some_rows(7, 1300)
    mapped = feature_map.apply(rows)
    assert np.array_equal(mapped, np.vstack([feature_map.apply(rows[at : at + 1]) for at in range(len(rows))]))
    for cut in (1, 255, 511, 513):
        assert np.array_equal(mapped[cut:], feature_map.apply(rows[cut:]))
        assert np.array_equal(mapped[:cut], feature_map.apply(rows[:cut]))
    odd = np.zeros(rows.nbytes + 3, dtype=np.uint8)[3:].view(np.int8)
    misaligned = np.ndarray(rows.shape, dtype=np.int32, buffer=odd)
    misaligned[:] = rows
    wide = np.zeros((len(rows), 21), dtype=np.int32)
    wide[:, ::3] = rows
    for other in (np.asfortranarray(rows), misaligned, wide[:, ::3], rows.astype(np.float64), rows.astype(np.int64)):
        assert np.array_equal(mapped, feature_map.apply(other))
    assert np.array_equal(mapped[::-2], feature_map.apply(rows[::-2]))
    assert feature_map.apply(rows[:0]).shape == (0, 130)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_themselves_are_left_as_they_were(kind: feature_maps.Kind) -> None:
    rows = some_rows(4, 50).astype(np.float64)
    before = rows.copy()
    some_map(kind, 4).apply(rows)
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("sigma", [0.7, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_products_of_fourier_features_are_the_gaussian_kernel(seed: int, sigma: float) -> None:
    units, features = 2000, 5
    feature_map = FeatureMap("fourier", units, seed, sigma, (0,) * features, (2.0**18,) * features)
    rows = (np.random.default_rng(seed).normal(size=(40, features)) * 2.0**17).astype(np.int32)
    mapped = feature_map.apply(rows) * 2.0**-20
    estimated = mapped @ mapped.T * (2 / units)
    points = rows / 2.0**18
    kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=-1) / sigma**2)
    # The mean of 1000 cosines: each estimate has a deviation of at most 0.7 / sqrt(1000).
    assert np.abs(estimated - kernel).max() < 4.5 * 0.7 / math.sqrt(units / 2)
    assert np.abs(np.diag(estimated) - 1).max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_plane_of_mapped_rows_separates_a_disc_from_a_ring(kind: feature_maps.Kind) -> None:
    random = np.random.default_rng(5)
    angle, radius = random.uniform(0, 2 * np.pi, 600), np.repeat([0.5, 1.5], 300) + random.normal(0, 0.1, 600)
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    side = np.repeat([-1.0, 1.0], 300)
    grid = fit_grid(points)
    table = fit_feature_map(DeclaredMap.of({"kind": kind, "units": 60, "seed": 2}), grid, points)
    quantized, _ = grid.quantize(points)
    mapped = feature_map_of(table, 2).apply(quantized) * 2.0**-20

    def share_right(values: npt.NDArray[Any]) -> float:
        extended = np.column_stack([values, -np.ones(len(values))])
        gram = extended[::2].T @ extended[::2] + 1e-3 * np.eye(extended.shape[1])
        plane = np.linalg.solve(gram, extended[::2].T @ side[::2])
        return float(np.mean(np.sign(extended[1::2] @ plane) == side[1::2]))

    assert share_right(points) < 0.7
    assert share_right(mapped) > 0.98


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapped_row_that_leaves_takes_away_exactly_what_it_brought(kind: feature_maps.Kind) -> None:
    feature_map = some_map(kind, 5, 12)
    rows = some_rows(5, 400)
    leaving = rows[100:137]
    rest = np.delete(rows, slice(100, 137), axis=0)
    remaining = Moments.of_rows(feature_map.apply(rows))
    for row in leaving:
        remaining = remaining - Moments.of_rows(feature_map.apply(row[None, :]))
    assert remaining.to_bytes() == Moments.of_rows(feature_map.apply(rest)).to_bytes()


# None ----------------------------------------------------------------------------------------------------------------


def test_no_map_hands_back_the_rows_the_grid_and_the_names() -> None:
    rows, grid = some_rows(2, 5), Grid(np.array([0.5, 2.0]), np.array([1.0, 0.0]))
    assert NO_MAP.apply(rows) is rows
    assert NO_MAP.grid(grid) is grid
    assert NO_MAP.names(["a", "b"]) == ("a", "b")
    assert NO_MAP.identity == "none"
    assert feature_map_of(DeclaredMap(), 2) == feature_map_of(DeclaredMap.of(feature_map_table(NO_MAP)), 2) == NO_MAP


# Drawing and identity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_a_say_in_the_identity_and_in_what_is_mapped(kind: feature_maps.Kind) -> None:
    plain = FeatureMap(kind, 8, 1, 2.0, (0, 1), (2.0**18, 2.0**18))
    others = [
        replace(plain, kind=KINDS[1 - KINDS.index(kind)]),
        replace(plain, units=10),
        replace(plain, seed=2),
        replace(plain, sigma=math.nextafter(2.0, 3.0)),
        replace(plain, centers=(0, 2)),
        replace(plain, scales=(2.0**18, math.nextafter(2.0**18, 0.0))),
    ]
    identities = {plain.identity, *(other.identity for other in others)}
    assert len(identities) == 1 + len(others)
    rows = some_rows(2, 4)
    for other in (others[0], *others[2:3], others[4]):
        assert not np.array_equal(other.apply(rows), plain.apply(rows))
    again = FeatureMap(kind, 8, 1, 2.0, (0, 1), (2.0**18, 2.0**18))
    assert (again, again.identity) == (plain, plain.identity)


@pytest.mark.parametrize(("kind", "function"), [("hidden", "sigmoids"), ("fourier", "cosines_and_sines")])
def test_a_machine_that_computes_otherwise_has_another_identity(
    monkeypatch: pytest.MonkeyPatch, kind: feature_maps.Kind, function: str
) -> None:
    here = some_map(kind, 2).identity
    right = getattr(portable, function)

    def off_by_one(values: Any, results: Int32s) -> None:
        right(values, results)
        results[results == 2**20] -= 1

    monkeypatch.setattr(feature_maps, function, off_by_one)
    assert some_map(kind, 2).identity != here


def test_an_identity_is_a_hash_of_canonical_bytes() -> None:
    settings = json.loads(some_map("hidden", 2).to_bytes())
    assert settings["sigma"] == default_sigma(2, "fourier").hex()
    assert settings.keys() == {"kind", "units", "seed", "sigma", "centers", "scales", "drawn", "probe"}


def test_the_weights_of_different_seeds_have_nothing_to_do_with_each_other() -> None:
    one, other = (some_map("hidden", 100, 100, seed=seed)._directions.ravel() for seed in (0, 1))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05


# Names, grid, tables -------------------------------------------------------------------------------------------------


def test_mapped_features_have_names_and_a_grid() -> None:
    hidden, fourier = some_map("hidden", 2, 3), some_map("fourier", 2, 4)
    assert hidden.names(["a", "b"]) == ("hidden_0", "hidden_1", "hidden_2")
    assert fourier.names(["a", "b"]) == ("cosine_0", "cosine_1", "sine_0", "sine_1")
    grid = hidden.grid(Grid(np.ones(2), np.zeros(2)))
    assert grid == Grid(np.full(3, 2.0**-20), np.zeros(3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_written_down_is_read_as_the_same_map(kind: feature_maps.Kind) -> None:
    feature_map = FeatureMap(kind, 12, 2**62 + 1, 1 / 3, (5, -END), (0.7, 1e9 / 7))
    table = feature_map_table(feature_map)
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    read = feature_map_of(DeclaredMap.of(tomllib.loads(text)), 2)
    assert (read, read.identity) == (feature_map, feature_map.identity)


def test_whole_numbers_may_stand_for_sigma_and_scales() -> None:
    table = {"kind": "hidden", "units": 3, "seed": 0, "sigma": 2, "centers": [0, 0], "scales": [1, 2]}
    read = feature_map_of(DeclaredMap.of(table), 2)
    assert read == FeatureMap("hidden", 3, 0, 2.0, (0, 0), (1.0, 2.0))
    assert read.identity == FeatureMap("hidden", 3, 0, 2.0, (0, 0), (1.0, 2.0)).identity


def test_sigma_and_seed_have_defaults() -> None:
    table = {"kind": "fourier", "units": 2, "centers": [0] * 9, "scales": [1.0] * 9}
    assert feature_map_of(DeclaredMap.of(table), 9) == FeatureMap("fourier", 2, 0, 3.0, (0,) * 9, (1.0,) * 9)


GOOD: dict[str, Any] = {"kind": "fourier", "units": 4, "seed": 1, "sigma": 1.0, "centers": [0, 0], "scales": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "cubic"}, "kind must be 'none', 'hidden', 'fourier' or 'mixed', got 'cubic'"),
        ({"kind": "none"}, "kind 'none' takes no other keys"),
        ({"unit": 4}, "unknown key 'feature_map.unit'; did you mean 'units'"),
        ({"units": 0}, "expected 1 to 2000, got 0"),
        ({"units": 2002}, "expected 1 to 2000, got 2002"),
        ({"units": 5}, "expected an even number"),
        ({"units": 4.0}, r"feature_map.units: expected a whole number, got 4\.0"),
        ({"seed": -1}, "expected a whole number from 0"),
        ({"seed": 2**63}, "expected a whole number from 0"),
        ({"seed": True}, "feature_map.seed: expected a whole number, got True"),
        ({"sigma": 0.0}, "feature_map.sigma: expected a number from"),
        ({"sigma": math.nan}, "feature_map.sigma: expected a number from"),
        ({"sigma": "wide"}, "feature_map.sigma: expected a number, got 'wide'"),
        ({"centers": None}, r"expected centers = \[...\] .* got none"),
        ({"scales": None}, r"expected scales = \[...\] .* got none"),
        ({"centers": 3}, "feature_map.centers: expected a list, got 3"),
        ({"centers": [0]}, "feature_map.centers: expected 2, one a feature, got 1"),
        ({"scales": [1.0] * 3}, "feature_map.scales: expected 2, one a feature, got 3"),
        ({"centers": [0, 0.5]}, r"feature_map.centers: expected a whole number, got 0\.5"),
        ({"centers": [0, 2**30]}, "got 1073741824 for feature 1"),
        ({"scales": [0.0, 1.0]}, r"got 0\.0 for feature 0"),
        ({"scales": [1.0, math.inf]}, "got inf for feature 1"),
        ({"scales": [1.0, "1"]}, "feature_map.scales: expected a number, got '1'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    table = {key: value for key, value in (GOOD | change).items() if value is not None}
    with pytest.raises(DefinitionError, match=complaint):
        feature_map_of(DeclaredMap.of(table), 2)


def test_centers_and_scales_must_be_as_many_as_each_other() -> None:
    with pytest.raises(DefinitionError, match="got 1 centers and 2 scales"):
        FeatureMap("hidden", 2, 0, 1.0, (0,), (1.0, 1.0))


# Fitting -------------------------------------------------------------------------------------------------------------


def fitted(*columns: npt.ArrayLike) -> tuple[list[int], list[float]]:
    """Centers and scales fitted to these columns, on a grid fitted to them as well."""
    rows = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    table = fit_feature_map(DeclaredMap.of({"kind": "hidden", "units": 2}), fit_grid(rows), rows)
    return list(table.centers or ()), list(table.scales or ())


@pytest.mark.parametrize("seed", range(3))
def test_centers_and_scales_are_means_and_deviations_in_grid_steps(seed: int) -> None:
    rows = np.random.default_rng(seed).normal([3.0, -200.0], [1.0, 50.0], size=(4000, 2))
    grid = fit_grid(rows)
    quantized, _ = grid.quantize(rows)
    centers, scales = fitted(*rows.T)
    assert np.abs(centers - quantized.mean(axis=0)).max() <= 0.5 + 1e-6
    assert np.allclose(scales, quantized.std(axis=0), rtol=1e-6)


def test_the_fit_does_not_depend_on_the_order_of_the_rows() -> None:
    random = np.random.default_rng(4)
    columns = random.lognormal(3.0, 2.0, size=(3, 1000)) * np.array([[1.0], [1e9], [1e-9]])
    assert fitted(*columns) == fitted(*columns[:, random.permutation(1000)])


def test_the_squares_of_the_largest_grid_values_are_summed_exactly() -> None:
    table = {"kind": "hidden", "units": 2}
    rows = np.array([[END], [-END]] * 50_000, dtype=np.float64)
    fitted_table = fit_feature_map(DeclaredMap.of(table), Grid(np.ones(1), np.zeros(1)), rows)
    assert (fitted_table.centers, fitted_table.scales) == ((0,), (float(END),))


def test_a_rare_flag_counts_like_a_common_one() -> None:
    rare, common = np.zeros(1000), np.zeros(1000)
    rare[7], common[::2] = 1.0, 1.0
    assert fitted(rare, common) == ([0, 1], [0.5, math.isqrt(2**15) / 2**8])


def test_a_feature_that_never_varied_has_the_scale_of_its_size_or_of_its_unit() -> None:
    assert fitted(np.zeros(5), np.full(5, 3.0), np.full(5, -0.5)) == (
        [0, 3 * 2**14, -(2**16)],
        [2.0**16, 3.0 * 2**14, 2.0**16],
    )


def test_fill_values_set_neither_a_center_nor_a_scale() -> None:
    random = np.random.default_rng(3)
    clean = random.normal(5.0, 10.0, size=(4000, 3))
    filled = np.where(random.random(clean.shape) < 0.2, [-999.0, 1e10, 1e20], clean)
    grid = fit_grid(clean)
    for (center, scale), (expected, deviation) in zip(
        standards.fit_standards(grid, filled), standards.fit_standards(grid, clean), strict=True
    ):
        assert abs(center - expected) < 0.1 * deviation
        assert 0.9 < scale / deviation < 1.1


def test_values_that_are_missing_or_off_the_grid_are_left_out_of_the_fit() -> None:
    good, odd = [1.0, 2.0, 3.0, 6.0], [1.0, np.nan, 2.0, 3.0, np.inf, 6.0, 1e300]
    grid = Grid(np.ones(1), np.zeros(1))
    tables = [fit_feature_map(DeclaredMap(kind="hidden"), grid, np.array(values)[:, None]) for values in (good, odd)]
    assert tables[0] == tables[1]
    nothing = fit_feature_map(DeclaredMap(kind="hidden"), grid, np.full((3, 1), np.nan))
    assert (nothing.centers, nothing.scales) == ((0,), (1.0,))


def test_only_what_a_table_lacks_is_fitted() -> None:
    rows, grid = np.array([[1.0], [2.0]]), Grid(np.ones(1), np.zeros(1))
    assert fit_feature_map(DeclaredMap.of({"kind": "hidden", "units": 3}), grid, rows).table == {
        "kind": "hidden", "units": 3, "centers": [2], "scales": [math.isqrt(2**15) / 2**8], "sigma": 1.0
    }  # fmt: skip
    assert fit_feature_map(DeclaredMap.of({"kind": "hidden", "centers": [9], "sigma": 4.0}), grid, rows).centers == (9,)
    complete = {"kind": "hidden", "units": 3, "centers": [9], "scales": [7.0]}
    assert fit_feature_map(DeclaredMap.of(complete), grid, rows).table == complete
    assert fit_feature_map(DeclaredMap.of({}), grid, rows).table == {}
    assert fit_feature_map(DeclaredMap.of({"kind": "none"}), grid, rows).table == {"kind": "none"}
