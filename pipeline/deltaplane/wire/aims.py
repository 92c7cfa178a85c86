"""What is asked for, on the wire: histograms of scores around a delta, and around a model what is known of them.

Streams that ask for the G-mean have neither, and their messages are what they always were.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionError, WireError
from deltaplane.log.model import Model
from deltaplane.solve.aims import Aim
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.score_histograms import BINS, EDGES, SCORE_BYTES, ScoreHistory
from deltaplane.wire.frame import Fields, header, read_record, write_record
from deltaplane.wire.parts import check_name

__all__ = ["aimed_fields", "read_aimed", "read_tallied", "with_aim", "with_scores", "write_aimed", "write_tallied"]


def write_tallied(prequential_counts: PrequentialCounts | None, message: bytes) -> bytes:
    """The message of a delta, in the company of the scores that its trials have."""
    if prequential_counts is None or not prequential_counts.scores:
        return message
    targets = [
        {"target": target, "scores": scores.astype("<i8", copy=False).tobytes()}
        for target, scores in prequential_counts.scores.items()
    ]
    return write_record("tallied", {"targets": targets, "message": message})


def read_tallied(data: bytes | None) -> tuple[bytes | None, list[Fields] | None]:
    """(message, targets) of a message that may be in the company of scores; None if it is not."""
    if data is None or not data.startswith(header("tallied")):
        return data, None
    _, fields = read_record(data, ("tallied",))
    return fields["message"], fields["targets"]


def with_scores(prequential_counts: PrequentialCounts | None, targets: list[Fields] | None) -> PrequentialCounts | None:
    """The trials of a delta with the scores that came with it. Raises :class:`WireError` for what cannot be."""
    if targets is None:
        return prequential_counts
    _check_targets("tallied", targets, [] if prequential_counts is None else list(prequential_counts.rows))
    assert prequential_counts is not None, "scores of no trials are refused above"
    scores = {}
    for part in targets:
        windows, choices = prequential_counts.rows[part["target"]].shape[:2]
        _check_bytes("tallied", part, "scores", (windows * choices + 1) * SCORE_BYTES)
        counts = np.frombuffer(part["scores"], dtype="<i8").reshape(-1, 2, BINS).astype(np.int64)
        if (counts < 0).any() or (counts > limits.COUNT).any():
            raise WireError(
                f"tallied: expected scores of class {part['target']!r} with counts from 0 to {limits.COUNT}, got others"
            )
        scores[part["target"]] = counts
    return replace(prequential_counts, scores=scores)


def write_aimed(aim: Aim | None, message: bytes) -> bytes:
    """The message of a model, with what it was weighed for if that is not the G-mean."""
    return message if aim is None else write_record("aimed", {**aimed_fields(aim), "message": message})


def aimed_fields(aim: Aim) -> Fields:
    """The fields of an ``Aimed`` record but for its message."""
    targets = [
        {
            "target": target,
            "units": history.units.astype("<f8", copy=False).tobytes(),
            "counts": history.counts.astype("<f8", copy=False).tobytes(),
            "threshold": history.threshold,
        }
        for target, history in aim.of.items()
    ]
    plain = {"milliseconds": aim.milliseconds, "watermark": aim.watermark, "unmet": aim.unmet}
    return {"objective": str(aim.objective), **plain, "targets": targets}


def read_aimed(data: bytes | None) -> tuple[bytes | None, Fields | None]:
    """(message, fields) of a message that may be in the company of what a model was weighed for; None if it is not."""
    if data is None or not data.startswith(header("aimed")):
        return data, None
    _, fields = read_record(data, ("aimed",))
    return fields["message"], fields


def with_aim(model: Model, fields: Fields | None) -> Model:
    """A model with what it was weighed for. Raises :class:`WireError` for what cannot be."""
    if fields is None:
        return model
    blend = model.blend
    _check_targets("aimed", fields["targets"], [] if blend is None else list(blend.of))
    assert blend is not None, "an aim without candidates is refused above"
    try:
        objective = Objective.parse(fields["objective"])
    except DefinitionError as fault:
        raise WireError(f"aimed: expected an objective of this version, got another ({fault})") from fault
    if objective == GMEAN or not (math.isfinite(fields["milliseconds"]) and fields["milliseconds"] >= 0.0):
        raise WireError(
            f"aimed: expected another objective than gmean and 0 milliseconds or more, got {objective} and"
            f" {fields['milliseconds']}"
        )
    if fields["unmet"] is not None:
        check_name("aimed", "a reason", fields["unmet"], 4 * limits.REASON_CHARACTERS)
    of = {}
    for part in fields["targets"]:
        target = part["target"]
        windows, choices = blend.of[target].exist.shape
        _check_bytes("aimed", part, "units", windows * choices * 16)
        _check_bytes("aimed", part, "counts", (windows * choices + 1) * SCORE_BYTES)
        units = np.frombuffer(part["units"], dtype="<f8").reshape(windows, choices, 2).astype(np.float64)
        counts = np.frombuffer(part["counts"], dtype="<f8").reshape(-1, 2, BINS).astype(np.float64)
        there = units[blend.of[target].exist]
        if not (np.isfinite(there).all() and (there[:, 1] > 0.0).all() and part["threshold"] in EDGES):
            raise WireError(f"aimed: expected finite units and a threshold at an edge for class {target!r}, got others")
        if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
            raise WireError(f"aimed: expected counts of class {target!r} of at least 0, got others")
        of[target] = ScoreHistory(units, counts, part["threshold"])
    aim = Aim(objective, of, fields["milliseconds"], fields["watermark"], fields["unmet"])
    return replace(model, blend=replace(blend, aim=aim))


def _check_targets(name: str, targets: list[Fields], expected: list[str]) -> None:
    found = [part["target"] for part in targets]
    if not expected or sorted(found) != sorted(expected):
        raise WireError(
            f"{name}: expected scores of the candidates for {expected[:20] or 'no class'}, got {found[:20]};"
            " another than a worker or a merger made it"
        )


def _check_bytes(name: str, part: Fields, column: str, expected: int) -> None:
    if len(part[column]) != expected:
        raise WireError(f"{name}: expected {column} of {expected} bytes, got {len(part[column])}")
