"""The automatic mode on the wire: prequential counts in deltas, candidates in models.

Arrays are written as they lie in memory, little-endian. Their shapes follow from the number of choices and from the
lengths in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.errors import WireError
from deltaplane.solve.candidates import THRESHOLDS, Blend, Candidates
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.wire.frame import Fields

__all__ = ["blend_fields", "blend_of", "prequential_counts_fields", "prequential_counts_of"]


_CURVED = ", curved"
"""What is behind the weighting of curved candidates beside flat ones. Streams of early versions have none."""


def prequential_counts_fields(prequential_counts: PrequentialCounts | None) -> Fields | None:
    """The fields of a ``Trials`` record, or None."""
    if prequential_counts is None:
        return None
    targets = [
        {
            "target": target,
            "hits": prequential_counts.hits[target].astype("<i8", copy=False).tobytes(),
            "rows": prequential_counts.rows[target].astype("<i8", copy=False).tobytes(),
        }
        for target in prequential_counts.rows
    ]
    return {"choices": _choice_fields(prequential_counts.choices), "targets": targets}


def prequential_counts_of(fields: Fields | None) -> PrequentialCounts | None:
    """The counts that :func:`prequential_counts_fields` wrote. Raises :class:`WireError` for impossible ones."""
    if fields is None:
        return None
    choices, hits, rows = _choices("delta", fields), {}, {}
    windows = _windows("delta", fields["targets"], "rows", len(choices) * 2)
    for part in fields["targets"]:
        target = part["target"]
        hits[target] = _array("delta", part, "hits", "<i8", (windows, len(choices), len(THRESHOLDS), 2)).astype(
            np.int64
        )
        rows[target] = _array("delta", part, "rows", "<i8", (windows, len(choices), 2)).astype(np.int64)
        if (hits[target] < 0).any() or (hits[target] > rows[target][:, :, None, :]).any():
            raise WireError(f"delta: expected trials of class {target!r} with at most as many hits as rows, got others")
        if (rows[target] > limits.COUNT).any():
            raise WireError(
                f"delta: expected trials of class {target!r} with at most {limits.COUNT} rows, got {rows[target].max()}"
            )
    _check_once("delta", fields["targets"])
    return PrequentialCounts(choices, hits, rows)


def blend_fields(blend: Blend | None) -> Fields | None:
    """The fields of a ``Blend`` record, or None."""
    if blend is None:
        return None
    columns = ("weights", "biases", "hits", "rows", "shares")
    targets: list[Fields] = [
        {"target": target} | {name: getattr(candidates, name).astype("<f8", copy=False).tobytes() for name in columns}
        for target, candidates in blend.of.items()
    ]
    return {"choices": _choice_fields(blend.choices), "targets": targets}


def blend_of(fields: Fields | None) -> Blend | None:
    """The blend that :func:`blend_fields` wrote. Raises :class:`WireError` for candidates that are impossible."""
    if fields is None:
        return None
    choices = _choices("model", fields)
    windows = _windows("model", fields["targets"], "rows", len(choices) * 2)
    shape, of = (windows, len(choices)), {}
    for part in fields["targets"]:
        features, rest = divmod(len(part["weights"]), 8 * math.prod(shape))
        if rest:
            raise WireError(
                f"model: expected weights of {math.prod(shape)} candidates, got {len(part['weights'])} bytes"
            )
        candidates = Candidates(
            weights=_array("model", part, "weights", "<f8", (*shape, features)).astype(np.float64),
            biases=_array("model", part, "biases", "<f8", (*shape, len(THRESHOLDS))).astype(np.float64),
            hits=_array("model", part, "hits", "<f8", (*shape, len(THRESHOLDS), 2)).astype(np.float64),
            rows=_array("model", part, "rows", "<f8", (*shape, 2)).astype(np.float64),
            shares=_array("model", part, "shares", "<f8", (*shape, len(THRESHOLDS))).astype(np.float64),
        )
        _check_candidates(part["target"], candidates)
        of[part["target"]] = candidates
    _check_once("model", fields["targets"])
    if not any(candidates.exist.any() for candidates in of.values()):
        raise WireError("model: expected a blend of one plane or more, got none; publish a model that was solved")
    return Blend(choices, of)


def _check_candidates(target: str, candidates: Candidates) -> None:
    exist = candidates.exist
    planes = np.concatenate([candidates.weights, candidates.biases], axis=-1)
    counted = (candidates.hits, candidates.rows, candidates.shares)
    if not np.isfinite(planes[exist]).all() or not all(np.isfinite(a).all() and (a >= 0).all() for a in counted):
        raise WireError(
            f"model: expected candidates of class {target!r} with finite planes, and counts and shares of at least 0,"
            " got others; publish a model that was solved"
        )


def _choice_fields(choices: Iterable[Choice]) -> list[Fields]:
    return [{"C": choice.C, "weighting": choice.weighting + _CURVED * choice.curved} for choice in choices]


def _choices(name: str, fields: Fields) -> tuple[Choice, ...]:
    choices = tuple(
        Choice(one["C"], one["weighting"].removesuffix(_CURVED), one["weighting"].endswith(_CURVED))
        for one in fields["choices"]
    )
    most = limits.CANDIDATES_OF_A_WINDOW
    if not 1 <= len(choices) <= most or not all(0.0 < choice.C < math.inf for choice in choices):
        raise WireError(f"{name}: expected 1 to {most} choices with a C above zero, got {choices[:20]}")
    return choices


def _windows(name: str, targets: list[Fields], column: str, numbers: int) -> int:
    """The number of windows, from the length of one array of each target.

    ``numbers`` is how many numbers the array ``column`` has for each window. Raises :class:`WireError` if the lengths
    differ between targets, or give no whole number of windows from 1 to :data:`limits.WINDOWS`.
    """
    sizes = {len(part[column]) for part in targets} or {8 * numbers}
    windows, rest = divmod(min(sizes), 8 * numbers)
    if len(sizes) > 1 or rest or not 1 <= windows <= limits.WINDOWS:
        raise WireError(
            f"{name}: expected {column} of 1 to {limits.WINDOWS} windows, {8 * numbers} bytes each, got {sorted(sizes)}"
        )
    return windows


def _array(name: str, part: Fields, column: str, kind: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if len(part[column]) != 8 * math.prod(shape):
        raise WireError(f"{name}: expected {column} of {8 * math.prod(shape)} bytes, got {len(part[column])}")
    return np.frombuffer(part[column], dtype=kind).reshape(shape)


def _check_once(name: str, targets: list[Fields]) -> None:
    labels = [part["target"] for part in targets]
    if len(set(labels)) < len(labels):
        raise WireError(f"{name}: expected candidates of different classes, got {labels[:20]}")
