"""Numbers that are the same on every machine are also the right ones."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from deltaplane.maps import portable

STEPS = 2**20
WITHIN = 0.8
"""Steps: half a one of rounding, and what the polynomials are off."""


def test_a_sigmoid_is_within_a_step_of_the_true_one_everywhere() -> None:
    exponents = np.concatenate([np.linspace(-30, 30, 2_000_001), [-1e30, -24.5, -0.5, 0.5, 24.5, 1e30, 1e-40, -0.0]])
    single = exponents.astype(np.float32)[None, :]
    true = STEPS / (1.0 + np.exp2(np.clip(single, -1000, 1000).astype(np.float64)))
    results = np.empty(single.shape, dtype=np.int32)
    portable.sigmoids(single.copy(), results)
    assert np.abs(results - true).max() < WITHIN
    assert (results.min(), results.max()) == (0, STEPS)


def test_cosines_and_sines_are_within_a_step_of_the_true_ones_everywhere() -> None:
    turns = np.concatenate([np.linspace(-1, 1, 2_000_001), np.arange(-8, 9) / 8, [2.0**-60, -(2.0**-60), 0.0, -0.0]])
    results = np.empty((1, 2 * len(turns)), dtype=np.int32)
    portable.cosines_and_sines(turns[None, :].copy(), results)
    true = STEPS * np.concatenate([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)])
    assert np.abs(results[0] - true).max() < WITHIN
    assert (results.min(), results.max()) == (-STEPS, STEPS)


@pytest.mark.parametrize("whole", [1.0, -3.0, 2.0**20, -(2.0**29)])
def test_whole_turns_change_nothing(whole: float) -> None:
    turns = np.arange(-64, 64) / 256
    plain, turned = np.empty((2, 1, 256), dtype=np.int32)
    portable.cosines_and_sines(turns[None, :].copy(), plain)
    portable.cosines_and_sines(turns[None, :] + whole, turned)
    assert np.array_equal(plain, turned)


def test_deviates_have_exactly_normal_probabilities() -> None:
    cumulative = portable._cumulative()
    scale = 2.0**portable.DEVIATE_BITS
    # The normal law up to half way to the next deviate; the steps are so fine that both agree to eight digits.
    expected = [math.erf((k + 0.5) / (scale * math.sqrt(2))) for k in range(0, len(cumulative), 64)]
    assert np.abs(cumulative[::64] / 2.0**63 - expected).max() < 1e-8
    assert int(cumulative[-1]) == 2**63
    assert (np.diff(cumulative.astype(np.float64)) >= 0).all()


@pytest.mark.parametrize("text", ["a", "b"])
def test_drawn_deviates_are_normal_and_independent(text: str) -> None:
    drawn = portable.normal_deviates(text, 200_000) / 2.0**portable.DEVIATE_BITS
    # Five deviations of each estimate.
    assert abs(drawn.mean()) < 5 / math.sqrt(200_000)
    assert abs((drawn**2).mean() - 1) < 5 * math.sqrt(2 / 200_000)
    assert abs((drawn**3).mean()) < 5 * math.sqrt(15 / 200_000)
    assert abs((drawn**4).mean() - 3) < 5 * math.sqrt(96 / 200_000)
    assert abs((drawn[1:] * drawn[:-1]).mean()) < 5 / math.sqrt(200_000)


def test_a_longer_draw_begins_like_a_shorter_one_and_other_texts_draw_otherwise() -> None:
    assert np.array_equal(portable.normal_deviates("x", 100)[:10], portable.normal_deviates("x", 10))
    assert not np.array_equal(portable.normal_deviates("x", 10), portable.normal_deviates("y", 10))
    assert len(portable.normal_deviates("x", 0)) == 0


def test_words_are_those_of_shake_256_read_as_little_endian() -> None:
    data = hashlib.shake_256(b"deltaplane feature map x").digest(24)
    assert portable.words("x", 3).tolist() == [int.from_bytes(data[at : at + 8], "little") for at in (0, 8, 16)]
