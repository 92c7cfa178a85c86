"""Signed logarithms are the nearest multiples of 2**-32, held against Python's decimal arithmetic at 120 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.maps import logarithm
from deltaplane.maps.logarithm import signed_logarithms

EXTREME = [0.0, -0.0, 5e-324, 2.0**-34, 2.0**-33, 1e-9, 0.41421356237309503, 1.0, 3.0, 2.0**52, 1e22, 1.7e308]


def nearest(value: float) -> float:
    """The multiple of 2**-32 that is nearest to sign(x) log(1 + |x|)."""
    with localcontext() as context:
        context.prec = 1200  # 1 + 5e-324 has as many digits.
        exact = 1 + Decimal(abs(value))
        context.prec = 120
        steps = round(Fraction(exact.ln()) * 2**32) if abs(value) > 1e-15 else 0
    return float(np.copysign(steps, value)) / 2.0**32 + 0.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**7), 10**7).map(float), min_size=1))
def test_signed_logarithms_are_rounded_correctly(values: list[float]) -> None:
    assert signed_logarithms(np.array(values)).tolist() == [nearest(value) for value in values]


def test_extreme_values_and_both_signs_are_rounded_correctly() -> None:
    values = [*EXTREME, *(-value for value in EXTREME)]
    assert signed_logarithms(np.array(values)).tobytes() == np.array([nearest(value) for value in values]).tobytes()


def test_values_that_the_quick_computation_leaves_open_are_settled_by_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    # All values are left open: what the integers say must be what the quick computation said of nearly all.
    values = np.array([*EXTREME, *np.random.default_rng(3).normal(0, 1e4, 200)])
    quick = signed_logarithms(values)
    monkeypatch.setattr(logarithm, "_UNSETTLED", 1.0)
    assert signed_logarithms(values).tobytes() == quick.tobytes()


def test_a_value_between_two_multiples_is_left_open_and_settled() -> None:
    # Found by a search: the logarithm lies within 2**-18 of the middle between two multiples.
    settled: list[float] = []
    exact = logarithm._exact_steps
    values = np.random.default_rng(5).exponential(1e3, 300_000)

    def settle(value: float) -> int:
        settled.append(value)
        return exact(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logarithm, "_exact_steps", settle)
        results = dict(zip(values.tolist(), signed_logarithms(values).tolist(), strict=True))
    assert len(settled) > 2
    assert all(results[value] == nearest(value) for value in settled)
