"""What scikit-learn's checks would return as it is goes past them, and everything else is what it was with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.estimators import ProximalSVM, SlidingProximalSVM, statistics_classifier
from deltaplane.estimators.rows_given import _distinct

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2

GIVEN: dict[str, tuple[Any, Any]] = {
    "float64": (X, Y),
    "float32": (X.astype(np.float32), Y),
    "whole numbers": (np.round(X).astype(int), Y),
    "in Fortran's order": (np.asfortranarray(X), Y),
    "every second row": (X[::2], Y[::2]),
    "a list": (X.tolist(), Y.tolist()),
    "of the other byte order": (X.astype(">f8"), Y),
    "masked": (np.ma.masked_array(X), Y),
    "truths": (X, Y.astype(bool)),
    "bytes": (X, Y.astype(np.uint8)),
    "texts": (X, np.where(Y, "1", "0")),
    "objects": (X, np.where(Y, "1", "0").astype(object)),
    "numbers with a point": (X, Y.astype(float)),
    "a fraction": (X, Y / 2),
    "a label that is none": (X, np.where(Y, 1.0, np.nan)),
    "a column of labels": (X, Y[:, None]),
    "no rows": (X[:0], Y[:0]),
    "one row": (X[0], Y[:1]),
    "too few labels": (X, Y[1:]),
    "too few features": (X[:, :2], Y),
    "too many features": (np.hstack([X, X]), Y),
    "three dimensions": (X[:, None], Y),
    "complex": (X.astype(complex), Y),
    "texts as rows": (X.astype(str), Y),
    "not a number": (np.where(X > 2.0, np.nan, X), Y),
    "infinite": (np.where(X > 2.0, np.inf, X), Y),
    "beyond the grid": (np.where(X > 2.0, 1e300, X), Y),
}


def outcome(maker: Callable[[], Any], names: list[str], rows: Any, labels: Any) -> tuple[object, ...]:
    """What comes of a later call: an exception, or the digest, and the warnings. ``names``: those of the first rows."""
    machine = maker().partial_fit(X, Y)
    if names:
        machine.feature_names_in_ = np.array(names, dtype=object)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            machine.partial_fit(rows, labels)
            end: object = None
        except (ValueError, TypeError) as fault:
            end = (type(fault), str(fault))
    return end, machine.digest(), [str(one.message) for one in told], machine.classes_.tolist()


@pytest.mark.parametrize(
    "maker", [lambda: ProximalSVM(C=1.0), lambda: SlidingProximalSVM(30, C=1.0)], ids=["all", "last"]
)
@pytest.mark.parametrize("names", [[], ["a", "b", "c"]], ids=["without names", "with names"])
@pytest.mark.parametrize("name", GIVEN)
def test_a_later_call_ends_as_it_does_with_all_checks(
    maker: Callable[[], Any], names: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = outcome(maker, names, *GIVEN[name])
    monkeypatch.setattr(statistics_classifier, "needs_no_checks", lambda *_: False)
    assert quick == outcome(maker, names, *GIVEN[name])


@given(
    kind=st.sampled_from(["i1", "u1", "i2", "i8", "u8"]),
    values=st.lists(st.integers(0, 255), max_size=300),
    most=st.integers(0, 255),
    end=st.sampled_from(["least", "middle", "greatest"]),
)
def test_whole_numbers_near_each_other_are_counted_as_unique_finds_them(
    kind: str, values: list[int], most: int, end: str
) -> None:
    limits = np.iinfo(np.dtype(kind))
    base = {"least": limits.min, "middle": 0, "greatest": limits.max - most}[end]
    y = np.array([min(base + value % (most + 1), limits.max) for value in values], dtype=kind)
    distinct, codes = _distinct(y)
    expected, places = np.unique(y, return_inverse=True)
    assert (distinct.tolist(), distinct.dtype, codes.tolist()) == (expected.tolist(), expected.dtype, places.tolist())
