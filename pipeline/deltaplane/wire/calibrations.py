"""Calibration on the wire: around a delta the scores that it counts, around a model what is known of them.

Deltas that count no scores, and models without a calibration, are the messages that they always were.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.errors import WireError
from deltaplane.log.model import Model
from deltaplane.solve.calibration import MEMORIES, Calibration, Tallies
from deltaplane.solve.score_histograms import BINS, SCORE_BYTES
from deltaplane.wire.frame import Fields, header, read_record, write_record
from deltaplane.wire.parts import check_name

__all__ = ["read_binned", "read_calibrated", "tallies_of", "with_calibration", "write_binned", "write_calibrated"]


def write_binned(tallies: Tallies, message: bytes) -> bytes:
    """The message of a delta, in the company of the scores that it counts."""
    if not tallies.of:
        return message
    targets = [
        {"target": target, "counts": counts.astype("<i8", copy=False).tobytes()}
        for target, counts in tallies.of.items()
    ]
    return write_record("binned", {"targets": targets, "message": message})


def read_binned(data: bytes | None) -> tuple[bytes | None, list[Fields] | None]:
    """(message, targets) of a message that may be in the company of counted scores; None if it is not."""
    if data is None or not data.startswith(header("binned")):
        return data, None
    _, fields = read_record(data, ("binned",))
    return fields["message"], fields["targets"]


def tallies_of(targets: list[Fields] | None) -> Tallies:
    """The scores that came with a delta; empty if none did. Raises :class:`WireError` for what cannot be."""
    tallies: dict[str, Int64s] = {}
    if targets is None:
        return Tallies()
    _check_targets("binned", [part["target"] for part in targets])
    for part in targets:
        _check_bytes("binned", part, SCORE_BYTES)
        counts = np.frombuffer(part["counts"], dtype="<i8").reshape(2, BINS).astype(np.int64)
        if (counts < 0).any() or (counts > limits.COUNT).any():
            raise WireError(f"binned: expected counts of class {part['target']!r} from 0 to {limits.COUNT}, got others")
        tallies[part["target"]] = counts
    return Tallies(tallies)


def write_calibrated(model: Model, message: bytes) -> bytes:
    """The message of a model, with its calibration if it has one."""
    plane, calibration = model.plane, model.calibration
    if plane is None or plane.units is None or plane.means is None or calibration is None:
        return message
    targets = [
        {
            "target": target,
            "zero": zero,
            "one": one,
            "counts": calibration.of[target].astype("<f8", copy=False).tobytes(),
        }
        for target, (zero, one) in zip(plane.targets, plane.units.tolist(), strict=True)
    ]
    means = plane.means.astype("<f8", copy=False).tobytes()
    return write_record("calibrated", {"targets": targets, "means": means, "message": message})


def read_calibrated(data: bytes | None) -> tuple[bytes | None, Fields | None]:
    """(message, fields) of a message that may be in the company of a calibration; None if it is not."""
    if data is None or not data.startswith(header("calibrated")):
        return data, None
    _, fields = read_record(data, ("calibrated",))
    return fields["message"], fields


def with_calibration(model: Model, fields: Fields | None) -> Model:
    """A model with its calibration. Raises :class:`WireError` for what cannot be."""
    if fields is None:
        return model
    plane, targets = model.plane, fields["targets"]
    found, expected = [part["target"] for part in targets], () if plane is None else plane.targets
    if plane is None or tuple(found) != expected:
        raise WireError(
            f"calibrated: expected the planes of {list(expected)[:20] or 'no class'}, got {found[:20]}; another than a"
            " merger made it"
        )
    of = {}
    for part in targets:
        _check_bytes("calibrated", part, len(MEMORIES) * SCORE_BYTES)
        counts = np.frombuffer(part["counts"], dtype="<f8").reshape(len(MEMORIES), 2, BINS).astype(np.float64)
        if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
            raise WireError(f"calibrated: expected counts of class {part['target']!r} of at least 0, got others")
        of[part["target"]] = counts
    units = np.array([(part["zero"], part["one"]) for part in targets])
    if not (np.isfinite(units).all() and (units[:, 1] > 0.0).all()):
        raise WireError("calibrated: expected finite units above zero, got others; another than a merger made it")
    if len(fields["means"]) != 8 * plane.weights.shape[1]:
        raise WireError(
            f"calibrated: expected {plane.weights.shape[1]} means, got {len(fields['means'])} bytes of them"
        )
    means = np.frombuffer(fields["means"], dtype="<f8").astype(np.float64)
    if not np.isfinite(means).all():
        raise WireError("calibrated: expected finite means, got others; another than a merger made it")
    return replace(model, plane=replace(plane, units=units, means=means), calibration=Calibration(of))


def _check_targets(name: str, found: list[str]) -> None:
    if not 1 <= len(found) <= limits.CALIBRATED_CLASSES or len(set(found)) < len(found):
        raise WireError(
            f"{name}: expected scores of 1 to {limits.CALIBRATED_CLASSES} different classes, got {found[:20]}; another"
            " than a worker made it"
        )
    for target in found:
        check_name(name, "a class", target, limits.CLASS_BYTES)


def _check_bytes(name: str, part: Fields, expected: int) -> None:
    if len(part["counts"]) != expected:
        raise WireError(
            f"{name}: expected counts of class {part['target']!r} in {expected} bytes, got {len(part['counts'])}"
        )
