"""Whatever led to the rows held, the statistics and the plane are the same bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane.estimators import ExtremeSVM, ProximalSVM, SlidingProximalSVM
from deltaplane.maps.feature_maps import FeatureMap
from estimators.estimator_rows import GRID, Rows, drawn_rows, state_of

LAYER = FeatureMap("hidden", 8, 3, 1.5, (0, 0, 16), (1024.0, 2.0, 20.0))

SETTINGS: list[dict[str, Any]] = [
    {"C": "auto"},
    {"C": "auto", "weighting": "none", "standardize": False},
    {"C": 0.5},
    {"C": 2.0, "weighting": "balanced", "standardize": False},
    {"C": 2.0, "kind": "lssvm", "bias": "free"},
]


ESTIMATORS = {
    **{str(chosen): ProximalSVM(**chosen, grid=GRID) for chosen in SETTINGS},
    "a layer, C = auto": ExtremeSVM(grid=GRID, feature_map=LAYER),
    "a layer, C = 1": ExtremeSVM(C=1.0, grid=GRID, feature_map=LAYER),
}

every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def fresh(estimator: ProximalSVM) -> Any:
    return type(estimator)(**estimator.get_params(deep=False))


@every_estimator
@given(drawn_rows(), st.data())
@settings(max_examples=25)
def test_any_order_and_any_batches_give_the_bits_of_one_fit(
    estimator: ProximalSVM, rows: Rows, data: st.DataObject
) -> None:
    whole = fresh(estimator).fit(rows.X, rows.y)
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=4)))
    parts = fresh(estimator)
    for start, stop in itertools.pairwise([0, *cuts, len(rows)]):
        part = rows[order[start:stop]]
        parts.partial_fit(part.X, part.y)
    assert state_of(parts) == state_of(whole)
    shuffled = fresh(estimator).fit(rows.X[order], rows.y[order])
    assert state_of(shuffled) == state_of(whole)


@every_estimator
@given(drawn_rows(), st.data())
@settings(max_examples=25)
def test_what_parts_have_learned_is_merged_into_the_bits_of_one_fit(
    estimator: ProximalSVM, rows: Rows, data: st.DataObject
) -> None:
    part_of_row = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))))
    masks = [part_of_row == part for part in data.draw(st.permutations(range(3)))]
    parts = [fresh(estimator).partial_fit(rows.X[mask], rows.y[mask]) for mask in masks if mask.any()]
    merged = parts[0]
    for part in parts[1:]:
        before = part.digest()
        merged.merge(part)
        assert part.digest() == before
    assert state_of(merged) == state_of(fresh(estimator).fit(rows.X, rows.y))


@every_estimator
@given(drawn_rows(), drawn_rows(max_rows=12), st.data())
@settings(max_examples=25)
def test_a_retired_row_leaves_the_bits_it_would_have_left_had_it_never_come(
    estimator: ProximalSVM, kept: Rows, retired: Rows, data: st.DataObject
) -> None:
    both = Rows(np.vstack([kept.X, retired.X]), np.concatenate([kept.y, retired.y]))
    order = data.draw(st.permutations(range(len(both))))
    learned = fresh(estimator).fit(both.X[order], both.y[order])
    cut = data.draw(st.integers(0, len(retired)))
    for part in (retired[:cut], retired[cut:]):
        if len(part):
            learned.retire(part.X, part.y)
    assert state_of(learned) == state_of(fresh(estimator).fit(kept.X, kept.y))


@pytest.mark.parametrize("chosen", SETTINGS, ids=str)
@given(drawn_rows(max_rows=30), st.integers(2, 12), st.data())
@settings(max_examples=25)
def test_a_sliding_machine_is_a_fit_on_the_last_rows(
    chosen: dict[str, Any], rows: Rows, window: int, data: st.DataObject
) -> None:
    sliding = SlidingProximalSVM(window, **chosen, grid=GRID)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=6)))
    for start, stop in itertools.pairwise([0, *cuts, len(rows)]):
        sliding.partial_fit(rows.X[start:stop], rows.y[start:stop])
        last = rows[max(0, stop - window) : stop]
        whole = ProximalSVM(**chosen, grid=GRID).partial_fit(last.X, last.y)
        assert sliding.digest() == whole.digest()
        if len(set(last.y.tolist())) > 1:
            assert state_of(sliding) == state_of(whole)


@given(drawn_rows())
@settings(max_examples=30)
def test_merging_does_not_depend_on_which_side_it_is_done(rows: Rows) -> None:
    half = len(rows) // 2
    first, second = rows[:half], rows[half:]
    left = ProximalSVM(grid=GRID).partial_fit(first.X, first.y)
    right = ProximalSVM(grid=GRID).partial_fit(second.X, second.y)
    expected = ProximalSVM(grid=GRID).partial_fit(second.X, second.y).merge(left)
    assert state_of(left.merge(right)) == state_of(expected)
