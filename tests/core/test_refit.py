"""Refitting a grid: what was refused fits, what is live fits still, and who has not outgrown his grid keeps it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.refit import refit_grid

NAMES = ("a", "b", "c")


def rows_of(seed: int, count: int = 400) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """A measure, a count, and a year."""
    random = np.random.default_rng(seed)
    columns = (random.normal(size=count), random.integers(0, 50, size=count), random.integers(1990, 2025, size=count))
    return np.column_stack(columns).astype(np.float64)


@pytest.mark.parametrize("refused_rows", [1, 3, 300])
def test_a_feature_that_jumped_by_a_million_fits_and_nothing_live_is_lost(refused_rows: int) -> None:
    live = rows_of(1)
    grid = fit_grid(live)
    jumped = rows_of(2, refused_rows)
    jumped[:, 0] = 1e6 * (np.abs(jumped[:, 0]) + 1100.0)
    assert not grid.quantize(jumped)[1].any()
    found = refit_grid(grid, NAMES, live, jumped)
    assert found.grid.quantize(live)[1].all()
    assert found.grid.quantize(jumped)[1].all()
    assert found.still_refused == 0
    assert found.grid.steps[1:].tolist() == grid.steps[1:].tolist()
    assert found.grid.offsets[1:].tolist() == grid.offsets[1:].tolist()
    (one,) = found.outgrown
    assert (one.feature, one.rows) == ("a", refused_rows)
    assert one.old_step == grid.steps[0] < one.new_step == found.grid.steps[0]
    # There is headroom above what came, as on any fitted grid.
    assert 4.0 * jumped[:, 0].max() <= one.new_range[1] <= 8.0 * jumped[:, 0].max()


def test_after_a_jump_by_a_million_the_values_of_before_keep_eight_bits_and_whole_numbers_lose_nothing() -> None:
    live = rows_of(3)
    grid = Grid(np.array([2.0**-24, 2.0**-24, 1.0]), np.zeros(3))
    jumped = rows_of(4, 5)
    jumped[:, :2] = 1e6
    found = refit_grid(grid, NAMES, live, jumped)
    assert [one.feature for one in found.outgrown] == ["a", "b"]
    assert found.grid.steps.tolist() == [2.0**-8, 2.0**-8, 1.0]
    quantized, _ = found.grid.quantize(live)
    assert found.grid.rounding_error(live, quantized)[1:].tolist() == [0.0, 0.0]


def test_a_bogus_number_among_them_and_what_is_no_number_widen_nothing() -> None:
    live = rows_of(5)
    grid = replace(fit_grid(live), range_bits=limits.GRID_RANGE_BITS)
    jumped = rows_of(6, 10)
    jumped[:, 0] = 1e6
    usual = refit_grid(grid, NAMES, live, jumped)
    bogus = np.vstack([jumped, [1e300, 1.0, 2000.0], [np.nan, 1.0, 2000.0], [np.inf, 1.0, 2000.0]])
    found = refit_grid(grid, NAMES, live, bogus)
    assert found.grid == usual.grid
    assert found.still_refused == 3


def test_where_nothing_was_refused_the_grid_stays() -> None:
    live = rows_of(7)
    grid = fit_grid(live)
    for refused in (live[:0], np.array([[np.nan, 1.0, 2000.0]])):
        found = refit_grid(grid, NAMES, live, refused)
        assert found.grid == grid
        assert not found.outgrown
