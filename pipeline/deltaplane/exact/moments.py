"""Exact class statistics: Gram matrices whose entries are 128-bit integers.

The problem: a proximal SVM needs, per class, only ``M_c = E_cᵀ E_c`` with ``E = [X, -1]`` (paper 1, eq. 36-39: the six
terms l, M, v of a change message are its corner, its body and its last column). Kept in float64, such sums depend on
the order of addition, and subtracting a row does not undo its addition: one outlier of 1e10 poisons a rolling sum for
ever. Kept as integers they form a group, and these laws hold *bitwise*:

    (a + b) + c == a + (b + c)        partial sums may be formed anywhere        → many workers
    a + b == b + a                    in any order                                → any interleaving
    (a + b) - b == a                  and be taken back without a trace           → windows, unlearning
    of(rows) == of(part) + of(rest)   however the rows are cut into batches       → any batch size

BLAS makes it fast all the same. Rows are multiplied as integer-valued float64, and such a product is *exact* while the
sum of squares of every feature stays below 2**53: every partial sum of every entry is then an integer that a float64
holds (Cauchy and Schwarz), whatever the kernel does. The sums of squares are the diagonal of the product itself. If
they are too large, the rows are split ``q = high * 2**15 + low``, and the result is put together from three exact
products. Rows beyond 2**30 leave their block and are split in three limbs: ``q = high * 2**30 + middle * 2**15 + low``.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from deltaplane import limits
from deltaplane.arrays import Floats, Int64s, Positions, Quantized, UInt64s
from deltaplane.errors import LimitExceeded
from deltaplane.exact.blocks import tiles
from deltaplane.exact.triangle import layout_of, positions_of_leading

__all__ = ["Moments"]

_WIRE_ENTRY = np.dtype([("low", "<u8"), ("high", "<i8")])

_GATHERED_VALUES = 2**16
"""Values that are gathered from rows at once: few enough to be in the cache still when they are converted."""

_EXTENDED_FROM = 64
"""Number of features from which rows are multiplied together with their column of -1.

With few features, one more column makes the product a tenth slower. With many, it costs as much to copy the product
into a larger matrix beside the sums.
"""

_MINUS_ONES = np.full(limits.BLOCK_ROWS, -1.0)
_MINUS_ONES.flags.writeable = False
"""The last column of a block of rows: making it anew for each costs nearly as much as multiplying with it."""

_INT64_REACH = 2**62
"""Sums and differences of two numbers below it in magnitude fit int64."""


class Moments:
    """The Gram matrix ``E_cᵀE_c`` of some rows ``e = [q, -1]`` of one class, in grid units; a value, never changed.

    It is the packed upper triangle of D(D+1)/2 integers of 128 bits, in two's complement: ``high`` int64 and ``low``
    uint64, with entry = high * 2**64 + low. If all entries are below 2**62 in magnitude, as they nearly always are, the
    value *fits int64*: it has them in ``low`` and no ``high``, and a sum takes one addition an entry. Whether
    a value does depends on its entries alone, so that equal sums are stored alike.
    """

    __slots__ = ("_high", "_reach", "dimension", "low")

    def __init__(self, dimension: int, high: Int64s | None, low: UInt64s, reach: int = 0) -> None:
        """``high`` and ``low`` [D(D+1)/2] are the halves of the entries.

        If ``high`` is None, the entries are ``low`` seen as int64, and ``reach`` < 2**62 bounds their magnitude.
        """
        if (
            high is not None
            and np.array_equal(high, low.view(np.int64) >> 63)
            and (reach := _reach(low)) < _INT64_REACH
        ):
            high = None
        self.dimension = dimension
        self.low = low
        self._high = high
        self._reach = reach

    @classmethod
    def _of_int64(cls, dimension: int, entries: Int64s, reach: int) -> Moments:
        """The value with ``entries`` int64[D(D+1)/2], none of which is beyond ``reach`` in magnitude.

        If ``reach`` is 2**62 or more, the entries are measured.
        """
        return cls(dimension, None if reach < _INT64_REACH else entries >> 63, entries.view(np.uint64), reach)

    @classmethod
    def zero(cls, dimension: int) -> Moments:
        """The statistics of no rows, for D = ``dimension`` = features + 1."""
        return cls._of_int64(dimension, np.zeros(dimension * (dimension + 1) // 2, dtype=np.int64), 0)

    @classmethod
    def of_rows(cls, quantized: Quantized, at: Positions | None = None) -> Moments:
        """The Gram matrix of grid rows [n, d], whole numbers ``|q| < 2**45``; of the rows ``at`` int64[m], if given.

        It takes one BLAS product a block if all rows are int32 rows, ``|q| < 2**30``.
        """
        if quantized.dtype == np.int64:
            # A batch is int64 if a row of it is beyond int32 rows. Those go together, so that no block is done twice.
            rows = quantized if at is None else quantized[at]
            large = (np.abs(rows) >= limits.GRID_RANGE).any(axis=1)
            if large.any() and not large.all():
                return cls._of_alike(rows[large]) + cls._of_alike(rows[~large])
        return cls._of_alike(quantized, at)

    @classmethod
    def _of_alike(cls, quantized: Quantized, at: Positions | None = None) -> Moments:
        """As :meth:`of_rows`; fastest if all rows are below 2**30 in magnitude, or none is."""
        count = len(quantized) if at is None else len(at)
        if count <= limits.INT64_ROWS:
            few = quantized if at is None else quantized[at]
            if quantized.dtype == np.int32 or (np.abs(few) < limits.GRID_RANGE).all():
                return cls._of_few_rows(few)
            assert (np.abs(few) < limits.WIDE_RANGE).all(), "a row outside the grid's range reached the statistics"
            return cls._of_block(few)
        if count <= limits.BLOCK_ROWS:
            return cls._of_block(quantized, at)
        blocks = (slice(begin, begin + limits.BLOCK_ROWS) for begin in range(0, count, limits.BLOCK_ROWS))
        parts = (
            cls._of_block(quantized[rows]) if at is None else cls._of_block(quantized, at[rows]) for rows in blocks
        )
        return functools.reduce(Moments.__add__, parts)

    @classmethod
    def _of_few_rows(cls, quantized: Quantized) -> Moments:
        """The Gram matrix of at most :data:`limits.INT64_ROWS` grid rows below 2**30: their integer products fit int64.

        This takes a third of the time of a block.
        """
        dimension = quantized.shape[1] + 1
        assert (np.abs(quantized) < limits.GRID_RANGE).all(), "a row outside the grid's range reached the statistics"
        extended = np.empty((len(quantized), dimension), dtype=np.int64)
        extended[:, :-1] = quantized
        extended[:, -1] = -1
        product = extended.T @ extended
        return cls._of_int64(dimension, product.ravel()[layout_of(dimension).packed], int(product.diagonal().max()))

    @classmethod
    def _of_block(cls, quantized: Quantized, at: Positions | None = None) -> Moments:
        """The Gram matrix of at most :data:`limits.BLOCK_ROWS` grid rows [n, d].

        By Cauchy and Schwarz no partial sum of any entry is beyond the largest entry of the diagonal. Rounding changes
        that entry by a tiny share only. So if it comes out below half of 2**53, nothing was rounded. Otherwise rows are
        split into limbs, whose products are exact; rows beyond 2**30 have three limbs and are multiplied separately.
        """
        extended = quantized.shape[1] >= _EXTENDED_FROM
        rows = _floats(quantized, at, extended=extended)
        product = rows.T @ rows if extended else _bordered(rows)
        largest = float(product.diagonal().max())
        if largest < limits.EXACT_PRODUCT / 2:
            return cls._of_int64(len(product), _packed(product), int(largest))
        rows = _floats(quantized, at, extended=True)
        reach = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        assert reach.max() < limits.WIDE_RANGE, "a row outside the grid's range reached the statistics"
        large = reach >= limits.GRID_RANGE
        if not large.any():
            return cls._of_limbs(*_limbs(rows))
        of_large = cls._of_limbs(*_limbs(rows[large], 2))
        return of_large if large.all() else of_large + cls._of_block(rows[~large, :-1])

    @classmethod
    def _of_limbs(cls, lower: Floats, *others: Floats) -> Moments:
        """The Gram matrix of at most :data:`limits.BLOCK_ROWS` rows, given by their limbs float64[n, D], lowest first.

        All limbs but the highest are in [0, 2**15).
        """
        limbs = (lower, *others)
        parts = []
        for i, one in enumerate(limbs):
            parts.append(cls._of_shifted(one.T @ one, 2 * i * limits.SPLIT_BITS))
            for j in range(i):
                cross = one.T @ limbs[j]
                parts.append(cls._of_shifted(cross + cross.T, (i + j) * limits.SPLIT_BITS))
        return functools.reduce(Moments.__add__, parts)

    @classmethod
    def _of_shifted(cls, product: Floats, shift: int) -> Moments:
        """``product * 2**shift``; ``product`` float64[D, D] holds exact integers below 2**53 in magnitude."""
        entries = _packed(product)
        return cls(len(product), entries >> (63 - shift) >> 1, entries.view(np.uint64) << np.uint64(shift))

    def leading(self, dimension: int) -> Moments:
        """The statistics of the same rows, of their first features alone: of D = ``dimension``, the last for -1."""
        if dimension == self.dimension:
            return self
        positions = positions_of_leading(self.dimension, dimension)
        high = None if self._high is None else self._high[positions]
        return Moments(dimension, high, self.low[positions], self._reach)

    @property
    def high(self) -> Int64s:
        """The upper 64 bits of each entry, int64[D(D+1)/2]."""
        return self.low.view(np.int64) >> 63 if self._high is None else self._high

    def words(self, positions: Positions) -> tuple[Int64s, UInt64s]:
        """The upper and lower halves, int64[m] and uint64[m], of the entries at m positions of the packed triangle."""
        low = self.low[positions]
        return (low.view(np.int64) >> 63 if self._high is None else self._high[positions]), low

    def integers(self, positions: Positions) -> npt.NDArray[np.object_]:
        """The entries object[m] at m positions of the packed triangle, as Python's integers."""
        high, low = self.words(positions)
        integers: npt.NDArray[np.object_] = high.astype(object) * 2**64 + low.astype(object)
        return integers

    def in_floats(self, positions: Positions) -> Floats:
        """The entries float64[m] at m positions of the packed triangle, right to within a float's rounding."""
        high, low = self.words(positions)
        return np.asarray(low.view(np.int64) * 1.0 if self._high is None else high * 2.0**64 + low, dtype=np.float64)

    @property
    def fits_int64(self) -> bool:
        """Whether every entry is below 2**62 in magnitude; ``low``, seen as int64, is then the entries themselves."""
        return self._high is None

    @property
    def nbytes(self) -> int:
        """The memory that the entries take, in bytes."""
        return self.low.nbytes + (0 if self._high is None else self._high.nbytes)

    @property
    def count(self) -> int:
        """Number of rows: the corner of the matrix (the papers' l)."""
        return self._at(-1)

    def entry(self, i: int, j: int) -> int:
        """One entry as an exact Python integer."""
        return self._at(layout_of(self.dimension).unpack[i, j])

    def _at(self, position: int) -> int:
        if self._high is None:
            return int(self.low.view(np.int64)[position])
        return (int(self._high[position]) << 64) + int(self.low[position])

    def within_grid(self, grid_range: int = limits.GRID_RANGE) -> bool:
        """Whether ``count`` rows of one source with ``|q| < grid_range`` may have these sums and sums of squares.

        The comparison is in float64, so that a sum within a float's rounding of the bound may pass.
        """
        layout = layout_of(self.dimension)
        sums, squares = self.in_floats(layout.last), self.in_floats(layout.diagonal)
        reach = self.count * float(grid_range)
        return bool(
            sums.max() <= reach
            and sums.min() >= -reach
            and squares.min() >= 0.0
            and squares.max() <= min(reach * grid_range, limits.SQUARES_OF_A_SOURCE)
        )

    def __add__(self, other: Moments) -> Moments:
        assert self.dimension == other.dimension, "statistics of different features were added"
        if self._high is None and other._high is None:
            return self._of_sum(self.low.view(np.int64) + other.low.view(np.int64), other)
        low = self.low + other.low
        total = Moments(self.dimension, self.high + other.high + (low < self.low), low)
        if total._high is not None:
            diagonal = layout_of(self.dimension).diagonal
            wrapped = ~(self.high[diagonal] ^ other.high[diagonal]) & (self.high[diagonal] ^ total._high[diagonal])
            if wrapped.min() < 0:
                raise LimitExceeded(
                    f"statistics: the squares of a feature in {self.count} and {other.count} rows add up to more than"
                    " 2**127, which 128 bits do not hold; begin a stream with wider steps, or with a shorter window"
                )
        return total

    def __sub__(self, other: Moments) -> Moments:
        assert self.dimension == other.dimension, "statistics of different features were subtracted"
        if self._high is None and other._high is None:
            return self._of_sum(self.low.view(np.int64) - other.low.view(np.int64), other)
        borrow = self.low < other.low
        return Moments(self.dimension, self.high - other.high - borrow, self.low - other.low)

    def _of_sum(self, entries: Int64s, other: Moments) -> Moments:
        """The value with ``entries``, the sum or difference of two values that fit int64, as it is sure to."""
        reach = self._reach + other._reach
        # The bound grows with each addition. It is measured again once it no longer shows that the sum fits.
        known = reach < _INT64_REACH
        return self._of_int64(self.dimension, entries, reach if known else _reach(entries.view(np.uint64)))

    def __neg__(self) -> Moments:
        return Moments.zero(self.dimension) - self

    def __eq__(self, other: object) -> bool:
        """Bitwise equality of the integers."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.dimension != other.dimension or self.low[-1] != other.low[-1]:
            return False  # Nested windows mostly differ in their number of rows: no need to look further.
        if self._high is None or other._high is None:
            return self._high is other._high and np.array_equal(self.low, other.low)
        return np.array_equal(self.low, other.low) and np.array_equal(self._high, other._high)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """False if all entries are 0: no rows, or rows that cancelled."""
        return bool(self.low[-1]) or self._high is not None or bool(self.low.any())

    def __repr__(self) -> str:
        return f"Moments(dimension={self.dimension}, count={self.count})"

    def to_float(self) -> Floats:
        """float64[D, D]: every integer rounded once, to nearest even, so equal statistics give equal bytes."""
        signed = self.low.view(np.int64)
        packed: Floats = signed.astype(np.float64)
        if self._high is not None:
            beyond = self._high != signed >> 63
            packed[beyond] = _round_int128(self._high[beyond], self.low[beyond])
        full: Floats = packed[layout_of(self.dimension).unpack]
        return full

    def to_bytes(self) -> bytes:
        """Canonical bytes: the packed triangle, row by row, 16 bytes an entry, little-endian two's complement."""
        entries = np.empty(len(self.low), dtype=_WIRE_ENTRY)
        entries["low"], entries["high"] = self.low, self.high
        return entries.tobytes()

    def to_int64_bytes(self) -> bytes | None:
        """As :meth:`to_bytes` with 8 bytes an entry; None if an entry does not fit int64."""
        signed = self.low.view(np.int64)
        if self._high is not None and not np.array_equal(self._high, signed >> 63):
            return None
        return signed.astype("<i8", copy=False).tobytes()

    @classmethod
    def from_bytes(cls, dimension: int, data: bytes) -> Moments:
        """The value that :meth:`to_bytes` or :meth:`to_int64_bytes` wrote. Raises ValueError on any other length."""
        entries = dimension * (dimension + 1) // 2
        if len(data) == 16 * entries:
            int128s = np.frombuffer(data, dtype=_WIRE_ENTRY)
            return cls(dimension, int128s["high"].astype(np.int64), int128s["low"].astype(np.uint64))
        if len(data) == 8 * entries:
            int64s = np.frombuffer(data, dtype="<i8").astype(np.int64)
            return cls._of_int64(dimension, int64s, _reach(int64s.view(np.uint64)))
        raise ValueError(
            f"moments: expected {16 * entries} or {8 * entries} bytes for dimension {dimension}, got {len(data)}"
        )


def _round_int128(high: Int64s, low: UInt64s) -> Floats:
    """float64[m]: 128-bit integers in halves int64[m] and uint64[m], each rounded once.

    The leading 64 bits are kept, and every bit below them is folded into the last one (round to odd). A float64 keeps
    53 bits, so that converting these 64 rounds exactly as converting the whole integer would.
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
    # A shift by 64 is undefined. It is masked: if the length is 0, the upper half is 0, and nothing is lost.
    leading = (magnitude_high << (rest & np.uint64(63))) | (magnitude_low >> length)
    lost = np.where(length == 0, np.uint64(0), magnitude_low << (rest & np.uint64(63)))
    leading |= (lost != 0).astype(np.uint64)
    rounded: Floats = np.ldexp(leading.astype(np.float64), length.astype(np.int32))
    return np.where(negative, -rounded, rounded)


def _limbs(rows: Floats, more: int = 1) -> list[Floats]:
    """Whole-numbered rows float64[n, D] in ``more`` + 1 limbs of 15 bits: the lowest first, the highest signed."""
    limbs, scale = [], 2.0**limits.SPLIT_BITS
    for _ in range(more):
        upper = np.floor(rows / scale)
        limbs.append(rows - upper * scale)
        rows = upper
    return [*limbs, rows]


def _floats(quantized: Quantized, at: Positions | None, *, extended: bool) -> Floats:
    """Grid rows, or those ``at`` some positions, as float64[n, d]; as float64[n, D] with a column of -1 if extended."""
    count, features = len(quantized) if at is None else len(at), quantized.shape[1]
    floats = np.empty((count, features + extended))
    if extended:
        floats[:, -1] = -1.0
    if at is None:
        floats[:, :features] = quantized
        return floats
    for rows, _ in tiles(count, 1, features, _GATHERED_VALUES):
        floats[rows, :features] = quantized.take(at[rows], axis=0)
    return floats


def _packed(product: Floats) -> Int64s:
    """The packed upper triangle int64[D(D+1)/2] of a symmetric, whole-numbered float64[D, D]."""
    # LAPACK reads matrices column by column, so that its lower triangle is the upper one here.
    packed: Int64s = lapack.dtrttp(product.T, "L")[0].astype(np.int64)
    return packed


def _bordered(rows: Floats) -> Floats:
    """float64[D, D]: in its upper triangle, the Gram matrix of rows [q, -1] for q float64[n, d]; the rest is unset."""
    features = rows.shape[1]
    whole = np.empty((features + 1, features + 1))
    whole[:-1, :-1] = rows.T @ rows
    whole[:-1, -1] = _MINUS_ONES[: len(rows)] @ rows
    whole[-1, -1] = len(rows)
    return whole


def _reach(low: UInt64s) -> int:
    """The largest magnitude among entries uint64[m] that are int64 in two's complement."""
    entries = low.view(np.int64)
    return max(int(entries.max()), -int(entries.min()))
