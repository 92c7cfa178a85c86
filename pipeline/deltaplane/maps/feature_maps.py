"""Feature maps, which make the decision surface curved and stay exact.

A random layer turns a row into ``units`` new features, and the classifier is linear in those. With x̂ the row less its
centers, divided by its scales, and ω and β drawn from the standard normal distribution,

    hidden:   g(√2 (x̂·ω/σ + β)), g the sigmoid: the random hidden layer of an extreme SVM (paper 3, §2)
    fourier:  cos(√2 x̂·ω/σ) and sin(√2 x̂·ω/σ): (2/units) φ(x)·φ(z) estimates exp(-|x̂-ẑ|²/σ²), the kernel of paper 5
              (Rahimi and Recht 2007, in the form of pairs, which is exact for x = z)
    mixed:    x itself, followed by such cosines and sines of a few features each, of many widths
              (:mod:`deltaplane.maps.drawing`); the statistics of x alone are a part of the statistics

The problem: a row is mapped when it comes, and again when it leaves, is replaced, or is read by another worker. If one
bit differs, the products that are subtracted are not those that were added. Products of floats differ in the last bit
from one BLAS and one batch to the next, and exp and cos from one machine to the next. So a map here is a pure function
of the *grid integers* q of a row, in four steps that are exact, or rounded the same everywhere:

1. standardise: ``z = rint((q - center) / scale * 2**20)``, clipped to ±2**30: a value beyond 1024 scales counts as 1024
   scales, which saturates a sigmoid and is far beyond any kernel's width. The mixed map clips at 8 scales. For every
   range of the grid, the difference is exact in float64, and the product is rounded once;
2. project: ``p = z·K`` with K the integers ω·2**12. The float64 product is exact in any BLAS kernel, since all partial
   sums stay below 2**53: |z| <= 2**30, and the magnitudes of a column of K, at most 2000 with a mean of 0.8·2**12, add
   up to less than 2**23, which is asserted for the numbers drawn. So no block is ever split;
3. apply the nonlinear function, from :mod:`deltaplane.maps.portable`;
4. round to a grid of 2**-20. The result is within 0.8 steps of the true function.

A machine that still computes one bit differently is detected: the images of some fixed rows are part of the map's
identity, and so of every fingerprint.

Fourier features are left between -1 and 1, without the factor √(2/units) with which their products add up to the
kernel. So with ``standardize = false`` in the solver, C is the C·units/2 of the kernel machine. With ``standardize =
true`` it is about its C·units: the deviation of a cosine is 0.7, except for the few that change little over all of the
data; standardising penalises these less than the kernel would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s, Quantized
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.maps.drawing import drawn_directions, drawn_layer
from deltaplane.maps.portable import (
    DEVIATE_BITS,
    EXP2,
    EXPONENT_REACH,
    RESULT_BITS,
    SINE,
    cosines_and_sines,
    sigmoids,
    words,
)
from deltaplane.maps.standards import SCALE_LARGEST, SCALE_SMALLEST
from deltaplane.table_values import canonical_json, number, whole

__all__ = [
    "KINDS",
    "NO_MAP",
    "SEEDS",
    "SIGMA_LARGEST",
    "SIGMA_SMALLEST",
    "STEP",
    "UNITS",
    "UNITS_OF_AUTO",
    "FeatureMap",
    "Kind",
    "MapKind",
]

Kind = Literal["none", "hidden", "fourier", "mixed"]

UNITS = 200
"""The default number of mapped features."""

UNITS_OF_AUTO = 160
"""The default for kind ``auto``: 200 units take a third more time for 0.001 or 0.002 of G-mean."""

STEP = 2.0**-RESULT_BITS
"""The resolution of the standardised features, and of the mapped ones."""

SIGMA_SMALLEST, SIGMA_LARGEST = 2.0**-10, 2.0**20
SEEDS = 2**63

_REACH = 2.0**30
"""The largest magnitude of a standardised value, in steps."""

_NEAR_REACH = 2.0**23
"""The same in the mixed map, where one outlier would otherwise turn narrow directions many times."""

_PRODUCT_ROWS = 512
"""Rows of one product: enough for BLAS to be fast, and at 2000 units only 8 MB."""

_BLOCK_ENTRIES = 2**15
"""Entries given to the nonlinear function at once: enough to hide the cost of a call, few enough for the cache."""

_PROBE_ROWS = 31

_SQRT_2 = float.fromhex("0x1.6a09e667f3bcdp+0")
_TURN = float.fromhex("0x1.45f306dc9c883p-3")
"""1/(2π): a radian in turns."""
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")

assert limits.FEATURES <= 2000, "more features need coarser deviates: sums of products must stay below 2**53"
assert STEP == 2.0**-limits.GRID_BITS, "mapped features are as fine as those of a fitted grid"


def _bend_to_sigmoids(projected: Floats, phases: Floats, mapped: Int32s) -> None:
    projected += phases
    sigmoids(projected.astype(np.float32), mapped)


def _bend_to_cosines_and_sines(projected: Floats, phases: Floats, mapped: Int32s) -> None:
    del phases
    cosines_and_sines(projected, mapped)


def _bend_to_pairs(projected: Floats, phases: Floats, mapped: Int32s) -> None:
    del phases
    apart, number = np.empty(mapped.shape, dtype=np.int32), projected.shape[1]
    cosines_and_sines(projected, apart)
    mapped[:, 0::2], mapped[:, 1::2] = apart[:, :number], apart[:, number:]


@dataclass(frozen=True)
class MapKind:
    """A kind of map.

    - ``names``: the names of the mapped features that each projection gives, one or several. Features of one name are
      adjacent, except with ``beside``.
    - ``factor``: converts a projection in radians to the argument of ``bend``: an exponent of two, or turns.
    - ``bend``: the nonlinear part, from scaled projections float64[n, k], overwritten, and phases float64[k], to grid
      rows int32[n, units]. ``polynomial``: its coefficients, the highest power first.
    - ``phased``: whether projections have phases; then exponents are clipped to ±``EXPONENT_REACH``.
    - ``formula``: the mapped values in words, for an exported model; rint rounds halves to even.
    - ``beside``: whether the row's own features precede the mapped ones. The mapped ones are then in pairs, so that the
      first of them are a map of fewer units. ``reach``: the largest magnitude of standardised values, in steps.
    """

    names: tuple[str, ...]
    factor: float
    bend: Callable[[Floats, Floats, Int32s], None]
    polynomial: tuple[float, ...]
    phased: bool
    formula: str
    beside: bool = False
    reach: float = _REACH


_PROJECTED = "z = rint((q - centers) * inverse_scales), kept within ±reach; p = z · projections, exact in float64;"

KINDS: Mapping[str, MapKind] = {
    "hidden": MapKind(
        names=("hidden",),
        factor=-_LOG2_E,
        bend=_bend_to_sigmoids,
        polynomial=tuple(EXP2),
        phased=True,
        formula=f"{_PROJECTED} t = p * factor + phases, as float32, kept within ±exponent_reach; n = rint(t);"
        " r = polynomial(t - n), the highest power first, in float32; value = step * rint(2**20 / (r * 2**n + 1))",
    ),
    "fourier": MapKind(
        names=("cosine", "sine"),
        factor=_TURN,
        bend=_bend_to_cosines_and_sines,
        polynomial=tuple(SINE),
        phased=False,
        formula=f"{_PROJECTED} t = p * factor; t = t - rint(t); u = 1/4 - |t|; v = 1/4 - |u| with the sign of t;"
        " s(a) = a * polynomial(a * a), the highest power first, in float32; values = step * rint(s(u)) of all columns,"
        " then step * rint(s(v)) of all columns",
    ),
    "mixed": MapKind(
        names=("cosine", "sine"),
        factor=_TURN,
        bend=_bend_to_pairs,
        polynomial=tuple(SINE),
        phased=False,
        formula=f"{_PROJECTED} t = p * factor, each column by its own; t = t - rint(t); u = 1/4 - |t|; v = 1/4 - |u|"
        " with the sign of t; s(a) = a * polynomial(a * a), the highest power first, in float32; values = the raw"
        " features, missing ones filled in, then step * rint(s(u)) and step * rint(s(v)) of the first column, of the"
        " second, and so on",
        beside=True,
        reach=_NEAR_REACH,
    ),
}
"""Every kind of map except ``none``, which changes nothing, by its name in definitions."""


@dataclass(frozen=True)
class FeatureMap:
    """A map from grid rows of d features to grid rows of ``units`` features; kind ``none`` changes nothing.

    ``sigma``: the kernel's width, in standardised units. ``centers`` (d integers) and ``scales`` (d numbers) are in
    grid steps. The weights of all kinds are normal with deviation sqrt(2)/sigma, as the kernel needs. Kind ``mixed``
    gives d + ``units`` features, the row's own first. Its ``sigma`` is the middle of the widths over one feature, and
    ``curved`` are the indices of the features that directions of few features use; empty means all. Raises
    :class:`DefinitionError` if a parameter is out of range.
    """

    kind: Kind = "none"
    units: int = 0
    seed: int = 0
    sigma: float = 0.0
    centers: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    curved: tuple[int, ...] = ()
    identity: str = field(init=False, repr=False, compare=False)
    """``none``, or 64 hexadecimal digits: a hash of the settings, of the numbers drawn, and of the images of some fixed
    rows on this machine. Maps with equal identities are the same function."""
    _centers: Floats = field(init=False, repr=False, compare=False)
    _inverse_scales: Floats = field(init=False, repr=False, compare=False)
    _directions: Floats = field(init=False, repr=False, compare=False)
    _biases: Floats = field(init=False, repr=False, compare=False)
    _factors: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A tuple is searched, and not the mapping, since a value that is not a text may have no hash.
        if self.kind not in ("none", *KINDS):
            known = " or ".join([", ".join(map(repr, ("none", *KINDS)[:-1])), repr([*KINDS][-1])])
            raise DefinitionError(f"feature_map: kind must be {known}, got {self.kind!r}")
        if self.kind == "none":
            others = (self.units, self.seed, self.sigma, self.centers, self.scales, self.curved)
            if others != (0, 0, 0.0, (), (), ()):
                raise DefinitionError("feature_map: kind 'none' takes no other keys; name a kind or leave them out")
            nothing = np.zeros(0)
            self._hold("none", nothing, nothing, nothing, nothing, nothing)
            return
        self._check()
        self._check_curved()
        object.__setattr__(self, "sigma", float(self.sigma))
        object.__setattr__(self, "centers", tuple(map(int, self.centers)))
        object.__setattr__(self, "scales", tuple(map(float, self.scales)))
        object.__setattr__(self, "curved", tuple(map(int, self.curved)))
        centers = np.array(self.centers, dtype=np.float64)
        inverse_scales = 1.0 / STEP / np.array(self.scales, dtype=np.float64)
        # Factors turn a projection into the exponent of a sigmoid, or an angle in turns. Each mixed direction has one.
        factors = np.asarray(_SQRT_2 / self.sigma * STEP * 2.0**-DEVIATE_BITS * KINDS[self.kind].factor)
        if self.kind == "mixed":
            directions, widths = drawn_directions(self.seed, len(self.centers), self.units // 2, self.curved)
            drawn = directions, np.zeros(0), factors / widths
        else:
            columns = self.units // len(KINDS[self.kind].names)
            directions, phases = drawn_layer(self.kind, self.seed, len(self.centers), self.units, columns)
            # Phases are in units of exponents of two; only some kinds use them.
            drawn = directions, phases * np.float64(-_SQRT_2 * _LOG2_E * 2.0**-DEVIATE_BITS), factors
        self._hold("", centers, inverse_scales, *drawn)
        # The bound is a dozen deviations above the mean of such a sum, so no seed will ever fail.
        reach = float(np.abs(self._directions).sum(axis=0).max()) * KINDS[self.kind].reach
        assert reach < limits.EXACT_PRODUCT, "a projection may not be exact"
        object.__setattr__(self, "identity", hashlib.sha256(self.to_bytes()).hexdigest())

    def _hold(self, identity: str, *arrays: Floats) -> None:
        object.__setattr__(self, "identity", identity)
        names = ("_centers", "_inverse_scales", "_directions", "_biases", "_factors")
        for name, array in zip(names, arrays, strict=True):
            object.__setattr__(self, name, array)

    def _check(self) -> None:
        if not 1 <= whole(self.units, "feature_map.units") <= limits.FEATURES:
            raise DefinitionError(f"feature_map.units: expected 1 to {limits.FEATURES}, got {self.units!r}")
        names = KINDS[self.kind].names
        if self.units % len(names):
            expected = "an even number" if len(names) == 2 else f"a multiple of {len(names)}"
            raise DefinitionError(
                f"feature_map.units: expected {expected} ({' and '.join(f'a {name}' for name in names)} each), got"
                f" {self.units}"
            )
        if not 0 <= whole(self.seed, "feature_map.seed") < SEEDS:
            raise DefinitionError(f"feature_map.seed: expected a whole number from 0 to 2**63 - 1, got {self.seed!r}")
        if not SIGMA_SMALLEST <= number(self.sigma, "feature_map.sigma") <= SIGMA_LARGEST:
            raise DefinitionError(
                f"feature_map.sigma: expected a number from {SIGMA_SMALLEST:g} to {SIGMA_LARGEST:g}, got {self.sigma!r}"
            )
        if not 1 <= len(self.centers) <= limits.FEATURES or len(self.centers) != len(self.scales):
            raise DefinitionError(
                f"feature_map: expected one center and one scale a feature, for 1 to {limits.FEATURES} features,"
                f" got {len(self.centers)} centers and {len(self.scales)} scales"
            )
        for j, center in enumerate(self.centers):
            if not abs(whole(center, "feature_map.centers")) < limits.GRID_RANGE:
                raise DefinitionError(
                    f"feature_map.centers: expected whole numbers of grid steps below 2**30 in magnitude,"
                    f" got {center!r} for feature {j}"
                )
        for j, scale in enumerate(self.scales):
            if not SCALE_SMALLEST <= number(scale, "feature_map.scales") <= SCALE_LARGEST:
                raise DefinitionError(
                    f"feature_map.scales: expected numbers of grid steps from {SCALE_SMALLEST:g} to"
                    f" {SCALE_LARGEST:g}, got {scale!r} for feature {j}"
                )

    def _check_curved(self) -> None:
        if self.curved and not KINDS[self.kind].beside:
            raise DefinitionError(f"feature_map.curved: kind {self.kind!r} looks at all features; leave it out")
        places = [whole(place, "feature_map.curved") for place in self.curved]
        if places != sorted(set(places)) or (places and not 0 <= places[0] <= places[-1] < len(self.centers)):
            raise DefinitionError(
                f"feature_map.curved: expected different places from 0 to {len(self.centers) - 1} in ascending order,"
                f" got {places[:20]}"
            )

    # As a function ---------------------------------------------------------------------------------------------------

    @property
    def beside(self) -> int:
        """The number of the row's own features before the mapped ones: d or 0."""
        return len(self.centers) if self.kind != "none" and KINDS[self.kind].beside else 0

    def width(self, features: int) -> int:
        """The number of features of a mapped row, for rows of d = ``features``."""
        return features if self.kind == "none" else self.beside + self.units

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """The names of the mapped features, given those of the features."""
        if self.kind == "none":
            return tuple(features)
        names = KINDS[self.kind].names
        numbers = range(self.units // len(names))
        if not self.beside:
            return tuple(f"{name}_{unit}" for name in names for unit in numbers)
        mapped = [f"{name}_{unit}" for unit in numbers for name in names]
        # A feature of the row may have such a name, and names must differ.
        while not set(mapped).isdisjoint(features):
            mapped = [f"mapped_{name}" for name in mapped]
        return (*features, *mapped)

    def grid(self, grid: Grid) -> Grid:
        """The grid of mapped rows, given that of the rows: mapped values are q·2**-20, own features keep their grid."""
        if self.kind == "none":
            return grid
        steps, offsets = np.full(self.units, STEP), np.zeros(self.units)
        if not self.beside:
            return Grid(steps, offsets)
        return Grid(np.append(grid.steps, steps), np.append(grid.offsets, offsets), grid.range_bits)

    def pieces(self, rows: int) -> Iterator[slice]:
        """Spans of ``rows`` rows whose mapped values may be held at once; one span if nothing is mapped."""
        most = rows if self.kind == "none" else limits.MAPPED_ENTRIES // self.width(0)
        return (slice(start, min(start + most, rows)) for start in range(0, rows, max(1, most)))

    def inputs(self, rows: Floats, mapped: Quantized) -> Floats:
        """The inputs of a plane, float64[n, D-1], for rows float64[n, d] with missing values filled in.

        ``mapped``: the grid rows that :meth:`apply` gives for them. Mapped values are exact. The row's own features, if
        the plane uses them, are the raw values.
        """
        if self.kind == "none":
            return rows
        values: Floats = np.multiply(mapped[:, self.beside :], STEP, dtype=np.float64)
        return np.hstack([rows, values]) if self.beside else values

    def apply(self, quantized: Quantized, units: int | None = None) -> Quantized:
        """Grid rows [n, width], with mapped values ``|q| <= 2**20``, of grid rows [n, d] (integers, ``|q| < 2**45``).

        Kind ``none`` returns the rows themselves. For kind ``mixed``, only the first ``units`` may be asked for. The
        work space is bounded for every n.
        """
        if self.kind == "none" or units == 0:
            return quantized
        assert quantized.ndim == 2, "a feature map takes rows [n, d]"
        assert quantized.shape[1] == len(self.centers), "rows and feature map have different numbers of features"
        units = self.units if units is None else units
        assert units == self.units or self.beside, "the first units of a map with none beside were asked for"
        mapped = np.empty((len(quantized), self.beside + units), dtype=quantized.dtype if self.beside else np.int32)
        mapped[:, : self.beside] = quantized[:, : self.beside]
        directions = self._directions[:, : units * self._directions.shape[1] // self.units]
        rows = max(1, _BLOCK_ENTRIES // directions.shape[1])
        for start in range(0, len(quantized), _PRODUCT_ROWS):
            block = mapped[start : start + _PRODUCT_ROWS, self.beside :]
            projected = self._standardised(quantized[start : start + _PRODUCT_ROWS]) @ directions
            for first in range(0, len(block), rows):
                self._bend(projected[first : first + rows], block[first : first + rows])
        return mapped

    def _standardised(self, quantized: Quantized) -> Floats:
        """Grid rows [n, d] less the centers, in units of 2**-20 scales: integers as float64[n, d], clipped."""
        values: Floats = np.subtract(quantized, self._centers, dtype=np.float64)
        values *= self._inverse_scales
        np.rint(values, out=values)
        reach = KINDS[self.kind].reach
        np.minimum(values, reach, out=values)
        np.maximum(values, -reach, out=values)
        return values

    def _bend(self, projected: Floats, mapped: Int32s) -> None:
        """Write the mapped values of exact projections float64[n, k], overwritten, into grid rows int32[n, units]."""
        projected *= self._factors[: projected.shape[1]] if self._factors.ndim else self._factors
        KINDS[self.kind].bend(projected, self._biases, mapped)

    # As plain values and as bytes ------------------------------------------------------------------------------------

    def constants(self) -> dict[str, Any]:
        """All numbers of the function as plain values, to compute it without this package.

        ``projections`` are integers, d rows of k; only some kinds have ``phases``. ``formula`` says how they are used.
        """
        if self.kind == "none":
            return {"kind": "none", "formula": "the raw features, missing ones filled in"}
        kind = KINDS[self.kind]
        return {
            "kind": self.kind,
            "units": self.units,
            "seed": self.seed,
            "sigma": self.sigma,
            "identity": self.identity,
            "centers": list(self.centers),
            "inverse_scales": self._inverse_scales.tolist(),
            "reach": int(kind.reach),
            "projections": self._directions.astype(np.int64).tolist(),
            "factor": self._factors.tolist(),
            **({"phases": self._biases.tolist(), "exponent_reach": EXPONENT_REACH} if kind.phased else {}),
            "polynomial": list(kind.polynomial),
            "step": STEP,
            "formula": kind.formula,
        }

    def to_bytes(self) -> bytes:
        """The canonical bytes of which :attr:`identity` is the hash: settings, drawn numbers, images of fixed rows."""
        drawn = [self._directions.astype("<i4"), self._biases.astype("<f8")]
        settings = {
            "kind": self.kind,
            "units": self.units,
            "seed": self.seed,
            "sigma": self.sigma.hex(),
            "centers": list(self.centers),
            "scales": [scale.hex() for scale in self.scales],
            **({"curved": list(self.curved)} if self.curved else {}),
            "drawn": [hashlib.sha256(array.tobytes()).hexdigest() for array in drawn],
            "probe": hashlib.sha256(self.apply(self._probe()).astype("<i4").tobytes()).hexdigest(),
        }
        return canonical_json(settings).encode()

    def _probe(self) -> Int32s:
        """Fixed rows int32[n, d] at all distances from the centers, whose images differ if machines do."""
        bits = words("probe", _PROBE_ROWS * len(self.centers)).reshape(_PROBE_ROWS, -1)
        distances = (bits >> np.arange(33, 33 + _PROBE_ROWS, dtype=np.uint64)[:, None]).astype(np.int64)
        distances *= 1 - 2 * (bits & np.uint64(1)).astype(np.int64)
        largest = limits.GRID_RANGE - 1
        return np.clip(np.array(self.centers) + distances, -largest, largest).astype(np.int32)


NO_MAP = FeatureMap()
"""The map that changes nothing."""
