"""Gram matrices of 128-bit integers: against Python's own integers, at every edge of the representation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.arrays import Floats, Int64s
from deltaplane.errors import LimitExceeded
from deltaplane.exact.moments import Moments

LARGEST = limits.GRID_RANGE - 1
WIDEST = limits.WIDE_RANGE - 1
WORD = 2**64
EDGES = [
    0,
    1,
    -1,
    *(sign * (2**power + near) for power in (31, 53, 62, 63, 64, 65, 125) for near in (-1, 0, 1) for sign in (1, -1)),
]


def of_integers(*entries: int) -> Moments:
    """A Moments with these entries of its packed triangle."""
    dimension = int((2 * len(entries)) ** 0.5)
    return Moments.from_bytes(dimension, b"".join(entry.to_bytes(16, "little", signed=True) for entry in entries))


def product(rows: Int64s) -> list[list[int]]:
    """The Gram matrix of rows [q, -1] in Python's integers."""
    extended = [[*row, -1] for row in rows.tolist()]
    size = range(rows.shape[1] + 1)
    return [[sum(row[i] * row[j] for row in extended) for j in size] for i in size]


def entries(moments: Moments) -> list[list[int]]:
    return [[moments.entry(i, j) for j in range(moments.dimension)] for i in range(moments.dimension)]


def of_block(rows: Int64s) -> Moments:
    """The statistics of rows by BLAS, however few they are."""
    return Moments._of_block(rows)


def shifts_taken(monkeypatch: pytest.MonkeyPatch, rows: Int64s) -> set[int]:
    """The shifts of the products that a block of rows adds: none on the plain path, {0, 15, 30} on the split one."""
    seen: set[int] = set()
    original = Moments._of_shifted

    def spy(part: Floats, shift: int) -> Moments:
        seen.add(shift)
        return original(part, shift)

    with monkeypatch.context() as patch:
        patch.setattr(Moments, "_of_shifted", spy)
        assert entries(of_block(rows)) == product(rows)
    assert Moments.of_rows(rows) == of_block(rows)
    return seen


PLAIN, SPLIT = set[int](), {0, limits.SPLIT_BITS, 2 * limits.SPLIT_BITS}
WIDE = {shift * limits.SPLIT_BITS for shift in range(5)}


@given(strategies.grid_rows())
def test_every_entry_is_the_product_of_integers(rows: Int64s) -> None:
    moments = Moments.of_rows(rows)
    assert entries(moments) == product(rows)
    assert moments.count == len(rows)


@pytest.mark.parametrize(
    ("large", "ones", "largest", "path"),
    [
        (1, 7, 2**20, PLAIN),
        (1, 7, LARGEST, SPLIT),
        (1, 7, 2**26 - 1, PLAIN),
        (1, 7, 2**26, SPLIT),
        (1024, 0, 2**21 - 1, PLAIN),
        (1024, 0, 2**21, SPLIT),
        (256, 256, 2**22 - 1, PLAIN),
        (256, 256, 2**22, SPLIT),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_block_is_split_as_soon_as_its_sums_of_squares_reach_half_of_what_is_exact(
    monkeypatch: pytest.MonkeyPatch, large: int, ones: int, largest: int, path: set[int], sign: int
) -> None:
    block = np.ones((large + ones, 2), dtype=np.int64)
    block[ones:] = sign * largest
    block[ones::2, 1] *= -1
    assert (large * largest**2 + ones < limits.EXACT_PRODUCT // 2) == (path == PLAIN)
    assert shifts_taken(monkeypatch, block) == path


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("largest", [limits.GRID_RANGE, limits.GRID_RANGE + 1, 2**44 + 12345, WIDEST])
def test_rows_beyond_the_narrow_range_have_one_limb_more(
    monkeypatch: pytest.MonkeyPatch, largest: int, sign: int
) -> None:
    block = np.full((20, 2), sign * largest, dtype=np.int64)
    block[::2, 1] *= -1
    assert shifts_taken(monkeypatch, block) == WIDE


def test_of_a_block_wide_rows_alone_take_the_longer_way(monkeypatch: pytest.MonkeyPatch) -> None:
    block = np.arange(4096, dtype=np.int64).reshape(2048, 2)
    block[[3, 77], 1] = -WIDEST
    lengths: list[int] = []
    original = Moments._of_limbs

    def spy(*limbs: Floats) -> Moments:
        lengths.append(len(limbs[0]))
        return original(*limbs)

    with monkeypatch.context() as patch:
        patch.setattr(Moments, "_of_limbs", spy)
        moments = of_block(block)
    assert lengths == [2]
    assert entries(moments) == product(block)


def test_a_block_of_the_widest_values_is_exact() -> None:
    block = np.full((limits.BLOCK_ROWS, 2), WIDEST, dtype=np.int64)
    block[:, 1] *= -1
    moments = Moments.of_rows(block)
    assert moments.entry(0, 0) == limits.BLOCK_ROWS * WIDEST**2 == -moments.entry(0, 1)
    assert moments.entry(0, 2) == -limits.BLOCK_ROWS * WIDEST


def test_sums_of_squares_that_128_bits_may_not_hold_are_refused_and_never_wrap() -> None:
    rows = Moments.of_rows(np.full((8, 1), WIDEST))
    while 2 * rows.count < limits.WIDE_ROWS:
        rows = rows + rows
    assert rows.entry(0, 0) == rows.count * WIDEST**2
    almost = rows + rows - Moments.of_rows(np.full((1, 1), WIDEST))
    assert almost.count == limits.WIDE_ROWS - 1
    with pytest.raises(LimitExceeded, match=f"squares of a feature in {almost.count} and {rows.count} rows"):
        almost + rows


@given(strategies.grid_rows(max_rows=4, min_rows=1))
def test_the_split_path_gives_what_the_plain_path_gives(rows: Int64s) -> None:
    rows = np.repeat(np.sign(rows) * (np.abs(rows) % 2**20), 8, axis=0)  # Too many to be multiplied as int64.
    huge = np.full((1, rows.shape[1]), LARGEST, dtype=np.int64)
    together = Moments.of_rows(np.concatenate([rows, huge]))
    assert together - Moments.of_rows(huge) == Moments.of_rows(rows)


@pytest.mark.parametrize("rows", range(1, limits.INT64_ROWS + 2))
def test_few_rows_multiplied_as_int64_give_what_blocks_give(rows: int) -> None:
    block = np.random.default_rng(rows).integers(1 - limits.GRID_RANGE, limits.GRID_RANGE, size=(rows, 3))
    block[0] = LARGEST
    assert Moments.of_rows(block) == of_block(block)
    assert entries(Moments.of_rows(block)) == product(block)


@pytest.mark.parametrize("rows", [1023, 1024, 1025, 2047, 2048, 2049])
@pytest.mark.parametrize("bits", [8, 21, 30])
def test_the_length_of_a_block_leaves_no_trace(rows: int, bits: int) -> None:
    random = np.random.default_rng(rows * bits)
    block = random.integers(-(2**bits) + 1, 2**bits, size=(rows, 2))
    assert entries(Moments.of_rows(block)) == product(block)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_full_block_of_the_largest_values_is_exact(sign: int) -> None:
    block = np.full((limits.BLOCK_ROWS, 2), sign * LARGEST, dtype=np.int64)
    moments = Moments.of_rows(block)
    assert moments.entry(0, 1) == limits.BLOCK_ROWS * LARGEST**2 > 2**63
    assert moments.entry(0, 2) == -sign * limits.BLOCK_ROWS * LARGEST


@given(strategies.grid_rows())
def test_the_type_of_the_rows_makes_no_difference(rows: Int64s) -> None:
    moments = Moments.of_rows(rows)
    if (np.abs(rows) < limits.GRID_RANGE).all():
        assert Moments.of_rows(rows.astype(np.int32)) == moments
    assert Moments.of_rows(rows.astype(np.float64)) == moments


@given(strategies.grid_rows(max_features=5))
def test_the_layout_of_the_rows_makes_no_difference(rows: Int64s) -> None:
    moments = Moments.of_rows(rows)
    wide = np.zeros((2 * len(rows), 3 * rows.shape[1]), dtype=np.int64)
    wide[::2, 1::3] = rows
    assert Moments.of_rows(wide[::2, 1::3]) == moments
    assert Moments.of_rows(np.asfortranarray(rows)) == moments
    assert Moments.of_rows(rows[::-1]) == moments


@pytest.mark.parametrize("value", [limits.WIDE_RANGE, -limits.WIDE_RANGE, float("nan"), float("inf")])
def test_a_row_outside_the_range_never_reaches_the_sums(value: float) -> None:
    with pytest.raises(AssertionError, match="outside the grid's range"):
        Moments.of_rows(np.array([[0.0, 1.0], [value, 0.0]]))


def test_rows_of_other_features_are_not_spread_over_the_sums() -> None:
    with pytest.raises(AssertionError, match="different features"):
        Moments.zero(2) + Moments.zero(3)
    with pytest.raises(AssertionError, match="different features"):
        Moments.zero(2) - Moments.zero(3)


@pytest.mark.parametrize("a", EDGES)
def test_carries_and_borrows_cross_the_words(a: int) -> None:
    for b in EDGES:
        x, y = of_integers(a, 7, -b), of_integers(b, -7, a)
        assert [(x + y).entry(0, 0), (x + y).entry(0, 1), (x + y).entry(1, 1)] == [a + b, 0, a - b]
        assert [(x - y).entry(0, 0), (x - y).entry(0, 1), (x - y).entry(1, 1)] == [a - b, 14, -b - a]
        assert (-x).entry(0, 0) == -a


@given(strategies.magnitudes(126), strategies.magnitudes(126))
def test_sums_and_differences_are_those_of_integers(a: int, b: int) -> None:
    x, y = of_integers(a), of_integers(b)
    assert (x + y).count == a + b
    assert (x - y).count == a - b


def test_adding_many_times_carries_like_integers() -> None:
    rows = np.array([[LARGEST, -LARGEST]])
    moments, one = Moments.zero(3), Moments.of_rows(rows)
    for _ in range(7):
        moments = moments + one
        one = one + one
    assert entries(moments) == [[127 * entry for entry in row] for row in product(rows)]


@given(st.lists(strategies.magnitudes(127), min_size=6, max_size=6))
@example([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**64 - 1])
@example([2**53 + 1, 2**54 + 2, 2**54 + 6, -(2**53) - 1, 2**63 + 2**10, 2**63 + 2**10 + 1])
@example([2**64 + 2**11, 2**64 + 2**11 + 1, 2**64 + 3 * 2**11, 2**65 + 2**12, 2**65 + 2**12 - 1, 2**64 - 2**10])
@example([2**127 - 1, -(2**127), -(2**127) + 1, 2**126 + 2**73, 2**126 + 2**73 + 1, -(2**126) - 2**73])
def test_each_entry_is_rounded_once_to_nearest_even(values: list[int]) -> None:
    full = of_integers(*values).to_float()
    packed = full[np.triu_indices(3)].tolist()
    # Python rounds an integer of any length once, to nearest even.
    assert packed == [float(value) for value in values]
    assert np.array_equal(full, full.T)


@given(st.lists(strategies.magnitudes(127), min_size=3, max_size=3))
@example([2**63 - 1, -(2**63), 0])
@example([2**63, 0, 0])
@example([0, -(2**63) - 1, 0])
def test_bytes_bring_back_the_same_integers(values: list[int]) -> None:
    moments = of_integers(*values)
    again = Moments.from_bytes(2, moments.to_bytes())
    assert again == moments
    assert [again.entry(0, 0), again.entry(0, 1), again.entry(1, 0), again.entry(1, 1)] == [
        values[0],
        values[1],
        values[1],
        values[2],
    ]
    narrow = moments.to_int64_bytes()
    assert (narrow is not None) == all(-(2**63) <= value < 2**63 for value in values)
    if narrow is not None:
        assert len(narrow) == 24
        assert Moments.from_bytes(2, narrow) == moments


def test_the_bytes_are_little_endian_whatever_the_machine() -> None:
    moments = of_integers(1, -2, WORD + 3)
    assert moments.to_bytes() == b"\1" + bytes(15) + b"\xfe" + b"\xff" * 15 + b"\3" + bytes(7) + b"\1" + bytes(7)
    assert of_integers(1, -2, 3).to_int64_bytes() == b"\1" + bytes(7) + b"\xfe" + b"\xff" * 7 + b"\3" + bytes(7)


@pytest.mark.parametrize("size", [0, 1, 23, 25, 47, 49, 96])
def test_bytes_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"expected 48 or 24 bytes for dimension 2, got {size}"):
        Moments.from_bytes(2, bytes(size))


@given(st.lists(strategies.magnitudes(64), min_size=3, max_size=3), st.data())
@example([2**62, 0, 0], None)
@example([2**62 - 1, -(2**62) + 1, 0], None)
@example([0, 0, -(2**62)], None)
def test_how_a_value_is_held_depends_on_its_integers_alone(values: list[int], data: st.DataObject | None) -> None:
    moments, expected = of_integers(*values), values
    for _ in range(0 if data is None else data.draw(st.integers(0, 6))):
        assert data is not None
        more = data.draw(st.lists(strategies.magnitudes(63), min_size=3, max_size=3))
        if data.draw(st.booleans()):
            moments, expected = moments + of_integers(*more), [a + b for a, b in zip(expected, more, strict=True)]
        else:
            moments, expected = moments - of_integers(*more), [a - b for a, b in zip(expected, more, strict=True)]
    assert moments == of_integers(*expected)
    assert moments.fits_int64 == all(abs(value) < 2**62 for value in expected)
    assert [moments.entry(0, 0), moments.entry(0, 1), moments.entry(1, 1)] == expected
    assert (moments.high.tolist(), moments.low.tolist()) == (
        [value >> 64 for value in expected],
        [value % WORD for value in expected],
    )


def test_sums_that_grow_to_the_end_of_a_word_and_back_are_narrow_wide_and_narrow_again() -> None:
    half = of_integers(2**61, -(2**61), 1)
    wide = half + half
    assert [half.fits_int64, wide.fits_int64, (wide - half).fits_int64, (half - wide).fits_int64] == [
        True,
        False,
        True,
        True,
    ]
    assert wide - half == half
    # What is known of the magnitudes grows with each of many sums, though they do not.
    moments = half
    for _ in range(9):
        moments = moments + half - half
        assert moments.fits_int64
    assert moments == half


def test_no_rows_are_nothing() -> None:
    nothing = Moments.of_rows(np.zeros((0, 3)))
    assert nothing == Moments.zero(4)
    assert not nothing
    assert nothing.count == 0
    assert Moments.of_rows(np.zeros((1, 3)))
    assert not nothing.to_float().any()


def test_equality_is_that_of_all_integers_and_of_nothing_else() -> None:
    assert of_integers(1, 2, 3) != of_integers(1, 2, 3 + WORD)
    assert of_integers(1, 2, 3) != of_integers(1, 2, 4)
    assert Moments.zero(1) != Moments.zero(2)
    assert of_integers(1) != 1
    assert repr(of_integers(4, -3, 2)) == "Moments(dimension=2, count=2)"
