"""The fixed-point grid: what it is fitted to, what it refuses, and that it rounds as its formula says."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import strategies
from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.ordinary import likely_fill_values, ordinary, spread_of

NAMES = ("price", "demand")
LARGEST = limits.GRID_RANGE - 1
FLOAT_MAXIMUM = float(np.finfo(np.float64).max)


def column(*values: float) -> Floats:
    """The rows float64[n, 1] of one feature."""
    return np.array(values, dtype=np.float64)[:, None]


def fitted(*values: float) -> tuple[float, float]:
    """Step and offset fitted to one feature."""
    grid = fit_grid(column(*values))
    return float(grid.steps[0]), float(grid.offsets[0])


def many(*values: float) -> Floats:
    """The rows float64[n, 1] of one feature that has each of these values ten times: enough to tell what it is."""
    return np.repeat(column(*values), limits.ROWS_THAT_TELL, axis=0)


# Fitting -------------------------------------------------------------------------------------------------------------


@given(strategies.columns())
@example(np.array([5e-324, -5e-324]))
@example(np.array([4e307, -4e307]))
@example(np.array([4e307, 3.9e307]))
@example(np.array([1e20, 1e20 + 2**14]))
def test_a_fitted_grid_takes_every_ordinary_value_it_was_fitted_on_and_is_made_of_powers_of_two(
    values: Floats,
) -> None:
    assume(np.abs(values).max() <= 4e307)
    grid = fit_grid(values[:, None])
    step, offset = Fraction(float(grid.steps[0])), Fraction(float(grid.offsets[0]))
    assert {step.numerator & (step.numerator - 1), step.denominator & (step.denominator - 1)} == {0}
    assert (offset / step).denominator == 1
    quantized, fits = grid.quantize(values[:, None])
    if not ordinary(values).all():
        return  # What happens to others is said below.
    assert fits.all()
    reach = max(abs(Fraction(value) - offset) for value in values.tolist())
    # The error is at most half a step of 20 bits below the largest distance, if the distance is not absurdly small.
    assume(reach >= Fraction(limits.STEP_SMALLEST) * 2**limits.GRID_BITS)
    error = max(Fraction(float(e)) for e in grid.rounding_error(values[:, None], quantized))
    assert error <= reach / 2 ** (limits.GRID_BITS if len(set(values.tolist())) > 1 else limits.SINGLE_VALUE_BITS)


@given(st.integers(1, 40), st.integers(20, 300), st.sampled_from([1.0, -1.0]), st.integers(0, 2**32 - 1))
def test_a_bogus_value_among_the_fitted_ones_costs_the_others_nothing_and_is_refused_if_it_is_beyond(
    power: int, rows: int, sign: float, seed: int
) -> None:
    ordinary = np.random.default_rng(seed).normal(5.0, 1.0, size=rows)
    bogus = sign * 2.0 ** (13 + power) * 10.0
    grid = fit_grid(column(*ordinary.tolist(), bogus))
    assert grid == fit_grid(column(*ordinary.tolist()))
    reached = abs(bogus - float(grid.offsets[0])) / float(grid.steps[0]) < limits.WIDE_RANGE - 0.5
    assert grid.quantize(column(bogus))[1].all() == reached


def test_a_rare_flag_and_a_rare_large_count_are_ordinary() -> None:
    flag = np.zeros(5000)
    flag[17] = 1.0
    assert fitted(*flag.tolist()) == (1.0, 0.0)
    counts = np.zeros(5000)
    counts[::50] = 3.0 ** np.arange(100) % 1_000_003
    grid = fit_grid(column(*counts.tolist()))
    assert grid.quantize(column(*counts.tolist()))[1].all()


@given(st.lists(st.integers(-(2**28), 2**28), min_size=1), st.sampled_from([0, 1999, 1_700_000_000, -(2**40)]))
def test_whole_numbers_of_moderate_size_lose_nothing(numbers: list[int], base: int) -> None:
    values = column(*(float(base + number) for number in numbers))
    reach = max(numbers) - min(numbers)
    # A column that never varies may be anything, which is told below.
    assume(len(set(numbers)) > 1)
    assume(max(abs(base + number) for number in numbers) <= 2**28 or 0 < 8.5 * reach < abs(base + max(numbers)) / 2)
    grid = fit_grid(np.repeat(values, limits.ROWS_THAT_TELL, axis=0))
    assume(ordinary(values[:, 0]).all())
    quantized, fits = grid.quantize(values)
    assert grid.steps[0] == 1.0
    assert fits.all()
    assert np.array_equal(grid.values(quantized), values)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ((0.0, 1.0, 1.0), 1.0),
        ((-1.0, 1.0), 1.0),
        ((3.0, 7.0, 200.0), 1.0),
        ((2.0, 4.0, 8.0), 1.0),
        ((0.5, 0.25), 0.25),
        ((0.125, 100.0), 0.125),
        ((0.1, 0.2), 2.0**-22),
        ((1.0, 0.1), 2.0**-20),
        ((1.1, -0.3), 2.0**-19),
        ((2.0**28, 2.0**27, -1.0), 1.0),
        ((2.0**28 + 2, 2.0**27, 1.0), 2.0**9),
        ((1e300, -1e300), 2.0 ** (997 - 20)),
        ((4e307, 3e307), 2.0**992),
        ((1e-300, 0.0), limits.STEP_SMALLEST),
        ((5e-324, 0.0), limits.STEP_SMALLEST),
    ],
)
def test_a_step_is_as_coarse_as_loses_nothing_or_twenty_bits_below_the_largest(
    values: tuple[float, ...], step: float
) -> None:
    assert fitted(*many(*values)[:, 0]) == (step, 0.0)


@pytest.mark.parametrize(
    ("values", "step", "offset"),
    [
        ((1999.0, 2003.0, 2021.0), 1.0, 2016.0),
        ((1_700_000_000.0, 1_700_003_600.0), 1.0, 1_700_001_792.0),
        ((-1_000_000.0, -999_990.0), 1.0, -999_992.0),
        ((1013.25, 1013.5, 1014.75), 0.25, 1014.0),
        ((100.1, 100.3), 2.0**-22, 100.25),
    ],
)
def test_values_far_from_zero_for_their_spread_are_measured_from_their_middle(
    values: tuple[float, ...], step: float, offset: float
) -> None:
    assert fitted(*many(*values)[:, 0]) == (step, offset)


@pytest.mark.parametrize("rows", [1, 2, 5000])
def test_a_constant_column_is_ready_to_wake_up(rows: int) -> None:
    assert fitted(*[7.0] * rows) == (2.0**-13, 0.0)
    assert fitted(*[0.3] * rows) == (2.0**-17, 0.0)
    assert fitted(*[0.75] * rows) == (2.0**-16, 0.0)
    assert fitted(*[1_700_000_000.0] * rows) == (1.0, 1_700_000_000.0)


@pytest.mark.parametrize("values", [(1.0,), (3.0, 7.0), (0.5, 0.25, 1.0), (2.0, 4.0, 8.0, 200.0)])
def test_a_few_whole_numbers_do_not_make_others_whole(values: tuple[float, ...]) -> None:
    """The first batch may be one row, and its values whole by chance."""
    assert fitted(*values)[0] <= 2.0**-12


# Fill values ---------------------------------------------------------------------------------------------------------

FILLS = [-999.0, -9999.0, 1e10, 9.96921e36, 1e20, -9e8, float(np.finfo(np.float32).max)]
LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, rows: random.normal(5.0, 2.0, rows),
    "small": lambda random, rows: random.normal(0.0, 1e-6, rows),
    "lognormal": lambda random, rows: random.lognormal(0.0, 1.0, rows),
    "flags": lambda random, rows: (random.random(rows) < 0.1).astype(float),
    "mostly zero": lambda random, rows: np.where(random.random(rows) < 0.8, 0.0, random.normal(size=rows)),
    "counts": lambda random, rows: random.poisson(3.0, rows).astype(float),
    "times": lambda random, rows: 1.7e9 + 1000.0 * random.random(rows),
    "zero": lambda _, rows: np.zeros(rows),
    "one": lambda _, rows: np.ones(rows),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.4])
def test_fill_values_do_not_set_the_scale(law: str, fill: float, share: float) -> None:
    random = np.random.default_rng(7)
    clean = LAWS[law](random, 5000)
    filled = np.where(random.permutation(5000) < share * 5000, fill, clean)
    step, finest = fitted(*filled)[0], fitted(*clean)[0]
    typical = spread_of(clean) or max(abs(float(clean[0])), 1.0)
    # What is typical is at most a few times what it was, as long as less than half is filled in.
    assert step <= max(finest, 4.0 * typical * limits.FINEST_SHARE_OF_A_SPREAD), (step, finest, typical)
    names = {mark.value for mark in likely_fill_values(("x",), filled[:, None])}
    assert names == {fill} or (law, fill) in {("times", -999.0), ("times", -9999.0)}, names


@pytest.mark.parametrize("law", LAWS)
def test_without_fill_values_none_is_named_and_all_are_ordinary(law: str) -> None:
    clean = LAWS[law](np.random.default_rng(8), 5000)
    assert likely_fill_values(("x",), clean[:, None]) == []
    assert ordinary(clean).all()


def test_a_feature_of_a_few_large_numbers_has_no_marks() -> None:
    amounts = np.where(np.arange(5000) % 10 < 9, 1.0, np.resize([99.0, 999.0, 1e9, 2e9, 3e9, 4e9], 5000))
    assert likely_fill_values(("x",), amounts[:, None]) == []


@pytest.mark.parametrize("values", [(0.0,), (0.0, -0.0, 0.0), (), (np.nan, np.inf), (np.nan, 0.0)])
def test_a_column_of_nothing_but_zeros_gets_a_scale_of_its_own(values: tuple[float, ...]) -> None:
    assert fitted(*values) == (2.0**-16, 0.0)


def test_a_value_at_the_end_of_the_floats_is_refused_and_not_turned_into_infinity() -> None:
    rows = column(FLOAT_MAXIMUM, FLOAT_MAXIMUM / 2, 1.0)
    grid = fit_grid(rows)
    quantized, fits = grid.quantize(rows)
    assert fits.tolist() == [False, False, True]
    assert "outside the grid's range" in grid.fault(rows[0], ("x",))
    edge = grid.values(np.array([[float(LARGEST)]]))
    assert np.isfinite(edge).all()
    assert grid.quantize(edge)[1].all()
    assert quantized[2] == 0.0


def test_values_that_are_not_finite_do_not_disturb_the_fit() -> None:
    rows = np.array([[1.5, np.nan], [np.nan, 2.0], [np.inf, -np.inf], [0.5, 1.0]] * limits.ROWS_THAT_TELL)
    assert fit_grid(rows) == Grid(np.array([0.5, 1.0]), np.zeros(2), limits.WIDE_RANGE_BITS)


def test_the_fit_does_not_depend_on_the_type_or_layout_of_the_rows() -> None:
    rows = np.array([[1.5, 2000.0], [0.25, 2004.0], [8.0, 2009.0]])
    assert fit_grid(np.asfortranarray(rows)) == fit_grid(rows.astype(np.float32)) == fit_grid(rows[::-1])


@pytest.mark.parametrize("shape", [(3,), (3, 0), (2, 2, 2)])
def test_there_is_nothing_to_fit_without_rows_of_features(shape: tuple[int, ...]) -> None:
    with pytest.raises(DefinitionError, match="expected rows of at least one feature"):
        fit_grid(np.zeros(shape))


# Placing -------------------------------------------------------------------------------------------------------------


@given(strategies.grids(), st.data())
def test_a_value_is_placed_as_the_formula_says_bit_for_bit(grid: Grid, data: st.DataObject) -> None:
    anything = strategies.ANY_FLOAT | strategies.magnitudes(bits=48).map(lambda number: number / 8)
    rows = data.draw(hnp.arrays(np.float64, (3, grid.features), elements=anything))
    quantized, fits = grid.quantize(rows)
    with np.errstate(all="ignore"):
        expected = np.rint((rows - grid.offsets) / grid.steps)
    inside = np.isfinite(expected) & (np.abs(expected) < grid.range)
    assert np.array_equal(fits, inside.all(axis=1))
    assert np.array_equal(quantized[fits], expected[fits])
    narrow = not (np.abs(expected[fits]) >= limits.GRID_RANGE).any()
    assert quantized.dtype == (np.int32 if narrow else np.int64)
    assert not np.signbit(quantized[fits][quantized[fits] == 0.0]).any()


@given(strategies.grids(features=1), strategies.grid_values())
def test_grid_values_come_back_to_their_own_place(grid: Grid, q: int) -> None:
    rows = grid.values(np.array([[float(q)]]))
    assert grid.quantize(rows)[0].tolist() == [[q]]
    assert grid.values(np.array([[q]], dtype=np.int32)).tolist() == rows.tolist()


@given(strategies.grids(features=1, range_bits=limits.GRID_RANGE_BITS), strategies.grid_values(), st.floats(-0.5, 0.5))
def test_no_value_moves_by_more_than_half_a_step(grid: Grid, q: int, part: float) -> None:
    step = float(grid.steps[0])
    rows = grid.values(np.array([[float(q)]])) + part * step
    quantized, fits = grid.quantize(rows)
    assume(fits[0])
    moved = abs(Fraction(float(grid.values(quantized)[0, 0])) - Fraction(float(rows[0, 0])))
    # x - offset is rounded once before it is divided: by at most 2**-23 of a step within the range.
    assert moved <= Fraction(step) * (Fraction(1, 2) + Fraction(1, 2**23))
    assert Fraction(float(grid.rounding_error(rows, quantized)[0])) <= Fraction(step) * Fraction(2**23 + 1, 2**24)


@pytest.mark.parametrize("bits", [limits.GRID_RANGE_BITS, limits.WIDE_RANGE_BITS])
@pytest.mark.parametrize("step", [1.0, 0.25, 2.0**30, limits.STEP_SMALLEST, limits.STEP_LARGEST_WIDE])
@pytest.mark.parametrize("offset_steps", [0, 5, -(2**20)])
def test_the_range_ends_just_below_the_power_of_two_it_is_of(step: float, offset_steps: int, bits: int) -> None:
    grid = Grid(np.array([step]), np.array([step * offset_steps]), bits)
    last = 2**bits - 1
    edges = [last, -last, last + 0.25, last + 0.75, 2**bits, -(2**bits), -last - 0.75]
    rows = np.array([[(edge + offset_steps) * step] for edge in edges])
    quantized, fits = grid.quantize(rows)
    assert fits.tolist() == [True, True, True, False, False, False, False]
    assert quantized[:3, 0].tolist() == [last, -last, last]
    # A block is judged as a whole where all of it fits, so each edge is tried alone as well.
    assert [bool(grid.quantize(row[None, :])[1][0]) for row in rows] == fits.tolist()


def test_minus_zero_is_placed_as_zero() -> None:
    grid = Grid(np.array([1.0, 0.5]), np.array([0.0, 2.0]))
    quantized, _ = grid.quantize(np.array([[-0.0, 2.0], [-0.25, 1.9]]))
    assert quantized.tolist() == [[0, 0], [0, 0]]


def test_rows_are_judged_one_by_one() -> None:
    grid = Grid(np.array([1.0, 1.0]), np.zeros(2))
    rows = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 4.0], [0.0, np.inf], [-1e10, 0.0], [5.0, 6.0]])
    quantized, fits = grid.quantize(rows)
    assert fits.tolist() == [True, False, True, False, False, True]
    assert quantized[fits].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_no_rows_are_placed_as_no_rows() -> None:
    grid = Grid(np.ones(2), np.zeros(2))
    quantized, fits = grid.quantize(np.zeros((0, 2)))
    assert quantized.shape == (0, 2)
    assert fits.shape == (0,)
    assert grid.rounding_error(np.zeros((0, 2)), quantized).tolist() == [0.0, 0.0]


def test_what_is_placed_does_not_change_the_rows_given() -> None:
    rows = np.array([[1.25, -0.0]])
    rows.flags.writeable = False
    Grid(np.ones(2), np.zeros(2)).quantize(rows)
    assert rows.tolist() == [[1.25, -0.0]]


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3)])
def test_rows_of_other_features_are_not_spread_over_the_grid(shape: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match=r"rows \[n, d\]|different numbers of features"):
        Grid(np.ones(2), np.zeros(2)).quantize(np.zeros(shape))


def test_the_rounding_error_is_the_largest_of_each_feature() -> None:
    grid = Grid(np.array([1.0, 0.5]), np.zeros(2))
    rows = np.array([[1.25, 0.5], [2.0, 0.625], [-3.125, -0.25]])
    assert grid.rounding_error(rows, grid.quantize(rows)[0]).tolist() == [0.25, 0.25]


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1.0, np.nan], "feature 'demand' is not a number"),
        ([-np.inf, np.nan], "feature 'price' is infinite"),
        ([1.0, 2.0**30], r"feature 'demand' is 1073741824.0, outside the grid's range \(-1.07\S+, 1.07\S+\); widen"),
        ([-FLOAT_MAXIMUM, 0.0], "feature 'price' is -1.79"),
        ([2.0**30 - 0.5, 0.0], "feature 'price'"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_the_name_of_its_first_faulty_feature(
    row: list[float], words: str
) -> None:
    grid = Grid(np.ones(2), np.zeros(2))
    rows = np.array([row])
    assert not grid.quantize(rows)[1][0]
    fault = grid.fault(rows[0], NAMES)
    assert re.match(words, fault), fault


@given(strategies.grids(), st.data())
def test_every_row_that_does_not_fit_has_a_fault(grid: Grid, data: st.DataObject) -> None:
    rows = data.draw(hnp.arrays(np.float64, (1, grid.features), elements=strategies.ANY_FLOAT))
    assume(not grid.quantize(rows)[1][0])
    assert "feature 'x" in grid.fault(rows[0], tuple(f"x{j}" for j in range(grid.features)))


def test_a_row_that_fits_has_no_fault() -> None:
    with pytest.raises(AssertionError, match="a row that fits"):
        Grid(np.ones(2), np.zeros(2)).fault(np.zeros(2), NAMES)


@pytest.mark.parametrize("step", [0.0, -1.0, 3.0, 0.1, np.nan, np.inf, 2.0**1000, 2.0**-501, 5e-324])
def test_a_step_that_is_no_power_of_two_within_bounds_is_refused(step: float) -> None:
    with pytest.raises(DefinitionError, match="step of feature 1 must be a power of two"):
        Grid(np.array([1.0, step]), np.zeros(2))


@pytest.mark.parametrize(
    ("step", "offset"),
    [(1.0, 0.5), (4.0, 2.0), (1.0, np.nan), (1.0, np.inf), (2.0**900, 5e-324), (2.0**9, 2.0**1022)],
)
def test_an_offset_that_is_no_multiple_of_its_step_is_refused(step: float, offset: float) -> None:
    with pytest.raises(DefinitionError, match="offset of feature 0 must be a multiple of its step"):
        Grid(np.array([step]), np.array([offset]))


@pytest.mark.parametrize(("steps", "offsets"), [(2, 3), (1, 2)])
def test_as_many_steps_as_offsets_are_needed(steps: int, offsets: int) -> None:
    with pytest.raises(DefinitionError, match="expected as many steps as offsets"):
        Grid(np.ones(steps), np.zeros(offsets))
    with pytest.raises(DefinitionError, match="expected as many steps as offsets"):
        Grid(np.ones((steps, 1)), np.zeros((steps, 1)))


# The value -----------------------------------------------------------------------------------------------------------


def test_grids_that_place_alike_are_equal_in_every_way() -> None:
    a = Grid(np.array([1.0, 2.0]), np.array([0.0, -0.0]))
    b = Grid(np.array([1, 2]), np.array([-0.0, 0.0]))
    assert a == b
    assert hash(a) == hash(b)
    assert a.offsets.tobytes() == b.offsets.tobytes()
    assert a != Grid(np.array([1.0, 4.0]), np.zeros(2))
    assert a != Grid(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    assert a != "a grid"


def test_a_grid_does_not_change_with_the_arrays_it_was_made_of() -> None:
    steps, offsets = np.ones(2), np.zeros(2)
    grid = Grid(steps, offsets)
    steps[0], offsets[0] = 2.0, 2.0
    assert grid == Grid(np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        grid.steps[0] = 2.0


@pytest.mark.parametrize("rows", [0, 1, limits.BLOCK_ROWS - 1, limits.BLOCK_ROWS, 2 * limits.BLOCK_ROWS + 3])
@pytest.mark.parametrize("odd", [None, np.nan, 1e300])
def test_many_rows_are_placed_as_each_alone(rows: int, odd: float | None) -> None:
    random = np.random.default_rng(rows)
    values = random.normal(scale=100.0, size=(rows, 2))
    grid = Grid(np.array([2.0**-10, 0.25]), np.array([1.0, 0.0]))
    if odd is not None and rows:
        values[rows // 2, 1] = odd
    quantized, fits = grid.quantize(values)
    alone = [grid.quantize(values[row : row + 1]) for row in range(rows)]
    assert fits.tolist() == [bool(fit[0]) for _, fit in alone]
    assert all(np.array_equal(quantized[row], one[0]) for row, (one, fit) in enumerate(alone) if fit[0])
    kept, kept_placed = values[fits], quantized[fits]
    largest = [grid.rounding_error(kept[row : row + 1], kept_placed[row : row + 1]) for row in range(len(kept))]
    assert np.array_equal(grid.rounding_error(kept, kept_placed), np.max([np.zeros(2), *largest], axis=0))
