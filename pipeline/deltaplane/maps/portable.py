"""Random numbers, sigmoids, cosines and sines that are the same bits on every machine.

The problem: exp, cos and log differ in the last bit between libraries, processors and versions of NumPy, and random
generators change between versions, too. None of them is used here. Random numbers come from SHAKE-256 and integers.
Functions are polynomials in float32, of additions, products, quotients and rint only, which IEEE 754 rounds the same
everywhere. Each operation is one NumPy call, so that none can be fused or reordered. Powers of two are made from bits.
No intermediate value that matters is subnormal, so processors that flush subnormal numbers to zero agree.

Results are integers in steps of 2**-20, within 0.8 steps of the true function: half a step of rounding, and an error
below 2**-22 before it. (In float64 the latter could be 2**-40, in twice the time, with no gain in accuracy.)
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from deltaplane.arrays import Float32s, Floats, Int32s, UInt64s

__all__ = [
    "DEVIATE_BITS",
    "EXP2",
    "EXPONENT_REACH",
    "RESULT_BITS",
    "SINE",
    "cosines_and_sines",
    "normal_deviates",
    "sigmoids",
    "words",
]

DEVIATE_BITS = 12
"""Normal deviates are multiples of 2**-12."""

RESULT_BITS = 20
"""Values of functions are multiples of 2**-20."""

SINE = tuple(
    float.fromhex(text)
    for text in ("0x1.3912a8p+25", "-0x1.31fbf4p+26", "0x1.466504p+26", "-0x1.4abba2p+25", "0x1.921fb4p+22")
)
"""The minimax polynomial P of ``2**20 sin(2πh) = h·P(h²)`` for |h| <= 1/4; coefficients are rounded one by one."""
EXP2 = tuple(
    float.fromhex(text)
    for text in ("0x1.5bda36p-10", "0x1.3ce8aap-7", "0x1.c6b6d8p-5", "0x1.ebf9c2p-3", "0x1.62e42ap-1", "0x1p+0")
)
"""The polynomial of 2**f for |f| <= 1/2, minimax in the relative error, made in the same way."""

EXPONENT_REACH = 24.0
"""Exponents are clipped to ±this, where the sigmoid is 0 or 2**20 to within a sixteenth of a step."""


# Drawing -------------------------------------------------------------------------------------------------------------


def normal_deviates(text: str, number: int) -> Int32s:
    """int32[number]: independent deviates of the discrete normal distribution with deviation 2**12, by inversion.

    ``text`` is the seed. A word of SHAKE-256 is a sign (its lowest bit) and 63 bits that are compared with exact
    cumulative probabilities, so no logarithm or cosine is needed.
    """
    drawn = words(text, number)
    deviates = np.searchsorted(_cumulative(), drawn >> np.uint64(1), side="right").astype(np.int32)
    deviates *= 1 - 2 * (drawn & np.uint64(1)).astype(np.int32)
    return deviates


def words(text: str, number: int) -> UInt64s:
    """uint64[number]: the 64-bit words of SHAKE-256 of a text."""
    data = hashlib.shake_256(f"deltaplane feature map {text}".encode()).digest(8 * number)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


@functools.lru_cache(maxsize=1)
def _cumulative() -> UInt64s:
    """For k = 0, 1, ...: 2**63 times the probability that the magnitude of a deviate is at most k.

    Probabilities are proportional to g(k) = exp(-k²/2s²), s = 2**12, doubled for k > 0 since they have two signs. They
    are computed in fixed point with 128 fractional bits: g(k+1) = g(k)·r(k) and r(k+1) = r(k)·r(0)².
    """
    bits = 128
    one = 1 << bits
    # r(0) = exp(-2**-25) by its series; later terms are below the last bit.
    term, ratio = one, one
    for power in range(1, 7):
        term = (term >> (2 * DEVIATE_BITS + 1)) // power
        ratio += term if power % 2 == 0 else -term
    square = ratio * ratio >> bits
    density, sums = one, [one]
    for _ in range(10 << DEVIATE_BITS):
        density = density * ratio >> bits
        ratio = ratio * square >> bits
        sums.append(sums[-1] + 2 * density)
    return np.array([(value << 63) // sums[-1] for value in sums], dtype=np.uint64)


# Functions -----------------------------------------------------------------------------------------------------------


def sigmoids(exponents: Float32s, results: Int32s) -> None:
    """Write ``2**20 / (1 + 2**x)`` of exponents x float32[n, m], overwritten, rounded, into int32[n, m]."""
    np.minimum(exponents, EXPONENT_REACH, out=exponents)
    np.maximum(exponents, -EXPONENT_REACH, out=exponents)
    whole = np.rint(exponents)
    exponents -= whole
    powers = _polynomial(exponents, EXP2)
    # The bits of 2**n are its exponent, with a bias of 127, above 23 bits of zeros.
    bits = whole.astype(np.int32)
    bits += 127
    bits <<= 23
    powers *= bits.view(np.float32)
    powers += 1.0
    np.divide(2.0**RESULT_BITS, powers, out=powers)
    np.rint(powers, out=powers)
    np.copyto(results, powers, casting="unsafe")


def cosines_and_sines(turns: Floats, results: Int32s) -> None:
    """Write ``2**20 cos``, then ``2**20 sin`` of turns float64[n, m], overwritten, rounded, into int32[n, 2m]."""
    half = turns.shape[1]
    turns -= np.rint(turns)
    # cos(2πt) = sin(2π(1/4 - |t|)). For the sine, the argument is folded again and takes the sign of t.
    folded = np.abs(turns)
    np.subtract(0.25, folded, out=folded)
    _sines(folded, results[:, :half])
    np.abs(folded, out=folded)
    np.subtract(0.25, folded, out=folded)
    np.copysign(folded, turns, out=folded)
    _sines(folded, results[:, half:])


def _sines(turns: Floats, results: Int32s) -> None:
    """Write ``2**20 sin`` of angles float64[n, m] within ±1/4 turn, rounded, into int32[n, m]."""
    angles = turns.astype(np.float32)
    values = _polynomial(angles * angles, SINE)
    values *= angles
    np.rint(values, out=values)
    np.copyto(results, values, casting="unsafe")


def _polynomial(x: Float32s, coefficients: Sequence[float]) -> Float32s:
    """The values of the polynomial with these coefficients, the highest power first, by Horner's rule."""
    values: Float32s = x * np.float32(coefficients[0])
    values += np.float32(coefficients[1])
    for coefficient in coefficients[2:]:
        values *= x
        values += np.float32(coefficient)
    return values
