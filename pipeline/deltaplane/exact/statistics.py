"""The statistics of a stream: one exact Gram matrix for each (window, class), and their digest.

Nothing of the solver is in here: class weights, regularisation and standardisation enter only when a plane is solved,
so the same statistics answer every question that a linear proximal SVM can be asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Codes, Quantized
from deltaplane.errors import StateMismatch
from deltaplane.exact.moments import Moments

__all__ = ["Dimensions", "Key", "Statistics", "added", "moments_by_class", "moments_of_pieces", "without"]

Key = tuple[int, str]
"""(index of the window among the stream's nested windows, class label)."""

Dimensions = int | tuple[int, ...]
"""D of the Gram matrices of all windows, or of each if they differ; the largest is that of the statistics."""

K = TypeVar("K", Key, str)


class Statistics:
    """A sparse vector of :class:`Moments` keyed by (window, class); a value that adds and subtracts exactly.

    ``dimension`` is the D of all windows, or the largest: short windows may have the statistics of fewer features.
    Gram matrices that are all 0 are left out, so that a class that has gone equals one that never came.
    """

    __slots__ = ("_moments", "dimension")

    def __init__(self, dimension: int, moments: Mapping[Key, Moments] | None = None) -> None:
        self.dimension = dimension
        of_windows = {(window, part.dimension) for (window, _), part in (moments or {}).items()}
        assert all(one <= dimension for _, one in of_windows), "statistics of other features"
        assert len(dict(of_windows)) == len(of_windows), "statistics of other features in one window"
        self._moments = {key: value for key, value in (moments or {}).items() if value}

    @classmethod
    def _of_nonzero(cls, dimension: int, moments: dict[Key, Moments]) -> Statistics:
        """The statistics of moments of which the caller knows that none is 0, so that they are not checked again."""
        result = cls(dimension)
        result._moments = moments
        return result

    def __add__(self, other: Statistics) -> Statistics:
        assert self.dimension == other.dimension, "statistics of different features were added"
        return Statistics._of_nonzero(self.dimension, added(self._moments, other._moments))

    def __sub__(self, other: Statistics) -> Statistics:
        assert self.dimension == other.dimension, "statistics of different features were subtracted"
        return Statistics._of_nonzero(self.dimension, without(self._moments, other._moments))

    def __eq__(self, other: object) -> bool:
        """Bitwise equality of every integer."""
        if not isinstance(other, Statistics):
            return NotImplemented
        return self.dimension == other.dimension and self._moments == other._moments

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._moments)

    def __len__(self) -> int:
        """The number of Gram matrices that are not zero."""
        return len(self._moments)

    def __repr__(self) -> str:
        return f"Statistics({ {key: value.count for key, value in self.items()} })"

    @property
    def nbytes(self) -> int:
        """The memory that all Gram matrices take, in bytes."""
        return sum(moments.nbytes for moments in self._moments.values())

    def items(self) -> Iterator[tuple[Key, Moments]]:
        """((window, class), moments) in sorted order."""
        return iter(sorted(self._moments.items()))

    def grams(self, window: int = 0) -> dict[str, Moments]:
        """Class label to exact Gram matrix in one window, labels sorted."""
        return {label: moments for (at, label), moments in self.items() if at == window}

    def counts(self, window: int = 0) -> dict[str, int]:
        """Class label to number of rows in one window, labels sorted."""
        return {label: moments.count for label, moments in self.grams(window).items()}

    def check_rows_exist(self, what: str, grid_range: int = limits.GRID_RANGE) -> None:
        """Raise :class:`StateMismatch` if no rows on a grid of this range can have the statistics of some class.

        A class must have at least one row, and sums that so many rows can have. ``what`` begins the message.
        """
        for (window, label), moments in self._moments.items():
            if not 0 < moments.count <= limits.COUNT:
                raise StateMismatch(
                    f"{what}: class {label!r} in window {window} has sums over {moments.count} rows,"
                    f" expected 1 to {limits.COUNT}; a row was taken out that never was in; rebuild from the log"
                )
            if not moments.within_grid(grid_range):
                raise StateMismatch(
                    f"{what}: class {label!r} in window {window} has sums that {moments.count} rows of values below"
                    f" 2**{grid_range.bit_length() - 1} cannot have; another than a worker made them; rebuild from the"
                    " log"
                )

    def digest(self, fingerprint: bytes) -> str:
        """SHA-256 of the statistics in hexadecimal, over canonical bytes: packed triangles by sorted window and class.

        ``fingerprint`` is that of features, grid and feature map. Equal live rows give equal digests, whatever the
        order, batching or partitioning. Window lengths, solver and partition settings are not part of it.
        """
        state = hashlib.sha256(b"deltaplane statistics 1\0")
        state.update(fingerprint)
        state.update(self.dimension.to_bytes(4, "little"))
        for (window, label), moments in self.items():
            name = label.encode()
            state.update(window.to_bytes(4, "little") + len(name).to_bytes(4, "little") + name)
            state.update(moments.to_bytes())
        return state.hexdigest()


def added(moments: Mapping[K, Moments], more: Mapping[K, Moments]) -> dict[K, Moments]:
    """The sums of two sets of Gram matrices, key by key; a sum that is 0 is left out."""
    result = dict(moments)
    for key, value in more.items():
        _put(result, key, result[key] + value if key in result else value)
    return result


def without(moments: Mapping[K, Moments], less: Mapping[K, Moments]) -> dict[K, Moments]:
    """The differences of two sets of Gram matrices, key by key; a difference that is 0 is left out."""
    result = dict(moments)
    for key, value in less.items():
        _put(result, key, result[key] - value if key in result else -value)
    return result


def _put(moments: dict[K, Moments], key: K, value: Moments) -> None:
    """Set the Gram matrix of a key, or take the key away if the matrix is 0."""
    if value:
        moments[key] = value
    else:
        moments.pop(key, None)


def moments_by_class(quantized: Quantized, codes: Codes, labels: Sequence[K]) -> dict[K, Moments]:
    """Class label to Gram matrix of grid rows [n, d].

    ``codes`` [n] are the positions of the rows' labels, or other keys, in ``labels``, which all differ.
    """
    if not len(codes):
        return {}
    counts = np.bincount(codes)
    present = np.flatnonzero(counts).tolist()
    if len(present) == 1:
        return {labels[present[0]]: Moments.of_rows(quantized)}
    # NumPy sorts integers of one or two bytes by counting, which takes a fifth of the time.
    order = np.argsort(codes.astype(np.min_scalar_type(len(counts)), copy=False), kind="stable")
    stops = counts.cumsum().tolist()
    return {
        labels[code]: Moments.of_rows(quantized, order[stops[code] - int(counts[code]) : stops[code]])
        for code in present
    }


def moments_of_pieces(
    pieces: Iterable[tuple[slice, Quantized]], codes: Codes, labels: Sequence[str]
) -> dict[str, Moments]:
    """As :func:`moments_by_class`, for a batch of n rows that comes in ``pieces``: (slice of the batch, its grid rows).

    ``codes`` [n] are those of the whole batch.
    """
    total: dict[str, Moments] = {}
    for piece, quantized in pieces:
        total = added(total, moments_by_class(quantized, codes[piece], labels))
    return total
