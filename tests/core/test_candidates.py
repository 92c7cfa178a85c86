"""The automatic mode: candidates as a plain computation finds them, their trials, their shares, the blended plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from deltaplane.arrays import Floats, Int64s
from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.candidates import FADE_ROWS, Blend, Fitted, blended, fit, gaussian_threshold, weigh
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.solver import Plane, solve
from deltaplane.solve.solver_options import SolverOptions

OPTIONS = tuple(SolverOptions(C=C) for C in (0.001, 0.1, 10.0))
CHOICES = tuple(map(Choice.of, OPTIONS))
GRID = Grid(np.full(3, 2.0**-10), np.array([0.0, 5.0, -1.0]))


def stream(seed: int, rows: int = 400, classes: int = 2) -> tuple[Floats, Int64s]:
    """Rows on the grid and their classes 0, 1, ...; the means differ, the deviations too."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, rows)
    values = random.normal(size=(rows, 3)) * (1 + truth[:, None]) + truth[:, None] * [1.0, -2.0, 0.5] + [0.0, 5.0, 0.0]
    return GRID.values(np.rint((values - GRID.offsets) / GRID.steps)), truth


def grams(rows: Floats, truth: Int64s, names: str = "abc") -> dict[str, Moments]:
    quantized = np.rint((rows - GRID.offsets) / GRID.steps).astype(np.int32)
    return {names[c]: Moments.of_rows(quantized[truth == c]) for c in np.unique(truth)}


def nested_windows(rows: Floats, truth: Int64s, lengths: Sequence[int]) -> list[dict[str, Moments]]:
    return [grams(rows[-length:], truth[-length:]) for length in lengths]


def blend_of(fitted: Fitted, before: Blend | None = None, prequential_counts: PrequentialCounts | None = None) -> Blend:
    return weigh(fitted, CHOICES, before, prequential_counts)


@pytest.mark.parametrize("seed", range(3))
def test_every_candidate_is_the_plane_of_its_window_and_its_c(seed: int) -> None:
    rows, truth = stream(seed)
    windows = nested_windows(rows, truth, (50, 200, 400))
    fitted = fit(windows, 2, GRID, OPTIONS)
    assert list(fitted.weights) == ["b"], "of two classes the last has the plane"
    for w, window in enumerate(windows):
        for c, options in enumerate(OPTIONS):
            plane = solve(window, GRID, options)
            assert fitted.weights["b"][w, c].tobytes() == plane.weights[0].tobytes()
            assert fitted.biases["b"][w, c, 0] == plane.biases[0]


@pytest.mark.parametrize("seed", range(3))
def test_how_many_windows_are_solved_together_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rows, truth = stream(seed)
    windows = nested_windows(rows, truth, (20, 50, 200, 400))
    together = fit(windows, 3, GRID, OPTIONS)
    monkeypatch.setattr("deltaplane.solve.together._ENTRIES_AT_ONCE", 1)
    alone = fit(windows, 3, GRID, OPTIONS)
    assert together.weights["b"].tobytes() == alone.weights["b"].tobytes()
    assert together.biases["b"].tobytes() == alone.biases["b"].tobytes()
    assert together.condition == alone.condition


@pytest.mark.parametrize("seed", range(3))
def test_projections_are_the_means_and_deviations_of_the_decision_values(seed: int) -> None:
    rows, truth = stream(seed)
    fitted = fit(nested_windows(rows, truth, (400,)), 0, GRID, OPTIONS)
    for c in range(len(CHOICES)):
        w, b = fitted.weights["b"][0, c], fitted.biases["b"][0, c]
        own, rest = rows[truth == 1] @ w - b[0], rows[truth == 0] @ w - b[0]
        means, deviations = np.array([[own.mean(), rest.mean()]]), np.array([[own.std(), rest.std()]])
        assert b[1] - b[0] == pytest.approx(gaussian_threshold(means, deviations)[0], abs=1e-9)


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=2, unique=True),
    st.lists(st.floats(0.01, 3), min_size=2, max_size=2),
)
def test_no_threshold_between_the_means_has_a_better_gmean_than_the_best_cut(
    means: list[float], deviations: list[float]
) -> None:
    def quality(threshold: Floats) -> Floats:
        own = norm.logcdf((means[0] - threshold) / deviations[0])
        return np.asarray(own + norm.logcdf((threshold - means[1]) / deviations[1]))

    cut = gaussian_threshold(np.array([means]), np.array([deviations]))
    places = np.linspace(min(means), max(means), 41)
    assert quality(cut)[0] >= quality(places).max() - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_prequential_counts_count_what_each_candidate_makes_of_new_rows(seed: int) -> None:
    rows, truth = stream(seed, classes=3)
    blend = blend_of(fit(nested_windows(rows, truth, (60, 400)), 1, GRID, OPTIONS))
    new, what = stream(seed + 100, rows=70, classes=3)
    labels = ["c", "a", "d", "b"]  # In an order of their own, and one that no candidate knows.
    codes = np.array([1, 3, 0])[what]
    codes[:5] = 2
    prequential_counts = blend.try_out(new, codes, labels)
    assert prequential_counts is not None
    assert list(prequential_counts.rows) == ["a", "b", "c"]
    for target, candidates in blend.of.items():
        own = np.array([labels[code] == target for code in codes])
        for w, c, cut in np.ndindex(2, 3, 2):
            claimed = new @ candidates.weights[w, c] > candidates.biases[w, c, cut]
            assert prequential_counts.hits[target][w, c, cut].tolist() == [
                (claimed & own).sum(),
                (~claimed & ~own).sum(),
            ]
            assert prequential_counts.rows[target][w, c].tolist() == [own.sum(), (~own).sum()]


@given(st.integers(0, 70), st.integers(0, 5))
def test_prequential_counts_of_parts_add_up_to_those_of_the_whole(cut: int, seed: int) -> None:
    rows, truth = stream(seed)
    blend = blend_of(fit(nested_windows(rows, truth, (60, 400)), 1, GRID, OPTIONS))
    new, what = stream(seed + 100, rows=70)
    whole = blend.try_out(new, what, ["a", "b"])
    parts = [blend.try_out(new[part], what[part], ["a", "b"]) for part in (slice(cut), slice(cut, None))]
    there = [part for part in parts if part is not None]
    total = there[0]
    for part in there[1:]:
        total = total + part
    assert total == whole


def test_a_window_without_two_rows_of_a_side_has_no_candidate_and_no_share() -> None:
    rows, truth = stream(1)
    truth[-50:] = 0
    truth[-1] = 1
    blend = blend_of(fit(nested_windows(rows, truth, (50, 400)), 1, GRID, OPTIONS))
    candidates = blend.of["b"]
    assert candidates.exist.tolist() == [[False] * 3, [True] * 3]
    assert np.isnan(candidates.weights[0]).all()
    assert not candidates.shares[0].any()
    assert candidates.shares.sum() == pytest.approx(1.0)
    prequential_counts = blend.try_out(rows, truth, ["a", "b"])
    assert prequential_counts is not None
    assert not prequential_counts.rows["b"][0].any()
    assert not prequential_counts.hits["b"][0].any()


def test_hits_fade_with_the_rows_of_their_own_class() -> None:
    rows, truth = stream(1)
    fitted = fit(nested_windows(rows, truth, (400,)), 0, GRID, OPTIONS)
    first = PrequentialCounts(CHOICES, {"b": np.full((1, 3, 2, 2), 6)}, {"b": np.full((1, 3, 2), 10)})
    second = PrequentialCounts(CHOICES, {"b": np.zeros((1, 3, 2, 2), np.int64)}, {"b": np.tile([300, 0], (1, 3, 1))})
    one = blend_of(fitted, None, first)
    two = blend_of(fitted, one, second).of["b"]
    assert two.hits[0, 0, 0].tolist() == [6 * np.exp(-300 / FADE_ROWS), 6.0]
    assert two.rows[0, 0].tolist() == [10 * np.exp(-300 / FADE_ROWS) + 300, 10.0]
    assert blend_of(fitted, one).of["b"].hits.tobytes() == one.of["b"].hits.tobytes(), "without rows nothing fades"


def test_the_better_of_two_candidates_has_nearly_all_of_the_plane() -> None:
    rows, truth = stream(1)
    fitted = fit(nested_windows(rows, truth, (400,)), 0, GRID, OPTIONS)
    hits = np.full((1, 3, 2, 2), 40)
    hits[0, 1, 0] = 90
    blend = blend_of(fitted, None, PrequentialCounts(CHOICES, {"b": hits}, {"b": np.full((1, 3, 2), 100)}))
    assert blend.of["b"].gmeans[0, 1, 0] == pytest.approx(0.9, abs=1e-4)
    assert blend.of["b"].shares[0, 1, 0] > 0.999
    plane = blended(fitted, blend)
    best = solve(grams(rows, truth), GRID, OPTIONS[1])
    np.testing.assert_allclose(plane.weights, best.weights, rtol=1e-6)
    assert pytest.approx(0.1, rel=1e-6) == plane.C
    assert plane.sigmas == pytest.approx(best.sigmas)
    assert (plane.classes, plane.positive, plane.counts) == (best.classes, best.positive, best.counts)


def test_before_anything_was_tried_all_candidates_have_the_same_share() -> None:
    rows, truth = stream(1)
    fitted = fit(nested_windows(rows, truth, (100, 400)), 1, GRID, OPTIONS)
    blend = blend_of(fitted)
    assert np.unique(blend.of["b"].shares).tolist() == [1 / 12]
    plane = blended(fitted, blend)
    np.testing.assert_allclose(plane.weights[0], fitted.weights["b"].mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(plane.biases[0], fitted.biases["b"].mean(), rtol=1e-12)


def test_several_classes_have_a_plane_each_blended_of_candidates_of_its_own() -> None:
    rows, truth = stream(4, classes=3)
    fitted = fit(nested_windows(rows, truth, (100, 400)), 1, GRID, OPTIONS)
    hits = {label: np.full((2, 3, 2, 2), 10) for label in "abc"}
    for at, label in enumerate("abc"):
        hits[label][1, at, 0] = 95
    rows_tried = {label: np.full((2, 3, 2), 100) for label in "abc"}
    plane = blended(fitted, blend_of(fitted, None, PrequentialCounts(CHOICES, hits, rows_tried)))
    assert plane.classes == ("a", "b", "c")
    assert plane.positive is None
    for at, options in enumerate(OPTIONS):
        expected = solve(grams(rows, truth), GRID, options).weights[at]
        np.testing.assert_allclose(plane.weights[at], expected, rtol=1e-6)


def test_a_short_window_of_two_of_three_classes_gives_these_two_their_candidates() -> None:
    rows, truth = stream(4, classes=3)
    truth[-50:] %= 2
    fitted = fit(nested_windows(rows, truth, (50, 400)), 1, GRID, OPTIONS)
    pair = solve(grams(rows[-50:], truth[-50:]), GRID, OPTIONS[1])
    assert fitted.weights["b"][0, 1].tobytes() == pair.weights[0].tobytes()
    assert fitted.weights["a"][0, 1].tobytes() == (-pair.weights[0]).tobytes()
    assert np.isnan(fitted.weights["c"][0]).all()
    assert np.isfinite(fitted.weights["c"][1]).all()


def test_a_positive_class_has_one_plane_against_all_others() -> None:
    rows, truth = stream(4, classes=3)
    fitted = fit(nested_windows(rows, truth, (100, 400)), 1, GRID, OPTIONS, positive="a")
    plane = blended(fitted, blend_of(fitted))
    assert (plane.classes, plane.positive) == (("a", "not a"), "a")
    assert plane.weights.shape == (1, 3)


def test_windows_that_hold_the_same_rows_have_the_same_candidates() -> None:
    rows, truth = stream(1)
    fitted = fit(nested_windows(rows, truth, (100, 1000, 4000)), 2, GRID, OPTIONS)
    assert fitted.weights["b"][1].tobytes() == fitted.weights["b"][2].tobytes()
    assert fitted.biases["b"][1].tobytes() == fitted.biases["b"][2].tobytes()
    assert fitted.sigmas["a"][1].tobytes() == fitted.sigmas["a"][2].tobytes()


def test_one_class_alone_is_refused() -> None:
    rows, _ = stream(1)
    with pytest.raises(SolveRefused, match="expected live rows of at least two classes"):
        fit([grams(rows, np.zeros(400, np.int64))], 0, GRID, OPTIONS)


def test_too_few_rows_for_any_candidate_are_refused_with_the_counts() -> None:
    rows, truth = stream(1)
    truth[:] = 0
    truth[-1] = 1
    with pytest.raises(SolveRefused, match=r"no window has 2 rows of two classes, got \{'a': 399, 'b': 1\}"):
        fit(nested_windows(rows, truth, (100, 400)), 1, GRID, OPTIONS)


def test_matrices_that_cannot_be_solved_leave_their_candidates_out() -> None:
    rows, truth = stream(1)
    rows[:, 2] = rows[:, 0]
    rows = GRID.values(np.rint((rows - GRID.offsets) / GRID.steps))
    options = (SolverOptions(C=1.0), SolverOptions(C=1e300))
    fitted = fit(nested_windows(rows, truth, (100, 400)), 1, GRID, options)
    assert np.isfinite(fitted.biases["b"][:, 0]).all()
    assert np.isnan(fitted.biases["b"][:, 1]).all()
    assert len(fitted.refusals) == 2
    with pytest.raises(SolveRefused, match=r"no candidate of 2 windows and 1 choices could be solved: .*lower C"):
        fit(nested_windows(rows, truth, (100, 400)), 1, GRID, options[1:])


def test_what_was_known_of_other_choices_is_forgotten() -> None:
    rows, truth = stream(1)
    fitted = fit(nested_windows(rows, truth, (400,)), 0, GRID, OPTIONS)
    tried = PrequentialCounts(CHOICES, {"b": np.full((1, 3, 2, 2), 6)}, {"b": np.full((1, 3, 2), 10)})
    before = replace(
        blend_of(fitted, None, tried), choices=tuple(choice._replace(weighting="none") for choice in CHOICES)
    )
    assert not blend_of(fitted, before).of["b"].rows.any()


def test_a_class_too_rare_for_a_plane_waits_for_its_second_row() -> None:
    rows, truth = stream(4, classes=2)
    truth[-1] = 2
    fitted = fit(nested_windows(rows, truth, (100, 400)), 1, GRID, OPTIONS)
    plane: Plane = blended(fitted, blend_of(fitted))
    assert plane.classes == ("a", "b")
