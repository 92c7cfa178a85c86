"""Models on the wire: the live classifier, with all that is needed to check it."""

from __future__ import annotations

import functools
import json
import math

import numpy as np

from deltaplane.errors import DefinitionError, WireError
from deltaplane.log.model import Model, SourcePosition
from deltaplane.solve.candidates import Blend
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.wire.aims import read_aimed, with_aim, write_aimed
from deltaplane.wire.blends import blend_fields, blend_of
from deltaplane.wire.calibrations import read_calibrated, with_calibration, write_calibrated
from deltaplane.wire.frame import Fields, read_record, write_record
from deltaplane.wire.parts import check_positions, score_fields, scores_of, source_fields, source_of

__all__ = ["read_model", "write_model"]


def write_model(model: Model) -> bytes:
    """One ``Model`` message, in an ``Aimed`` if something else than the G-mean is asked for.

    That is in a ``Calibrated`` if the model has a calibration.
    """
    weighting = model.options.weighting
    message = write_record(
        "model",
        {
            "stream_fingerprint": model.stream_fingerprint,
            "data_fingerprint": model.data_fingerprint,
            "version": model.version,
            "created": model.created,
            "plane": None if model.plane is None else _plane_fields(model.plane),
            "plane_version": model.plane_version,
            "refusal": model.refusal,
            "kind": model.options.kind,
            "weighting": weighting if isinstance(weighting, str) else json.dumps(dict(weighting), sort_keys=True),
            "C": model.options.C,
            "standardize": model.options.standardize,
            "bias": model.options.bias,
            "digest": model.digest,
            "watermark": model.watermark,
            "counts": model.counts,
            "positions": [_position_fields(position) for position in model.positions],
            "scores": score_fields(model.scores),
            "totals": model.totals,
            "blend": blend_fields(model.blend),
        },
    )
    return write_calibrated(model, write_aimed(None if model.blend is None else model.blend.aim, message))


def read_model(data: bytes | None) -> Model:
    """The ``Model`` of a message. Raises :class:`WireError`."""
    data, calibrated = read_calibrated(data)
    data, aimed = read_aimed(data)
    name, fields = read_record(data, ("model",))
    check_positions(name, fields, ("plane_version", "version"))
    plane = None if fields["plane"] is None else _plane(fields["plane"])
    blend = blend_of(fields["blend"])
    _check_features(plane, blend)
    model = Model(
        version=fields["version"],
        stream_fingerprint=fields["stream_fingerprint"],
        data_fingerprint=fields["data_fingerprint"],
        created=fields["created"],
        plane=plane,
        plane_version=fields["plane_version"],
        refusal=fields["refusal"],
        options=_options(fields),
        digest_of=functools.partial(str, fields["digest"]),
        counts=fields["counts"],
        positions=tuple(_position(name, part) for part in fields["positions"]),
        scores=scores_of(name, fields),
        totals=fields["totals"],
        watermark=fields["watermark"],
        blend=blend,
    )
    return with_calibration(with_aim(model, aimed), calibrated)


def _check_features(plane: Plane | None, blend: Blend | None) -> None:
    """Raise :class:`WireError` if a plane and the candidates that it is made of have different numbers of features."""
    candidates = () if blend is None else blend.of.values()
    features = {one.weights.shape[-1] for one in candidates} | (set() if plane is None else {plane.weights.shape[1]})
    if len(features) > 1:
        raise WireError(f"model: expected a plane and candidates over the same features, got {sorted(features)}")


def _options(fields: Fields) -> SolverOptions:
    weighting = fields["weighting"]
    try:
        return SolverOptions(
            kind=fields["kind"],
            # Explicit weights are written as a JSON object; no name of another weighting begins like one.
            weighting=json.loads(weighting) if weighting.startswith("{") else weighting,
            C=fields["C"],
            standardize=fields["standardize"],
            bias=fields["bias"],
        )
    except (ValueError, OverflowError, RecursionError, DefinitionError) as fault:
        raise WireError(f"model: expected solver options of this version, got others ({fault})") from fault


def _position_fields(position: SourcePosition) -> Fields:
    return {
        **source_fields(position.source),
        "sequence": position.sequence,
        "samples": position.samples,
        "retirements": position.retirements,
        "watermark": position.watermark,
        "owner": position.owner,
        "read_to": position.read_to,
        "barred": position.removed,
    }


def _position(name: str, fields: Fields) -> SourcePosition:
    check_positions(name, fields, ("sequence",), ("samples",), ("retirements",), ("read_to",))
    columns = ("sequence", "samples", "retirements", "watermark", "owner", "read_to", "barred")
    return SourcePosition(source_of(name, fields), *(fields[column] for column in columns))


def _plane_fields(plane: Plane) -> Fields:
    return {
        "classes": list(plane.classes),
        "positive": plane.positive,
        "weights": plane.weights.astype("<f8", copy=False).tobytes(),
        "biases": plane.biases.astype("<f8", copy=False).tobytes(),
        "sigmas": plane.sigmas,
        "C": plane.C,
        "condition": plane.condition,
        "counts": plane.counts,
    }


def _plane(fields: Fields) -> Plane:
    """The plane of decoded fields. Raises :class:`WireError` if it cannot be predicted with."""
    classes, positive = tuple(fields["classes"]), fields["positive"]
    if len(classes) < 2 or list(classes) != sorted(set(classes)):
        raise WireError(f"model: expected two or more different classes in sorted order, got {list(classes)}")
    if positive is not None and (len(classes) != 2 or positive not in classes):
        raise WireError(f"model: expected two classes, {positive!r} and another, got {list(classes)}")
    planes = len(classes) if positive is None else 1
    if len(fields["biases"]) != 8 * planes or len(fields["weights"]) % (8 * planes):
        raise WireError(
            f"model: expected {planes} planes as float64, got {len(fields['biases'])} bytes of biases"
            f" and {len(fields['weights'])} of weights"
        )
    weights = np.frombuffer(fields["weights"], dtype="<f8").astype(np.float64).reshape(planes, -1)
    biases = np.frombuffer(fields["biases"], dtype="<f8").astype(np.float64)
    if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
        raise WireError("model: expected finite weights and biases, got others; publish a model that was solved")
    if not (math.isfinite(fields["C"]) and all(map(math.isfinite, fields["sigmas"].values()))):
        raise WireError("model: expected a finite C and finite class weights, got others; publish one that was solved")
    return Plane(
        classes=classes,
        positive=positive,
        weights=weights,
        biases=biases,
        sigmas=fields["sigmas"],
        C=fields["C"],
        condition=fields["condition"],
        counts=fields["counts"],
    )
