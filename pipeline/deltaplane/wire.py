"""Bytes on the topics: Avro single-object encoding of the records in ``deltaplane_schemas``.

A message is two marker bytes, the 8-byte fingerprint of its schema, and the record. A decoder is told which records it
may meet and raises :class:`WireError` with what came instead for anything else, trailing bytes included; it never
allocates more than a small multiple of the message.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import deltaplane_schemas
import fastavro
import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.delta import Claim, Delta, Rebuild, Source, SourceState, Tile
from deltaplane.errors import DefinitionMismatch, DeltaplaneError, WireError
from deltaplane.metrics import Confusion
from deltaplane.model import Model, SourcePosition
from deltaplane.moments import Moments
from deltaplane.sample import Retirement, Samples
from deltaplane.solver import Plane, SolverOptions
from deltaplane.statistics import Statistics

Fields: TypeAlias = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Checkpoint:
    """A source's state, and the first offset of its deltas partition that is not in it."""

    state: SourceState
    next_offset: int
    stream_fingerprint: bytes


@dataclass(frozen=True)
class Query:
    """A raw row float64[d] to be classified."""

    id: str
    features: Floats
    data_fingerprint: bytes


@dataclass(frozen=True)
class Prediction:
    """The answer to the query at (topic, partition, offset)."""

    id: str
    predicted: str
    decisions: Mapping[str, float]
    model_version: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Receipt:
    """What became of the retirement at ``offset`` of a source's retirements log; see ``receipt.avsc``."""

    stream_fingerprint: bytes
    id: str
    outcome: str
    source: Source
    offset: int
    sequence: int
    samples_to: int
    retirements_to: int
    digest_before: str
    digest_after: str


@dataclass(frozen=True)
class DeadLetter:
    """A record, or one row of a batch, that was refused: where it came from, why, and how it began."""

    topic: str
    partition: int
    offset: int
    row: int | None
    kind: str
    reason: str
    key: bytes | None
    value: bytes | None
    size: int


def _single_object_header(schema: Fields) -> bytes:
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


_RAW: dict[str, Fields] = {name: deltaplane_schemas.load(name) for name in deltaplane_schemas.NAMES}
_HEADERS = {name: _single_object_header(schema) for name, schema in _RAW.items()}
_PARSED: dict[str, Any] = {name: fastavro.parse_schema(schema) for name, schema in _RAW.items()}
_NAME_OF_HEADER = {header: name for name, header in _HEADERS.items()}
HEADER_BYTES = 10


def _write(name: str, fields: Fields) -> bytes:
    out = io.BytesIO()
    out.write(_HEADERS[name])
    fastavro.schemaless_writer(out, _PARSED[name], fields)
    return out.getvalue()


def read(data: bytes | None, allowed: Iterable[str]) -> tuple[str, Fields]:
    """(schema name, fields) of a message that may be one of ``allowed``. Raises :class:`WireError` on anything else."""
    allowed = tuple(allowed)
    expected = " or ".join(allowed)
    if data is None:
        raise WireError(f"message: expected {expected}, got a null value; publish the record itself")
    if len(data) > limits.MESSAGE_BYTES:
        raise WireError(f"message: expected at most {limits.MESSAGE_BYTES} bytes, got {len(data)}; send smaller batches")
    name = _NAME_OF_HEADER.get(data[:HEADER_BYTES])
    if name is None:
        raise WireError(
            f"message: expected {expected} in Avro single-object encoding, got {len(data)} bytes beginning"
            f" {data[:HEADER_BYTES].hex() or '(empty)'}; encode with the schemas of this version"
        )
    if name not in allowed:
        raise WireError(f"message: expected {expected}, got {name}; it was published to the wrong topic")
    stream = io.BytesIO(data)
    stream.seek(HEADER_BYTES)
    try:
        fields = fastavro.schemaless_reader(stream, _PARSED[name], None)
    except DeltaplaneError:
        raise
    except Exception as fault:
        # The reader raises whatever its C code runs into: end of data, bad UTF-8, an index out of range.
        raise WireError(f"{name}: {len(data)} bytes do not decode ({type(fault).__name__}: {fault}); re-publish it") from fault
    if stream.tell() != len(data):
        raise WireError(f"{name}: expected {stream.tell()} bytes, got {len(data)}; bytes were appended to the record")
    if not isinstance(fields, dict):
        raise WireError(f"{name}: expected a record, got {type(fields).__name__}")
    return name, fields


# Samples -------------------------------------------------------------------------------------------------------------


def write_sample(sample_id: str, event_time: int, label: str, features: Iterable[float], data_fingerprint: bytes) -> bytes:
    """One ``Sample`` message; ``event_time`` in milliseconds since the epoch, ``features`` d raw values."""
    return _write(
        "sample",
        {"fingerprint": data_fingerprint, "id": sample_id, "event_time": event_time, "label": label, "features": list(features)},
    )


def write_sample_batch(samples: Samples, data_fingerprint: bytes, feature_type: Literal["float32", "float64"] = "float64") -> bytes:
    """One ``SampleBatch`` message of n rows; offsets and log times are not written, the log gives them."""
    ids = [sample_id.encode() for sample_id in samples.ids]
    return _write(
        "sample_batch",
        {
            "fingerprint": data_fingerprint,
            "rows": len(ids),
            "id_lengths": np.fromiter(map(len, ids), dtype="<u2", count=len(ids)).tobytes(),
            "ids": b"".join(ids),
            "event_times": samples.event_times.astype("<i8").tobytes(),
            "labels": list(samples.label_table),
            "label_codes": samples.label_codes.astype("<u2").tobytes(),
            "feature_type": feature_type,
            "features": samples.features.astype("<f4" if feature_type == "float32" else "<f8").tobytes(),
        },
    )


def read_samples(data: bytes | None, features: int, data_fingerprint: bytes, offset: int, log_time: int) -> Samples:
    """The rows of a ``Sample`` or ``SampleBatch`` message that lies at ``offset`` and was appended at ``log_time`` ms.

    Raises :class:`WireError` where it does not decode or its columns disagree, :class:`DefinitionMismatch` where it was
    made for another stream definition.
    """
    name, fields = read(data, ("sample_batch", "sample"))
    _check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    if name == "sample":
        values = np.array([fields["features"]], dtype=np.float64)
        if values.shape != (1, features):
            raise WireError(f"sample: expected {features} features, got {values.shape[1]}; send them in the definition's order")
        return Samples(
            ids=[fields["id"]],
            event_times=np.array([fields["event_time"]], dtype=np.int64),
            label_table=(fields["label"],),
            label_codes=np.zeros(1, dtype=np.int32),
            features=values,
            offsets=np.array([offset], dtype=np.int64),
            rows=np.zeros(1, dtype=np.int64),
            log_times=np.array([log_time], dtype=np.int64),
        )
    rows = fields["rows"]
    if not 1 <= rows <= limits.BATCH_ROWS:
        raise WireError(f"sample_batch: expected 1 to {limits.BATCH_ROWS} rows, got {rows}; split the batch")
    kind = "<f4" if fields["feature_type"] == "float32" else "<f8"
    codes = _column(fields, "label_codes", "<u2", rows).astype(np.int32)
    table = tuple(fields["labels"])
    if int(codes.max()) >= len(table):
        raise WireError(f"sample_batch: label code {int(codes.max())} points beyond the {len(table)} labels sent")
    return Samples(
        ids=_ids(fields, rows),
        event_times=_column(fields, "event_times", "<i8", rows).astype(np.int64),
        label_table=table,
        label_codes=codes,
        features=_column(fields, "features", kind, rows * features).astype(np.float64).reshape(rows, features),
        offsets=np.full(rows, offset, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, log_time, dtype=np.int64),
    )


def _column(fields: Fields, name: str, kind: str, items: int) -> npt.NDArray[Any]:
    data = fields[name]
    expected = items * np.dtype(kind).itemsize
    if len(data) != expected:
        raise WireError(f"sample_batch: expected {expected} bytes of {name} ({items} x {kind}), got {len(data)}")
    return np.frombuffer(data, dtype=kind)


def _ids(fields: Fields, rows: int) -> list[str]:
    ends = np.cumsum(_column(fields, "id_lengths", "<u2", rows), dtype=np.int64).tolist()
    data: bytes = fields["ids"]
    if ends[-1] != len(data):
        raise WireError(f"sample_batch: the id lengths add up to {ends[-1]} bytes, got {len(data)} bytes of ids")
    starts = [0, *ends[:-1]]
    try:
        if data.isascii():
            text = data.decode("ascii")
            return [text[start:end] for start, end in zip(starts, ends, strict=True)]
        return [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    except UnicodeDecodeError as fault:
        raise WireError(f"sample_batch: an id is not UTF-8 ({fault}); encode ids as UTF-8") from fault


def _check_fingerprint(name: str, came: bytes, expected: bytes) -> None:
    if came != expected:
        raise DefinitionMismatch(
            f"{name}: expected stream definition {expected.hex()}, got {came.hex()}; give every process the same definition"
        )


# Retirements ---------------------------------------------------------------------------------------------------------


def write_retirement(retirement: Retirement, data_fingerprint: bytes) -> bytes:
    """One ``Retirement`` message; its offset is not written, the log gives it."""
    features = None if retirement.features is None else list(retirement.features)
    return _write(
        "retirement",
        {
            "fingerprint": data_fingerprint,
            "id": retirement.id,
            "reason": retirement.reason,
            "time": retirement.time,
            "label": retirement.label,
            "features": features,
        },
    )


def read_retirement(data: bytes | None, features: int, data_fingerprint: bytes, offset: int) -> Retirement:
    """The ``Retirement`` that lies at ``offset``. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    _, fields = read(data, ("retirement",))
    _check_fingerprint("retirement", fields["fingerprint"], data_fingerprint)
    size = len(fields["id"].encode())
    if not 1 <= size <= limits.ID_BYTES:
        raise WireError(f"retirement: expected an id of 1 to {limits.ID_BYTES} bytes, got {size}")
    values = fields["features"]
    if values is not None and len(values) != features:
        raise WireError(f"retirement: expected {features} features, got {len(values)}; send them in the definition's order")
    return Retirement(
        id=fields["id"],
        reason=fields["reason"],
        offset=offset,
        time=fields["time"],
        label=fields["label"],
        features=None if values is None else tuple(values),
    )


# Claims, deltas, checkpoints -----------------------------------------------------------------------------------------


def write_claim(claim: Claim) -> bytes:
    """One ``Claim`` message."""
    return _write("claim", {**_source_fields(claim.source, claim.stream_fingerprint), "writer": claim.writer})


def write_delta(delta: Delta) -> bytes:
    """One ``Delta`` message."""
    return _write(
        "delta",
        {
            **_source_fields(delta.source, delta.stream_fingerprint),
            **vars(delta.tile),
            **vars(delta.rebuild),
            "writer": delta.writer,
            "dimension": delta.change.dimension,
            "change": _change_fields(delta.change),
            "scored_by": delta.scored_by,
            "scores": _score_fields(delta.scores),
            "counts": delta.counts,
        },
    )


def read_claim_or_delta(data: bytes | None, dimension: int) -> Claim | Delta:
    """The ``Claim`` or ``Delta`` of a message, for statistics of D = ``dimension``. Raises :class:`WireError`."""
    name, fields = read(data, ("delta", "claim"))
    source = Source(fields["site"], fields["partition"])
    if name == "claim":
        return Claim(source, fields["writer"], fields["stream_fingerprint"])
    return Delta(
        source=source,
        writer=fields["writer"],
        stream_fingerprint=fields["stream_fingerprint"],
        tile=Tile(*(fields[key] for key in Tile.__dataclass_fields__)),
        rebuild=_rebuild(fields),
        change=_statistics(name, fields, "change", dimension),
        scores=_scores(fields),
        scored_by=fields["scored_by"],
        counts=fields["counts"],
    )


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """One ``Checkpoint`` message."""
    state = checkpoint.state
    return _write(
        "checkpoint",
        {
            **_source_fields(state.source, checkpoint.stream_fingerprint),
            **vars(state.rebuild),
            "owner": state.owner,
            "sequence": state.sequence,
            "samples_position": state.samples_position,
            "retirements_position": state.retirements_position,
            "dimension": state.statistics.dimension,
            "statistics": _change_fields(state.statistics),
            "scores": _score_fields(state.scores),
            "counts": state.counts,
            "dropped": state.dropped,
            "next_offset": checkpoint.next_offset,
        },
    )


def read_checkpoint(data: bytes | None, dimension: int) -> Checkpoint:
    """The ``Checkpoint`` of a message. Raises :class:`WireError`."""
    name, fields = read(data, ("checkpoint",))
    state = SourceState(
        source=Source(fields["site"], fields["partition"]),
        statistics=_statistics(name, fields, "statistics", dimension),
        owner=fields["owner"],
        sequence=fields["sequence"],
        samples_position=fields["samples_position"],
        retirements_position=fields["retirements_position"],
        rebuild=_rebuild(fields),
        scores=_scores(fields),
        counts=fields["counts"],
        dropped=fields["dropped"],
    )
    return Checkpoint(state, fields["next_offset"], fields["stream_fingerprint"])


def _source_fields(source: Source, stream_fingerprint: bytes) -> Fields:
    return {"stream_fingerprint": stream_fingerprint, "site": source.site, "partition": source.partition}


def _rebuild(fields: Fields) -> Rebuild:
    return Rebuild(*(fields[key] for key in Rebuild.__dataclass_fields__))


def _change_fields(statistics: Statistics) -> list[Fields]:
    return [
        {"window": window, "class": label, "entries": moments.to_narrow_bytes() or moments.to_bytes()}
        for (window, label), moments in statistics.items()
    ]


def _statistics(name: str, fields: Fields, key: str, dimension: int) -> Statistics:
    if fields["dimension"] != dimension:
        raise WireError(f"{name}: expected statistics of dimension {dimension}, got {fields['dimension']}")
    try:
        moments = {(part["window"], part["class"]): Moments.from_bytes(dimension, part["entries"]) for part in fields[key]}
    except ValueError as fault:
        raise WireError(f"{name}: {fault}") from fault
    if len(moments) != len(fields[key]):
        raise WireError(f"{name}: a class of a window is there twice")
    return Statistics(dimension, moments)


def _score_fields(scores: Confusion) -> list[Fields]:
    return [{"truth": truth, "predicted": predicted, "count": count} for (truth, predicted), count in scores.counts.items()]


def _scores(fields: Fields) -> Confusion:
    return Confusion({(cell["truth"], cell["predicted"]): cell["count"] for cell in fields["scores"]})


# Models --------------------------------------------------------------------------------------------------------------


def write_model(model: Model) -> bytes:
    """One ``Model`` message."""
    weighting = model.options.weighting
    return _write(
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
            "standardize": model.options.standardize,
            "bias": model.options.bias,
            "digest": model.digest,
            "watermark": model.watermark,
            "counts": model.counts,
            "positions": [
                {
                    "site": position.source.site,
                    "partition": position.source.partition,
                    "sequence": position.sequence,
                    "samples": position.samples,
                    "retirements": position.retirements,
                    "watermark": position.watermark,
                }
                for position in model.positions
            ],
            "scores": _score_fields(model.scores),
            "totals": model.totals,
            "C": model.options.C,
        },
    )


def read_model(data: bytes | None) -> Model:
    """The ``Model`` of a message. Raises :class:`WireError`."""
    _, fields = read(data, ("model",))
    weighting = fields["weighting"]
    try:
        options = SolverOptions(
            kind=fields["kind"],
            weighting=json.loads(weighting) if weighting.startswith("{") else weighting,
            C=fields["C"],
            standardize=fields["standardize"],
            bias=fields["bias"],
        )
        plane = None if fields["plane"] is None else _plane(fields["plane"])
    except (ValueError, DeltaplaneError) as fault:
        raise WireError(f"model: {fault}") from fault
    return Model(
        version=fields["version"],
        stream_fingerprint=fields["stream_fingerprint"],
        data_fingerprint=fields["data_fingerprint"],
        created=fields["created"],
        plane=plane,
        plane_version=fields["plane_version"],
        refusal=fields["refusal"],
        options=options,
        digest=fields["digest"],
        counts=fields["counts"],
        positions=tuple(
            SourcePosition(
                Source(item["site"], item["partition"]), item["sequence"], item["samples"], item["retirements"], item["watermark"]
            )
            for item in fields["positions"]
        ),
        scores=_scores(fields),
        totals=fields["totals"],
        watermark=fields["watermark"],
    )


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
    biases = np.frombuffer(fields["biases"], dtype="<f8").astype(np.float64)
    expected = 1 if fields["positive"] is not None else len(fields["classes"])
    if len(biases) != expected:
        raise WireError(f"model: expected {expected} biases for {len(fields['classes'])} classes, got {len(biases)}")
    return Plane(
        classes=tuple(fields["classes"]),
        positive=fields["positive"],
        weights=np.frombuffer(fields["weights"], dtype="<f8").astype(np.float64).reshape(len(biases), -1),
        biases=biases,
        sigmas=fields["sigmas"],
        C=fields["C"],
        condition=fields["condition"],
        counts=fields["counts"],
    )


# Queries, predictions, receipts, dead letters ------------------------------------------------------------------------


def write_query(query: Query) -> bytes:
    """One ``Query`` message."""
    return _write("query", {"fingerprint": query.data_fingerprint, "id": query.id, "features": query.features.tolist()})


def read_query(data: bytes | None, features: int, data_fingerprint: bytes) -> Query:
    """The ``Query`` of a message. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    _, fields = read(data, ("query",))
    _check_fingerprint("query", fields["fingerprint"], data_fingerprint)
    if len(fields["features"]) != features:
        raise WireError(f"query: expected {features} features, got {len(fields['features'])}")
    return Query(fields["id"], np.array(fields["features"], dtype=np.float64), fields["fingerprint"])


def write_prediction(prediction: Prediction) -> bytes:
    """One ``Prediction`` message."""
    fields = dict(vars(prediction))
    fields["class"] = fields.pop("predicted")
    return _write("prediction", fields)


def read_prediction(data: bytes | None) -> Prediction:
    """The ``Prediction`` of a message. Raises :class:`WireError`."""
    _, fields = read(data, ("prediction",))
    fields["predicted"] = fields.pop("class")
    return Prediction(**fields)


def write_receipt(receipt: Receipt) -> bytes:
    """One ``Receipt`` message."""
    fields = {**vars(receipt), **_source_fields(receipt.source, receipt.stream_fingerprint)}
    del fields["source"]
    return _write("receipt", fields)


def read_receipt(data: bytes | None) -> Receipt:
    """The ``Receipt`` of a message. Raises :class:`WireError`."""
    _, fields = read(data, ("receipt",))
    return Receipt(source=Source(fields.pop("site"), fields.pop("partition")), **fields)


def write_dead_letter(letter: DeadLetter) -> bytes:
    """One ``DeadLetter`` message."""
    return _write("dead_letter", vars(letter))


def read_dead_letter(data: bytes | None) -> DeadLetter:
    """The ``DeadLetter`` of a message. Raises :class:`WireError`."""
    return DeadLetter(**read(data, ("dead_letter",))[1])
