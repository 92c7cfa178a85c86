"""Exact class statistics: Gram matrices whose entries are 128-bit integers.

The problem: a proximal SVM needs, per class, only ``M_c = E_cᵀ E_c`` with ``E = [X, -1]`` (paper 1, eq. 36-39: the six
terms l, M, v of a change message are its corner, its body and its last column). Kept in float64, such sums depend on
the order of addition, and subtracting a row does not undo its addition: one outlier of 1e10 poisons a rolling sum for
ever. Kept as integers they form a group, and these laws hold *bitwise*:

    (a + b) + c == a + (b + c)        partial sums may be formed anywhere        → many workers
    a + b == b + a                    in any order                                → any interleaving
    (a + b) - b == a                  and be taken back without a trace           → windows, unlearning
    of(rows) == of(part) + of(rest)   however the rows are cut into batches       → any batch size

Speed comes from BLAS all the same: rows are integer-valued float64, and a float product is *exact* while every
feature's sum of squares stays below 2**53, because then every partial sum of every entry is a representable integer
(Cauchy and Schwarz), whatever the kernel does; and the sums of squares are in the product itself. Blocks too large in
magnitude are split ``q = high * 2**15 + low`` and recombined from three exact products.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.grid import Placed

Floats = npt.NDArray[np.float64]
High = npt.NDArray[np.int64]
Low = npt.NDArray[np.uint64]

_WIRE_ENTRY = np.dtype([("low", "<u8"), ("high", "<i8")])


@functools.lru_cache(maxsize=64)
def _triangle(dimension: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """For D: flat positions of the packed upper triangle in a D x D array, and of each array entry in the triangle."""
    rows, columns = np.triu_indices(dimension)
    packed = np.ravel_multi_index((rows, columns), (dimension, dimension)).astype(np.intp)
    unpack = np.zeros((dimension, dimension), dtype=np.intp)
    unpack[rows, columns] = unpack[columns, rows] = np.arange(len(rows))
    packed.flags.writeable = unpack.flags.writeable = False
    return packed, unpack


@functools.lru_cache(maxsize=64)
def _ends(dimension: int) -> npt.NDArray[np.intp]:
    """Positions in the packed triangle of the last column, which are sums, then of the diagonal, sums of squares."""
    unpack = _triangle(dimension)[1]
    return np.concatenate([unpack[:, -1], unpack.diagonal()])


class Moments:
    """The Gram matrix ``E_cᵀE_c`` of some rows ``e = [q, -1]`` of one class, in grid units; a value, never changed.

    Held as the packed upper triangle of D(D+1)/2 two's-complement 128-bit integers: ``high`` int64 and ``low`` uint64,
    entry = high * 2**64 + low. The representation is canonical: equal sums have equal bytes.
    """

    __slots__ = ("dimension", "high", "low")

    def __init__(self, dimension: int, high: High, low: Low) -> None:
        self.dimension = dimension
        self.high = high
        self.low = low

    @classmethod
    def zero(cls, dimension: int) -> Moments:
        """The statistics of no rows, for D = ``dimension`` = features + 1."""
        entries = dimension * (dimension + 1) // 2
        return cls(dimension, np.zeros(entries, dtype=np.int64), np.zeros(entries, dtype=np.uint64))

    @classmethod
    def of_rows(cls, placed: Placed) -> Moments:
        """The statistics of grid rows [n, d] (integer valued, |q| < 2**30): one BLAS product a block."""
        if len(placed) <= limits.INT64_ROWS:
            return cls._of_few_rows(placed)
        if len(placed) <= limits.BLOCK_ROWS:
            product = _product_of_block(placed.astype(np.float64, copy=False))
            if product is not None:
                value = _packed(product)
                return cls(placed.shape[1] + 1, value >> 63, value.view(np.uint64))
        total = MomentsSum(placed.shape[1] + 1)
        total.add_rows(placed)
        return total.moments()

    @classmethod
    def _of_few_rows(cls, placed: Placed) -> Moments:
        """The same for rows so few that their integer products fit int64: a third of the time of a block."""
        dimension = placed.shape[1] + 1
        assert (np.abs(placed) < limits.GRID_RANGE).all(), "a row outside the grid's range reached the statistics"
        extended = np.empty((len(placed), dimension), dtype=np.int64)
        extended[:, :-1] = placed
        extended[:, -1] = -1
        value = (extended.T @ extended).ravel()[_triangle(dimension)[0]]
        return cls(dimension, value >> 63, value.view(np.uint64))

    @property
    def count(self) -> int:
        """Number of rows: the corner of the matrix (the papers' l)."""
        return (int(self.high[-1]) << 64) + int(self.low[-1])

    def entry(self, i: int, j: int) -> int:
        """One entry as an exact Python integer."""
        at = _triangle(self.dimension)[1][i, j]
        return (int(self.high[at]) << 64) + int(self.low[at])

    def within_grid(self) -> bool:
        """Whether sums and sums of squares are what ``count`` rows |q| < 2**30 may have; a float's width beside it."""
        at = _ends(self.dimension)
        values = self.high[at] * 2.0**64 + self.low[at]
        sums, squares = values[: self.dimension], values[self.dimension :]
        reach = self.count * float(limits.GRID_RANGE)
        return bool(
            sums.max() <= reach
            and sums.min() >= -reach
            and squares.min() >= 0.0
            and squares.max() <= reach * limits.GRID_RANGE
        )

    def __add__(self, other: Moments) -> Moments:
        assert self.dimension == other.dimension, "statistics of different features were added"
        low = self.low + other.low
        return Moments(self.dimension, self.high + other.high + (low < self.low), low)

    def __sub__(self, other: Moments) -> Moments:
        assert self.dimension == other.dimension, "statistics of different features were subtracted"
        borrow = self.low < other.low
        return Moments(self.dimension, self.high - other.high - borrow, self.low - other.low)

    def __neg__(self) -> Moments:
        return Moments.zero(self.dimension) - self

    def __eq__(self, other: object) -> bool:
        """Bitwise equality of the integers."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.dimension != other.dimension or self.low[-1] != other.low[-1]:
            return False  # Other numbers of rows, as the windows of a ladder have: no need to look further.
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """False exactly for the statistics of no rows (or of rows that cancelled)."""
        return bool(self.low.any() or self.high.any())

    def __repr__(self) -> str:
        return f"Moments(dimension={self.dimension}, count={self.count})"

    def to_float(self) -> Floats:
        """float64[D, D]: every integer rounded once, to nearest even, so equal statistics give equal bytes."""
        signed = self.low.view(np.int64)
        packed: Floats = signed.astype(np.float64)
        wide = self.high != signed >> 63
        if wide.any():
            packed[wide] = _round_wide(self.high[wide], self.low[wide])
        full: Floats = packed[_triangle(self.dimension)[1]]
        return full

    def to_bytes(self) -> bytes:
        """Canonical bytes: the packed triangle, row by row, 16 bytes an entry, little-endian two's complement."""
        entries = np.empty(len(self.low), dtype=_WIRE_ENTRY)
        entries["low"], entries["high"] = self.low, self.high
        return entries.tobytes()

    def to_narrow_bytes(self) -> bytes | None:
        """The same with 8 bytes an entry, or None where an entry does not fit int64."""
        signed = self.low.view(np.int64)
        if not np.array_equal(self.high, signed >> 63):
            return None
        return signed.astype("<i8", copy=False).tobytes()

    @classmethod
    def from_bytes(cls, dimension: int, data: bytes) -> Moments:
        """The inverse of :meth:`to_bytes` and of :meth:`to_narrow_bytes`. Raises ValueError on any other length."""
        entries = dimension * (dimension + 1) // 2
        if len(data) == 16 * entries:
            wide = np.frombuffer(data, dtype=_WIRE_ENTRY)
            return cls(dimension, wide["high"].astype(np.int64), wide["low"].astype(np.uint64))
        if len(data) == 8 * entries:
            narrow = np.frombuffer(data, dtype="<i8").astype(np.int64)
            return cls(dimension, narrow >> 63, narrow.view(np.uint64))
        raise ValueError(
            f"moments: expected {16 * entries} or {8 * entries} bytes for dimension {dimension}, got {len(data)}"
        )


def _round_wide(high: High, low: Low) -> Floats:
    """Integers beyond int64 to float64, rounded once.

    The leading 64 bits are kept and every bit below them is folded into the last one (round to odd); since a float64
    keeps 53, converting that to float rounds exactly as the whole integer would.
    """
    negative = high < 0
    carry = (low == 0) & negative
    magnitude_low = np.where(negative, ~low + np.uint64(1), low)
    magnitude_high = np.where(negative, ~high + carry, high).view(np.uint64)
    length = np.zeros(high.shape, dtype=np.uint64)
    for bits in (32, 16, 8, 4, 2, 1):
        length += np.where(magnitude_high >> length >= np.uint64(1) << np.uint64(bits), np.uint64(bits), np.uint64(0))
    length += magnitude_high != 0
    rest = np.uint64(64) - length
    # A shift by 64 is undefined; where the length is zero the upper half is zero, and nothing is lost.
    leading = (magnitude_high << (rest & np.uint64(63))) | (magnitude_low >> length)
    lost = np.where(length == 0, np.uint64(0), magnitude_low << (rest & np.uint64(63)))
    leading |= (lost != 0).astype(np.uint64)
    rounded: Floats = np.ldexp(leading.astype(np.float64), length.astype(np.int32))
    return np.where(negative, -rounded, rounded)


def _product_of_block(block: Floats) -> Floats | None:
    """float64[D, D] of integer-valued float64[n, d], n ≤ BLOCK_ROWS, with its column of -1; None where it is not exact.

    By Cauchy and Schwarz no partial sum of any entry is beyond the largest sum of squares, one of the diagonal.
    Rounding moves that by a tiny share; so where it comes out below half of what is exact, nothing was rounded.
    """
    product = block.T @ block
    return _bordered(product, block) if product.diagonal().max(initial=0.0) < limits.EXACT_PRODUCT / 2 else None


def _packed(product: Floats) -> npt.NDArray[np.int64]:
    """The upper triangle int64[D(D+1)/2] of an integer-valued float64[D, D]."""
    return product.ravel().take(_triangle(len(product))[0]).astype(np.int64)


def _bordered(product: Floats, block: Floats) -> Floats:
    """float64[D, D] of ``product`` float64[d, d] and the products of the rows of a block with their column of -1."""
    features = len(product)
    whole = np.empty((features + 1, features + 1))
    whole[:-1, :-1] = product
    # Fewer rows than a block has, of numbers below the grid's range, add up to what is exact, too.
    whole[:-1, -1] = np.full(len(block), -1.0) @ block
    whole[-1, -1] = len(block)
    return whole


class MomentsSum:
    """A running sum of Gram matrices: the one mutable thing here, for adding many blocks without copying."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        entries = dimension * (dimension + 1) // 2
        self._high: High = np.zeros(entries, dtype=np.int64)
        self._low: Low = np.zeros(entries, dtype=np.uint64)

    def moments(self) -> Moments:
        """The sum so far, as a value that later additions do not change."""
        return Moments(self.dimension, self._high.copy(), self._low.copy())

    def add_rows(self, placed: Placed) -> None:
        """Add the Gram matrix of grid rows [n, d], block by block."""
        assert placed.shape[1:] == (self.dimension - 1,), "rows and statistics have different numbers of features"
        for start in range(0, len(placed), limits.BLOCK_ROWS):
            self._add_block(placed[start : start + limits.BLOCK_ROWS].astype(np.float64, copy=False))

    def _add_block(self, block: Floats) -> None:
        """Add the Gram matrix of integer-valued float64[n, d], n ≤ BLOCK_ROWS, with its column of -1.

        Where a product of the numbers is not exact, those of their upper and lower halves are.
        """
        product = _product_of_block(block)
        if product is not None:
            self._add_product(product, 0)
            return
        largest = max(block.max(), -block.min())
        assert largest < limits.GRID_RANGE, "a row outside the grid's range reached the statistics"
        scale = 2.0**limits.SPLIT_BITS
        upper = np.floor(block / scale)
        lower = block - upper * scale
        cross = upper.T @ lower
        squares = np.zeros((self.dimension, self.dimension))
        squares[:-1, :-1] = upper.T @ upper
        self._add_product(squares, 2 * limits.SPLIT_BITS)
        squares[:-1, :-1] = cross + cross.T
        self._add_product(squares, limits.SPLIT_BITS)
        self._add_product(_bordered(lower.T @ lower, block), 0)

    def _add_product(self, product: Floats, shift: int) -> None:
        """Add ``product * 2**shift``, an exact integer-valued float64[D, D] below 2**53 in magnitude."""
        value = _packed(product)
        high = value >> (63 - shift) >> 1
        low = value.view(np.uint64) << np.uint64(shift)
        self._low += low
        self._high += high
        self._high += self._low < low
