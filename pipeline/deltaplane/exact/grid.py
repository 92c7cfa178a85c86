"""The fixed-point grid: what makes the statistics integers.

The problem: sums of floats depend on the order they are added in, so "the same data" on two workers, or after a crash,
gives different bits. Feature j is therefore stored as the integer ``q_j = rint((x_j - offset_j) / step_j)`` with a step
that is a power of two, and everything downstream adds and subtracts integers.

The grid is fitted once on the first rows of a stream (or configured), frozen, and part of the stream definition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Quantized, Steps
from deltaplane.errors import DefinitionError
from deltaplane.exact.ordinary import in_proportion, ordinary, spread_of

__all__ = ["Grid", "fit_grid"]

_LARGEST_OFFSET = limits.STEP_LARGEST * limits.GRID_RANGE
_SMALLEST_SCALE = int(math.log2(limits.STEP_SMALLEST)) + limits.GRID_BITS
_LARGEST_SCALE = int(math.log2(limits.STEP_LARGEST)) + limits.GRID_BITS
"""Exponents of two: the smallest and the largest scale for which :func:`_scale` gives a step within its limits."""

_RUN_VALUES = 2**14
"""Values that are quantized in one run, 128 KiB of them: larger arrays are mapped and unmapped again at every call."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Steps and offsets of d features, by which values are quantized.

    ``steps`` and ``offsets`` are float64[d]: every step is a power of two, and every offset a multiple of its step.
    ``range_bits`` is 30 or 45: a value fits if its ``|q|`` is below 2 to this power. Raises :class:`DefinitionError`
    if one of these does not hold.
    """

    steps: Floats
    offsets: Floats
    range_bits: int = limits.GRID_RANGE_BITS
    offsets_in_steps: Floats = field(init=False, repr=False)
    _inverse_steps: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        steps = np.array(self.steps, dtype=np.float64, ndmin=1)
        offsets = np.array(self.offsets, dtype=np.float64, ndmin=1)
        if steps.ndim != 1 or steps.shape != offsets.shape:
            raise DefinitionError(
                f"grid: expected as many steps as offsets, got {steps.shape} and {offsets.shape};"
                " give each feature one step and one offset"
            )
        if self.range_bits not in (limits.GRID_RANGE_BITS, limits.WIDE_RANGE_BITS):
            raise DefinitionError(
                f"grid.range_bits: expected {limits.GRID_RANGE_BITS} or {limits.WIDE_RANGE_BITS},"
                f" got {self.range_bits!r}"
            )
        largest = limits.STEP_LARGEST if self.range_bits == limits.GRID_RANGE_BITS else limits.STEP_LARGEST_WIDE
        for j, (step, offset) in enumerate(zip(steps.tolist(), offsets.tolist(), strict=True)):
            if not limits.STEP_SMALLEST <= step <= largest or np.frexp(step)[0] != 0.5:
                raise DefinitionError(
                    f"grid: step of feature {j} must be a power of two from {limits.STEP_SMALLEST:g}"
                    f" to {largest:g}, got {step!r}"
                )
            # Multiplied back, since the quotient of a tiny offset may vanish and look whole.
            if not abs(offset) < _LARGEST_OFFSET or _nearest_multiple(offset, step) != offset:
                raise DefinitionError(
                    f"grid: offset of feature {j} must be a multiple of its step {step!r} below {_LARGEST_OFFSET:g},"
                    f" got {offset!r}"
                )
        offsets += 0.0  # Turns -0.0 into 0.0, so that equal grids have equal bytes.
        steps.flags.writeable = False
        offsets.flags.writeable = False
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "offsets_in_steps", offsets / steps)
        object.__setattr__(self, "_inverse_steps", 1.0 / steps)  # Exact, since steps are powers of two.

    def __eq__(self, other: object) -> bool:
        """Whether two grids refuse the same values, and quantize all others to the same integers."""
        if not isinstance(other, Grid):
            return NotImplemented
        return self.range_bits == other.range_bits and self.quantizes_as(other)

    def __hash__(self) -> int:
        return hash((self.steps.tobytes(), self.offsets.tobytes(), self.range_bits))

    def quantizes_as(self, other: Grid) -> bool:
        """Whether both grids quantize what fits them to the same integers, so that their statistics can be added."""
        return np.array_equal(self.steps, other.steps) and np.array_equal(self.offsets, other.offsets)

    @property
    def range(self) -> int:
        """The bound of the grid's integers: ``|q|`` is below it, 2**30 or 2**45."""
        return 1 << self.range_bits

    def leading(self, features: int) -> Grid:
        """The grid of the first so many features, made once."""
        if features not in self._leading:
            self._leading[features] = Grid(self.steps[:features], self.offsets[:features], self.range_bits)
        return self._leading[features]

    @functools.cached_property
    def _leading(self) -> dict[int, Grid]:
        return {self.features: self}

    @property
    def features(self) -> int:
        """Number of features d."""
        return len(self.steps)

    def quantize(self, values: Floats) -> tuple[Steps, Flags]:
        """The grid rows [n, d] of values float64[n, d], and bool[n]: which rows fit the grid.

        Grid rows are int32, or int64 if a row that fits has an entry of 2**30 or more in magnitude.

        A row does not fit if a value is NaN, infinite or outside the range. Its integers are undefined then and must
        not be used; :meth:`fault` gives the reason.
        """
        return self._quantize(values, None)

    def quantize_and_measure(self, values: Floats) -> tuple[Steps, Flags, Floats]:
        """As :meth:`place`, with the :meth:`rounding_error` of the rows, which is undefined unless all of them fit."""
        largest: Floats = np.zeros(self.features)
        quantized, fits = self._quantize(values, largest)
        return quantized, fits, largest * self.steps

    def _quantize(self, values: Floats, largest: Floats | None) -> tuple[Steps, Flags]:
        """The grid rows [n, d] and bool[n] of :meth:`place`.

        ``largest`` float64[d], if given, is raised to the largest rounding error of each feature, in steps.
        """
        assert values.ndim == 2, "a grid quantizes rows [n, d]"
        assert values.shape[1] == self.features, "rows and grid have different numbers of features"
        fits = np.ones(len(values), dtype=np.bool_)
        quantized: Steps = np.empty(values.shape, dtype=np.int32)
        scaled = np.empty((min(len(values), len(self._repeated[0])), self.features))
        rounded = scaled if largest is None else np.empty_like(scaled)
        with np.errstate(invalid="ignore", over="ignore"):
            for rows in self._blocks(len(values)):
                exact, whole = scaled[: rows.stop - rows.start], rounded[: rows.stop - rows.start]
                self._scale(values[rows], exact)
                np.rint(exact, out=whole)
                if not _all_within(whole):
                    reach = np.abs(whole).max(axis=1)
                    fits[rows] = reach < self.range
                    if quantized.dtype == np.int32 and (fits[rows] & (reach >= limits.GRID_RANGE)).any():
                        quantized = quantized.astype(np.int64)
                quantized[rows] = whole
                if largest is not None:
                    exact -= whole
                    _raise_to(largest, exact)
        return quantized, fits

    def fault(self, values: Floats, names: tuple[str, ...]) -> str:
        """Why one row float64[d] does not fit: the name of its first faulty feature, its value and the range."""
        return self.faults(values[None], names)[0]

    def faults(self, values: Floats, names: tuple[str, ...]) -> list[str]:
        """Why each row of float64[n, d] does not fit, as :meth:`fault` says it; none of the rows may fit."""
        with np.errstate(invalid="ignore", over="ignore"):
            distances = np.rint((values - self.offsets) / self.steps)
        outside = ~(np.abs(distances) < self.range)
        assert outside.any(axis=1).all(), "faults() was asked about a row that fits"
        first = outside.argmax(axis=1)
        found = zip(first.tolist(), values[np.arange(len(values)), first].tolist(), strict=True)
        return [self._fault(feature, value, names[feature]) for feature, value in found]

    def _fault(self, feature: int, value: float, name: str) -> str:
        if math.isnan(value):
            return f"feature {name!r} is not a number"
        if math.isinf(value):
            return f"feature {name!r} is infinite"
        step, offset = float(self.steps[feature]), float(self.offsets[feature])
        low, high = offset - self.range * step, offset + self.range * step
        outside = f"outside the grid's range ({low:g}, {high:g})"
        return f"feature {name!r} is {value!r}, {outside}; widen its step: deltaplane grid refit"

    def values(self, quantized: Quantized) -> Floats:
        """The values float64[n, d] of grid rows [n, d], in the features' own units."""
        values: Floats = np.multiply(self.steps, quantized, dtype=np.float64)
        values += self.offsets
        return values

    def rounding_error(self, values: Floats, quantized: Quantized) -> Floats:
        """The largest ``|x - grid value|`` of each feature, float64[d], in the features' own units.

        ``quantized`` are the grid rows [n, d] of ``values`` float64[n, d].
        """
        largest: Floats = np.zeros(self.features)
        for rows in self._blocks(len(values)):
            distances = np.empty((rows.stop - rows.start, self.features))
            self._scale(values[rows], distances)
            distances -= quantized[rows]
            _raise_to(largest, distances)
        return largest * self.steps

    def _blocks(self, rows: int) -> Iterator[slice]:
        """Slices that cover ``rows`` rows in runs short enough to stay in the cache from one step to the next."""
        length = len(self._repeated[0])
        return (slice(start, min(start + length, rows)) for start in range(0, rows, length))

    @functools.cached_property
    def _repeated(self) -> tuple[Floats, Floats]:
        """Offsets and inverse steps, each float64[rows of a run, d]: five times as fast as broadcasting one row."""
        rows = max(1, min(limits.BLOCK_ROWS, _RUN_VALUES // self.features))
        return np.tile(self.offsets, (rows, 1)), np.tile(self._inverse_steps, (rows, 1))

    @functools.cached_property
    def _at_zero_in_units(self) -> tuple[bool, bool]:
        """Whether all offsets are 0, and whether all steps are 1: both are true if every feature is a count or flag."""
        return not self.offsets.any(), bool((self.steps == 1.0).all())

    def _scale(self, values: Floats, out: Floats) -> None:
        """Write ``(values - offset) / step``, not rounded, into ``out``; both are float64[n, d] of at most one run."""
        offsets, inverse_steps = self._repeated
        at_zero, in_units = self._at_zero_in_units
        if not at_zero:
            values = np.subtract(values, offsets[: len(values)], out=out)
        if not in_units:
            np.multiply(values, inverse_steps[: len(values)], out=out)
        elif at_zero:
            out[...] = values


def _all_within(whole: Floats) -> bool:
    """Whether all of whole-numbered float64[n, d], C-contiguous, are below 2**30 in magnitude, and none is a NaN.

    If the sum of squares is below 2**59, however it was rounded, no square reaches 2**60; BLAS is done with it in a
    quarter of the time of the two extremes. A NaN makes every comparison false.
    """
    flat = whole.reshape(-1)
    if float(np.dot(flat, flat)) < limits.GRID_RANGE**2 / 2:
        return True
    return bool(whole.max() < limits.GRID_RANGE and whole.min() > -limits.GRID_RANGE)


def _raise_to(largest: Floats, distances: Floats) -> None:
    """Raise ``largest`` float64[d] to the magnitudes of ``distances`` float64[n, d], which are overwritten."""
    if distances.any():  # Counts and flags lie on the grid already, so that most distances are 0.
        np.maximum(largest, np.abs(distances, out=distances).max(axis=0), out=largest)


def fit_grid(rows: Floats) -> Grid:
    """The grid that fits the first rows float64[n, d] of a stream; NaN and infinite values are left out.

    The step of a feature is ``2**ceil(log2(max|x - offset|)) * 2**-20`` over its ordinary values
    (:mod:`deltaplane.exact.ordinary`), so that fill values do not set it. If a larger power of two, at most 1, holds
    every ordinary value exactly, the step is the largest such power. Whole numbers up to 2**28 from the offset get a
    step of 1, so that integers and flags lose nothing. The offset is 0, unless the values lie far from 0 compared with
    their spread (a year, a Unix time): then it is near their middle. Every ordinary value of ``rows`` below 4e307 in
    magnitude fits the grid.

    If more than one value in a hundred is not ordinary, the step is made coarser to reach these, too, but only as far
    as the ordinary values hardly suffer (:data:`limits.FINEST_SHARE_OF_A_SPREAD`). Values beyond that are refused when
    they come, with the feature's name. A feature that never varied gets a coarser step and a wider range
    (:data:`limits.SINGLE_VALUE_BITS`), since it may begin to vary. Raises :class:`DefinitionError` if ``rows`` has no
    feature.
    """
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DefinitionError(
            f"grid: expected rows of at least one feature to fit on, got an array of shape {rows.shape}"
        )
    steps, offsets = np.ones(rows.shape[1]), np.zeros(rows.shape[1])
    for j in range(rows.shape[1]):
        column = rows[:, j].astype(np.float64)
        values = column[np.isfinite(column)]
        usual = ordinary(values)
        step, offset = _fit_feature(values[usual])
        if not usual.all():
            beyond = np.abs(values[~usual & in_proportion(values)] - offset)
            step = max(step, _step_to_reach(beyond, spread_of(values) or _one_value(values[usual])))
            offset = _nearest_multiple(offset, step)
        steps[j], offsets[j] = step, offset
    wide = steps.max() <= limits.STEP_LARGEST_WIDE
    return Grid(steps, offsets, limits.WIDE_RANGE_BITS if wide else limits.GRID_RANGE_BITS)


def _step_to_reach(distances: Floats, spread: float) -> float:
    """The step with which a grid reaches ``distances`` float64[n] from its offset; 0 if it can reach none of them.

    The step leaves a headroom of :data:`limits.OUT_OF_PROPORTION`, but is never more than a small share of ``spread``.
    """
    coarsest = min(_scale(spread) * limits.FINEST_SHARE_OF_A_SPREAD / 2, limits.STEP_LARGEST)
    reached = distances[distances / limits.WIDE_RANGE < coarsest / 2]
    if not len(reached):
        return 0.0
    return float(min(coarsest, _scale(float(reached.max())) / limits.WIDE_RANGE * limits.OUT_OF_PROPORTION))


def _one_value(values: Floats) -> float:
    """The magnitude of a feature that never varied, or :data:`limits.SCALE_OF_AN_UNSEEN_FEATURE` if it is always 0."""
    return float(abs(values[0])) or limits.SCALE_OF_AN_UNSEEN_FEATURE if len(values) else 1.0


def _fit_feature(values: Floats) -> tuple[float, float]:
    """Step and offset for the ordinary values float64[n] of one feature."""
    if not values.any():
        return limits.SCALE_OF_AN_UNSEEN_FEATURE * 2.0**-limits.SINGLE_VALUE_BITS, 0.0
    low, high = float(values.min()), float(values.max())
    spread, middle = high / 2 - low / 2, low / 2 + high / 2
    offset = 0.0
    whole = np.array_equal(values, np.rint(values))
    if low == high:
        return _fit_constant(low, whole=whole)
    if 8 * spread < abs(middle) < _LARGEST_OFFSET / 2:
        # The step chosen below divides the scale of the values, so that an offset in such units is a multiple of it.
        unit = max(_scale(spread), 1.0) if whole else _scale(spread)
        offset = _nearest_multiple(middle, unit)
    distances = values - offset
    step = _scale(float(np.abs(distances).max())) * 2.0**-limits.GRID_BITS
    if whole and 1.0 <= step <= 2.0**limits.INTEGER_HEADROOM_BITS:
        return 1.0, offset
    if len(values) < limits.ROWS_THAT_TELL:
        return step, offset
    return (1.0 if whole and step < 1.0 else _coarsest_exact_step(distances, step)), offset


def _fit_constant(value: float, *, whole: bool) -> tuple[float, float]:
    """Step and offset for a feature that never varied, or of which one row was seen.

    A large whole number is likely to be a time, a date or a count, of which each unit matters: it gets a step of 1 and
    itself as the offset.
    """
    step = max(_scale(abs(value)) * 2.0**-limits.SINGLE_VALUE_BITS, limits.STEP_SMALLEST)
    return (1.0, value) if whole and step > 1.0 and abs(value) < limits.EXACT_PRODUCT else (step, 0.0)


def _nearest_multiple(value: float, step: float) -> float:
    """The multiple of ``step``, a power of two, that is nearest to ``value``."""
    return float(np.rint(value / step)) * step


def _scale(reach: float) -> float:
    """The smallest power of two that is not below ``reach``, clipped so that the step made of it is within limits."""
    mantissa, exponent = np.frexp(reach)
    power = int(exponent) - (mantissa == 0.5)
    return float(np.ldexp(1.0, min(max(power, _SMALLEST_SCALE), _LARGEST_SCALE)))


def _coarsest_exact_step(distances: Floats, step: float) -> float:
    """The largest power of two from ``step`` to 1 that divides every distance; ``step`` if there is none."""
    units = np.rint(distances / step)
    if step >= 1.0 or not np.array_equal(units * step, distances):
        return step
    common = int(np.bitwise_or.reduce(np.abs(units).astype(np.int64)))
    return min(1.0, step * float(common & -common))
