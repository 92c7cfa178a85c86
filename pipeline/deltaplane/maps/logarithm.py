"""``sign(x) log(1 + |x|)``, rounded correctly: the same bits on every machine and mathematical library.

Results are multiples of 2**-32. A quick computation, of additions, products and quotients of float64 alone, is within
2**-51 of the true value. If that does not decide which multiple is nearest, about once in 30,000 values, integers of as
many bits as needed decide. There are no ties, since the logarithm of a rational number other than 1 is irrational.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from deltaplane.arrays import Floats

__all__ = ["LOGARITHM_BITS", "TERMS", "ln2_in_parts", "signed_logarithms"]


LOGARITHM_BITS = 32
"""Values are multiples of 2**-32, far finer than the step of a fitted grid. Logarithms below 1e-10 are zero."""

_ONE = 2.0**LOGARITHM_BITS
TERMS = 11
"""Terms of the series of atanh: the next one is below 2**-58 of the first, since the argument is within ±0.1716."""
_UNSETTLED = 2.0**-16
"""Within this distance (in multiples) from the middle of two multiples, the quick computation may be wrong. Its error
is at most 2**-19 of a multiple."""


def signed_logarithms(values: Floats) -> Floats:
    """``sign(x) log(1 + |x|)`` of finite float64[n]: the nearest multiples of 2**-32, float64[n]."""
    magnitudes = np.abs(values)
    ones = 1.0 + magnitudes
    # The rounding error of the sum, exactly: the smaller term less the part of it that is in the sum.
    lost = np.where(magnitudes <= 1.0, magnitudes - (ones - 1.0), 1.0 - (ones - magnitudes))
    mantissas, exponents = np.frexp(ones)
    small = mantissas < math.sqrt(0.5)
    mantissas = np.where(small, 2.0 * mantissas, mantissas)
    powers = exponents.astype(np.float64) - small
    high, low = ln2_in_parts()
    ratios = (mantissas - 1.0) / (mantissas + 1.0)
    squares = ratios * ratios
    series = np.full_like(ratios, 1.0 / (2 * TERMS - 1))
    for term in range(TERMS - 2, -1, -1):
        series *= squares
        series += 1.0 / (2 * term + 1)
    rest = (2.0 * ratios * series + (lost / ones + powers * low)) * _ONE
    nearest = np.rint(rest)
    steps = powers * high + nearest
    unsettled = np.flatnonzero(np.abs(np.abs(rest - nearest) - 0.5) < _UNSETTLED)
    for at in unsettled.tolist():
        steps[at] = _exact_steps(float(magnitudes[at]))
    # Adding zero turns -0.0 into 0.0.
    return np.asarray(np.copysign(steps, values) / _ONE + 0.0)


@functools.cache
def ln2_in_parts() -> tuple[float, float]:
    """The logarithm of 2 as an integer number of steps, whose multiples are exact, and the remainder."""
    bits = 128
    value = 2 * _atanh(1, 3, bits)
    high = (value + (1 << (bits - LOGARITHM_BITS - 1))) >> (bits - LOGARITHM_BITS)
    low = Fraction(value - (high << (bits - LOGARITHM_BITS)), 1 << bits)
    return float(high), float(low)


def _exact_steps(magnitude: float) -> int:
    """The integer nearest to 2**32 log(1 + magnitude), computed with integers of as many bits as needed."""
    numerator, denominator = (1 + Fraction(magnitude)).as_integer_ratio()
    power = numerator.bit_length() - denominator.bit_length()
    bits = 128
    while True:
        # The argument is (m - 1) / (m + 1), at most a third, for the mantissa m = (1 + magnitude) / 2**power in 1/2..2.
        scaled = denominator << power
        value = 2 * _atanh(numerator - scaled, numerator + scaled, bits) + power * 2 * _atanh(1, 3, bits)
        # The error of each series is below 2 units per term, with fewer than `bits` terms, and power is at most 1024.
        doubt, half = 2**12 * 4 * bits, 1 << (bits - LOGARITHM_BITS - 1)
        lowest, highest = ((value + change + half) >> (bits - LOGARITHM_BITS) for change in (-doubt, doubt))
        if lowest == highest:
            return lowest
        bits *= 2


def _atanh(numerator: int, denominator: int, bits: int) -> int:
    """``2**bits atanh(numerator / denominator)`` as an integer, for magnitudes up to a third; terms are truncated."""
    ratio = (numerator << bits) // denominator
    square = ratio * ratio >> bits
    total, term, number = 0, ratio, 1
    while term not in (0, -1):
        total += term // number
        term = term * square >> bits
        number += 2
    return total
