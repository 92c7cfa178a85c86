"""The rows and labels of an estimator's calls, as the exact statistics need them: rows on the grid, labels as texts.

The statistics are keyed by texts, as in a stream, so that an estimator and a stream that have seen the same rows have
the same digest. Labels of scikit-learn have any type; each is converted to its text in samples, and the original is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Int32s, Labels, Quantized, Steps
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError, RowsRefused
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.exact.triangle import layout_of
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.solve.cross_validation import folds_of
from deltaplane.solve.decision_values import decision_values
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window

__all__ = [
    "Labelled",
    "RefusedRow",
    "RowSpace",
    "RowsLeftOut",
    "impossible",
    "needs_no_checks",
    "positive_number",
    "several",
    "signs",
    "text_of",
]


_NEAR = 1024
"""Labels that are whole numbers, and less than this apart, are counted."""


class RowsLeftOut(UserWarning):
    """A warning that some rows of a call were left out; ``refused_rows_`` has each with its reason."""


@dataclass(frozen=True)
class RefusedRow:
    """A row that was left out: its index ``row`` in the call, from 0, and the reason."""

    row: int
    reason: str


def positive_number(name: str, value: object) -> float:
    """The parameter as a float. Raises :class:`DefinitionError` if it is not a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
        raise DefinitionError(f"{name}: expected a finite number above zero, got {value!r}")
    return float(value)


def several(classes: Labels) -> Labels:
    """The classes [k]. Raises ValueError, in the words that scikit-learn expects, if there are fewer than two."""
    if len(classes) < 2:
        raise ValueError(f"expected at least two classes, got one class: {list(classes)}; give more rows")
    return classes


def signs(labels: Labels, classes: Labels) -> Floats:
    """Targets ±1: float64[n, 1] for two classes (+1 for the second), else float64[n, k], one against the rest.

    Raises :class:`RowsRefused` if a label is not one of the classes.
    """
    if strangers := set(np.unique(labels).tolist()) - set(classes.tolist()):
        raise RowsRefused(f"labels: expected the classes of the first call, {list(classes)}, got {sorted(strangers)}")
    columns = classes[1:] if len(classes) == 2 else classes
    return np.where(labels[:, None] == columns, 1.0, -1.0)


def text_of(label: Any) -> str:
    """The text of a label; a whole number is written without a point, as an integer and as a float."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def needs_no_checks(X: Any, y: Any, features: int) -> bool:
    """Whether scikit-learn's checks would return rows and labels of a later call, of ``features``, as they are.

    The checks take longer than learning a few hundred rows. They would look for NaN and infinity, too; this does not.
    """
    return (
        type(X) is type(y) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and y.ndim == 1
        and y.dtype.kind in "biuSU"
        and 0 < len(X) == len(y)
        and X.shape[1] == features
    )


def _distinct(y: Labels) -> tuple[Labels, Labels]:
    """(the distinct labels, sorted; the position of each label of [n] among them), as ``np.unique`` finds them.

    Whole numbers near each other are counted, which takes a tenth of the time of sorting them.
    """
    if y.dtype.kind in "iu" and y.ndim == 1 and len(y):
        least, most = y.min(), y.max()
        if int(most) - int(least) < min(len(y), _NEAR):
            # Of numbers this near each other the difference is right, whatever the type wraps at.
            places = y.astype(np.int64) - least.astype(np.int64)
            present = np.bincount(places) > 0
            values = [int(least) + place for place in np.flatnonzero(present).tolist()]
            return np.array(values, dtype=y.dtype), (present.cumsum() - 1)[places]
    distinct, codes = np.unique(y, return_inverse=True)
    return distinct, codes


@dataclass(frozen=True)
class Labelled:
    """Labels of n rows: ``codes`` int32[n] index the distinct ``texts``; ``labels``: text to original label."""

    codes: Int32s
    texts: list[str]
    labels: dict[str, Any]

    @classmethod
    def of(cls, y: Labels) -> Labelled:
        """The labels ``y`` [n] of a call. Raises :class:`RowsRefused` if two different labels have the same text."""
        distinct, codes = _distinct(y)
        texts = [text_of(label) for label in distinct]
        if len(set(texts)) != len(texts):
            raise RowsRefused(f"labels: expected labels that differ as texts, got {list(distinct)}; rename some")
        return cls(codes.astype(np.int32).reshape(-1), texts, dict(zip(texts, distinct, strict=True)))

    def between(self, part: slice) -> Labelled:
        """The labels of consecutive rows, without labels that none of them has."""
        if part == slice(0, len(self.codes)):
            return self
        rows = np.zeros(len(self.codes), dtype=np.bool_)
        rows[part] = True
        return self.at(rows)

    def at(self, rows: Flags) -> Labelled:
        """The labels of some of the rows, bool[n], without labels that none of them has."""
        used, codes = _distinct(self.codes[rows])
        texts = [self.texts[code] for code in used.tolist()]
        return Labelled(codes.astype(np.int32).reshape(-1), texts, {text: self.labels[text] for text in texts})


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The settings that two estimators must share for their statistics to be comparable.

    They are features by name, grid, feature map, columns and folds. ``folds`` is 1 if C is given. ``encoder``: makes
    features of the columns of tables; None if rows are numbers. ``fingerprint``: covers all but the folds, and is that
    of a stream with the same settings. ``mapped_grid``: the grid of the Gram matrices, and so of the plane.
    """

    names: tuple[str, ...]
    grid: Grid
    folds: int
    feature_map: FeatureMap = NO_MAP
    encoder: Encoder | None = None
    fingerprint: bytes = field(init=False, repr=False)
    mapped_grid: Grid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        everything = NestedWindows((Window("all"),))
        definition = StreamDefinition(
            "estimator",
            self.names,
            self.grid,
            everything,
            SolverOptions(),
            feature_map=self.feature_map,
            columns=self.encoder,
        )
        object.__setattr__(self, "fingerprint", definition.data_fingerprint)
        object.__setattr__(self, "mapped_grid", definition.plane_grid)

    def quantize(self, rows: Floats) -> tuple[Steps, Flags]:
        """Grid rows [n, d] of raw rows float64[n, d], and bool[n]: which fit; the grid rows of others mean nothing."""
        return self.grid.quantize(rows)

    def faults(self, rows: Floats, fits: Flags) -> list[RefusedRow]:
        """The raw rows of float64[n, d] that do not fit, with reasons; ``fits`` bool[n] is as from :meth:`quantize`."""
        if fits.all():
            return []
        outside = np.flatnonzero(~fits)
        reasons = self.grid.faults(rows[outside], self.names)
        return [RefusedRow(row, reason) for row, reason in zip(outside.tolist(), reasons, strict=True)]

    def decisions(self, rows: Floats, coef: Floats, intercept: Floats) -> Floats:
        """``φ(x)·coef + intercept`` float64[n, p] of raw rows float64[n, d], added in the order of a stream's answers.

        Rows may lie outside the grid. Without a map they are not rounded. A map is a function of the grid integers, and
        clips values that are far out.
        """
        if self.feature_map.kind == "none":
            return decision_values(rows, coef, -intercept)
        quantized, fits = self.quantize(rows)
        if not fits.all():
            # A map clips distances at 1024 scales, far within the wide range, so clipping here changes nothing.
            wide, reach = replace(self.grid, range_bits=limits.WIDE_RANGE_BITS), self.grid.steps * limits.WIDE_RANGE / 2
            quantized = wide.quantize(np.clip(rows, self.grid.offsets - reach, self.grid.offsets + reach))[0]
        decisions = np.empty((len(rows), len(intercept)))
        for piece in self.feature_map.pieces(len(rows)):
            values = self.feature_map.inputs(rows[piece], self.feature_map.apply(quantized[piece]))
            decisions[piece] = decision_values(values, coef, -intercept)
        return decisions

    def statistics(self, quantized: Quantized, labelled: Labelled) -> Statistics:
        """Exact Gram matrices, keyed by (fold, label), of grid rows [n, d]; the fold is that of the unmapped row."""
        total = self.nothing()
        keys = [(fold, label) for fold in range(self.folds) for label in labelled.texts]
        for piece in self.feature_map.pieces(len(quantized)):
            rows, codes = quantized[piece], labelled.codes[piece]
            if self.folds > 1:
                codes = (folds_of(rows, self.folds) * len(labelled.texts) + codes).astype(np.int32)
            total = total + Statistics(total.dimension, moments_by_class(self.feature_map.apply(rows), codes, keys))
        return total

    def nothing(self) -> Statistics:
        """The statistics of no rows."""
        return Statistics(self.mapped_grid.features + 1)

    def total(self, statistics: Statistics) -> dict[str, Moments]:
        """Label to exact Gram matrix over all folds, labels sorted."""
        total: dict[str, Moments] = {}
        for (_, label), moments in statistics.items():
            total[label] = total[label] + moments if label in total else moments
        return dict(sorted(total.items()))

    def by_fold(self, statistics: Statistics) -> list[Mapping[str, Moments]]:
        """Label to exact Gram matrix, for each fold."""
        return [statistics.grams(fold) for fold in range(self.folds)]

    def digest(self, statistics: Statistics) -> str:
        """The digest of all rows: folds are not in it, so it is that of a stream with a window over everything."""
        total = {(0, label): moments for label, moments in self.total(statistics).items()}
        return Statistics(self.mapped_grid.features + 1, total).digest(self.fingerprint)


def impossible(statistics: Statistics, touched: Statistics) -> str | None:
    """The reason why ``statistics`` cannot be those of any rows, or None. Only classes in ``touched`` are checked.

    The reason is a number of rows that is not above zero, or a sum of squares smaller than the sum of the values allows
    (Cauchy-Schwarz). If rows are removed that were never in, the statistics may pass: sums do not remember their terms.
    """
    grams, changed = dict(statistics.items()), dict(touched.items())
    for key in sorted(grams.keys() & changed.keys()):
        moments, label = grams[key], key[1]
        if moments.count <= 0:
            return f"class {label!r} would have sums over {moments.count} rows"
        layout = layout_of(moments.dimension)
        squares, sums = moments.integers(layout.diagonal), moments.integers(layout.last)
        for feature, wrong in enumerate(squares * moments.count < sums * sums):
            if wrong:
                return f"the sum of squares of feature {feature} in class {label!r} would be less than any rows have"
    return None
