"""What comes into a stream from outside: samples, retirements, queries. Anyone may have written them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s
from deltaplane.errors import LimitExceeded, WireError
from deltaplane.log.records import Query
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire.frame import Fields, check_fingerprint, header, read_record, write_record
from deltaplane.wire.singles import SingleSamples, encoded_bytes, encoded_long, encoded_sample

__all__ = [
    "FINGERPRINT_BYTES",
    "query_id",
    "read_query",
    "read_retirement",
    "read_samples",
    "single_samples",
    "write_query",
    "write_retirement",
    "write_sample",
    "write_sample_batch",
]

_COLUMN_TYPES: dict[str, str] = {"float32": "<f4", "float64": "<f8"}
_FEATURE_TYPES = tuple(_COLUMN_TYPES)
"""In the order of the schema."""

_LARGEST_UINT16 = 2**16 - 1
FINGERPRINT_BYTES = 16

# Samples -------------------------------------------------------------------------------------------------------------


def write_sample(
    sample_id: str, event_time: int, label: str, features: Iterable[float], data_fingerprint: bytes
) -> bytes:
    """One ``Sample`` message; ``event_time`` in milliseconds since the epoch, ``features`` d raw values."""
    values = list(features)
    try:
        message = encoded_sample(header("sample") + data_fingerprint, sample_id, event_time, label, values)
    except (AttributeError, OverflowError, TypeError, UnicodeEncodeError, struct.error):
        message = b""
    if len(data_fingerprint) == FINGERPRINT_BYTES and 0 < len(message) <= limits.MESSAGE_BYTES:
        return message
    # The general encoder says what is wrong, or knows better.
    fields = {
        "fingerprint": data_fingerprint,
        "id": sample_id,
        "event_time": event_time,
        "label": label,
        "features": values,
    }
    return write_record("sample", fields)


def single_samples(features: int, data_fingerprint: bytes) -> SingleSamples:
    """Gathers ``Sample`` messages of d = ``features``; what it does not take, :func:`read_samples` reads or refuses."""
    return SingleSamples(header("sample") + data_fingerprint, features)


def write_sample_batch(
    samples: Samples, data_fingerprint: bytes, feature_type: Literal["float32", "float64"] = "float64"
) -> bytes:
    """One ``SampleBatch`` message of n rows; offsets and log times are not written, the log gives them.

    Raises :class:`WireError` for what a batch cannot hold: too many rows or labels, an id too long, a feature value
    that is finite but not in float32.
    """
    rows = len(samples)
    if not 1 <= rows <= limits.BATCH_ROWS:
        raise WireError(f"sample_batch: expected 1 to {limits.BATCH_ROWS} rows, got {rows}; split the batch")
    if len(data_fingerprint) != FINGERPRINT_BYTES:
        raise WireError(
            f"sample_batch: expected a fingerprint of {FINGERPRINT_BYTES} bytes, got {len(data_fingerprint)};"
            " take the definition's data fingerprint"
        )
    assert len(samples.features) == len(samples.event_times) == len(samples.label_codes) == rows, "columns differ"
    lengths, ids = _joined(samples.ids)
    # The general encoder copies every byte several times, and the features are nearly all of the message.
    labels = [part for label in samples.label_table for part in encoded_bytes(_label(label))]
    message = b"".join(
        (
            header("sample_batch"),
            data_fingerprint,
            encoded_long(rows),
            *encoded_bytes(lengths),
            *encoded_bytes(ids),
            *encoded_bytes(samples.event_times.astype("<i8", copy=False).tobytes()),
            encoded_long(len(samples.label_table)),
            *labels,
            b"\0",
            *encoded_bytes(_label_codes(samples)),
            encoded_long(_FEATURE_TYPES.index(feature_type)),
            *encoded_bytes(np.ascontiguousarray(_narrowed(samples, feature_type)).reshape(-1).view(np.uint8).data),
        )
    )
    if len(message) > limits.MESSAGE_BYTES:
        raise LimitExceeded(
            f"sample_batch: expected at most {limits.MESSAGE_BYTES:,} bytes, got {len(message):,}; send smaller batches"
        )
    return message


def _label(label: str) -> bytes:
    try:
        return label.encode()
    except UnicodeEncodeError as fault:
        raise WireError(f"sample_batch: a label is not a Unicode text ({fault.reason}); use another label") from fault


def _joined(ids: Sequence[str]) -> tuple[bytes, bytes]:
    """The lengths of ids in bytes as n uint16, and the ids one after the other."""
    text = "".join(ids)
    try:
        # Where all are ASCII, lengths are the same in characters and in bytes.
        parts: Sequence[str | bytes] = ids if text.isascii() else [sample_id.encode() for sample_id in ids]
        data = text.encode()
    except UnicodeEncodeError as fault:
        raise WireError(f"sample_batch: an id is not a Unicode text ({fault.reason}); use another id") from fault
    lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    if lengths.max() > limits.BATCH_ID_BYTES:
        at = int(lengths.argmax())
        raise WireError(
            f"sample_batch: expected ids of at most {limits.ID_BYTES} bytes, got {lengths[at]} in row {at}"
            f" ({ids[at][:50]!r}...); shorten it"
        )
    return lengths.astype("<u2").tobytes(), data


def _label_codes(samples: Samples) -> bytes:
    codes, labels = samples.label_codes, len(samples.label_table)
    if int(codes.min()) < 0 or int(codes.max()) >= labels:
        raise WireError(
            f"sample_batch: expected label codes from 0 to {labels - 1}, got {codes.min()} to {codes.max()};"
            " a code is a place in label_table"
        )
    if int(codes.max()) > _LARGEST_UINT16:
        raise WireError(f"sample_batch: expected at most {_LARGEST_UINT16 + 1} labels, got {labels}; split the batch")
    return codes.astype("<u2").tobytes()


def _narrowed(samples: Samples, feature_type: str) -> npt.NDArray[np.float32 | np.float64]:
    """The features float32[n, d] or float64[n, d], little-endian."""
    with np.errstate(over="ignore", invalid="ignore"):
        features = samples.features.astype(_COLUMN_TYPES[feature_type], copy=False)
    if feature_type == "float32":
        infinite = np.isinf(features)
        if infinite.any() and (lost := infinite & np.isfinite(samples.features)).any():
            row, feature = (int(at) for at in np.argwhere(lost)[0])
            raise WireError(
                f"sample_batch: feature {feature} of row {row} is {samples.features[row, feature]!r}, beyond float32;"
                " write the batch as float64"
            )
    return features


def read_samples(data: bytes | None, features: int, data_fingerprint: bytes, offset: int, log_time: int) -> Samples:
    """The rows of a ``Sample`` or ``SampleBatch`` message at ``offset``, appended at ``log_time`` milliseconds.

    Raises :class:`WireError` where it does not decode or its columns disagree, :class:`DefinitionMismatch` where it was
    made for another stream definition.
    """
    name, fields = read_record(data, ("sample_batch", "sample"))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    if name == "sample":
        return _single(fields, features, offset, log_time)
    rows = fields["rows"]
    if not 1 <= rows <= limits.BATCH_ROWS:
        raise WireError(f"sample_batch: expected 1 to {limits.BATCH_ROWS} rows, got {rows}; split the batch")
    codes = _column(fields, "label_codes", "<u2", rows).astype(np.int32)
    table = tuple(fields["labels"])
    if int(codes.max()) >= len(table):
        raise WireError(f"sample_batch: label code {int(codes.max())} points beyond the {len(table)} labels sent")
    if len(table) > rows + limits.CLASSES:
        table, codes = _met(table, codes)
    return Samples(
        ids=_ids(fields, rows),
        event_times=_column(fields, "event_times", "<i8", rows).astype(np.int64),
        label_table=table,
        label_codes=codes,
        features=_features(fields, rows, features),
        offsets=np.full(rows, offset, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, log_time, dtype=np.int64),
    )


def _met(table: tuple[str, ...], codes: Int32s) -> tuple[tuple[str, ...], Int32s]:
    """The labels that rows have, and the codes int32[n] that point to these.

    Batches wait beside each other until all of a poll are decoded. Labels that nobody has need not wait with them.
    """
    met, places = np.unique(codes, return_inverse=True)
    return tuple(table[code] for code in met.tolist()), places.astype(np.int32)


def _single(fields: Fields, features: int, offset: int, log_time: int) -> Samples:
    values = _values("sample", fields["features"], features)
    return Samples(
        ids=[fields["id"]],
        event_times=np.array([fields["event_time"]], dtype=np.int64),
        label_table=(fields["label"],),
        label_codes=np.zeros(1, dtype=np.int32),
        features=values[None, :],
        offsets=np.array([offset], dtype=np.int64),
        rows=np.zeros(1, dtype=np.int64),
        log_times=np.array([log_time], dtype=np.int64),
    )


def _values(name: str, values: Sequence[float], features: int) -> Floats:
    """float64[d] of an array of double."""
    if len(values) != features:
        raise WireError(f"{name}: expected {features} features, got {len(values)}; send them in the definition's order")
    return np.array(values, dtype=np.float64)


def _features(fields: Fields, rows: int, features: int) -> Floats:
    """float64[n, d]; not copied where the bytes are float64 already, since nobody writes into a decoded batch."""
    column = _column(fields, "features", _COLUMN_TYPES[fields["feature_type"]], rows * features)
    with np.errstate(invalid="ignore"):  # A signalling NaN becomes a quiet one.
        return column.reshape(rows, features).astype(np.float64, copy=False)


def _column(fields: Fields, name: str, kind: str, items: int) -> npt.NDArray[Any]:
    data = fields[name]
    expected = items * np.dtype(kind).itemsize
    if len(data) != expected:
        raise WireError(f"sample_batch: expected {expected} bytes of {name} ({items} x {kind}), got {len(data)}")
    return np.frombuffer(data, dtype=kind)


def _ids(fields: Fields, rows: int) -> list[str]:
    lengths = _column(fields, "id_lengths", "<u2", rows)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    data: bytes = fields["ids"]
    if ends[-1] != len(data):
        raise WireError(f"sample_batch: the id lengths add up to {ends[-1]} bytes, got {len(data)} bytes of ids")
    starts = [0, *ends[:-1]]
    try:
        if data.isascii():
            text = data.decode("ascii")
            length = int(lengths[0])
            # Texts of one length are cut at a third of the cost; an array, though, would drop zeros at their ends.
            if length and ends[-1] == rows * length and "\0" not in text and (lengths == length).all():
                cut: list[str] = np.array([text]).view(f"U{length}").tolist()
                return cut
            return [text[start:end] for start, end in zip(starts, ends, strict=True)]
        return [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    except UnicodeDecodeError as fault:
        raise WireError(f"sample_batch: an id is not UTF-8 ({fault}); encode ids as UTF-8") from fault


# Retirements ---------------------------------------------------------------------------------------------------------


def write_retirement(retirement: Retirement, data_fingerprint: bytes) -> bytes:
    """One ``Retirement`` message; its offset is not written, the log gives it."""
    message = write_record(
        "retirement",
        {
            "fingerprint": data_fingerprint,
            "id": retirement.id,
            "reason": retirement.reason,
            "time": retirement.time,
            "label": None,
            "features": None,
        },
    )
    _check_retired_id(retirement.id)
    return message


def read_retirement(data: bytes | None, features: int, data_fingerprint: bytes, offset: int) -> Retirement:
    """The ``Retirement`` that lies at ``offset``. Raises :class:`WireError` and :class:`DefinitionMismatch`.

    Of the content that earlier versions could retire by, only the number of features is looked at: a record that was
    refused for it must be refused whenever the log is read again.
    """
    name, fields = read_record(data, ("retirement",))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    _check_retired_id(fields["id"])
    if fields["features"] is not None:
        _values(name, fields["features"], features)
    return Retirement(fields["id"], fields["reason"], offset, fields["time"])


def _check_retired_id(sample_id: str) -> None:
    size = len(sample_id.encode())
    if not 1 <= size <= limits.ID_BYTES:
        raise WireError(f"retirement: expected an id of 1 to {limits.ID_BYTES} bytes, got {size}")


# Queries -------------------------------------------------------------------------------------------------------------


def write_query(query: Query) -> bytes:
    """One ``Query`` message."""
    fields = {"fingerprint": query.data_fingerprint, "id": query.id, "features": query.features.tolist()}
    return write_record("query", fields)


def read_query(data: bytes | None, features: int, data_fingerprint: bytes) -> Query:
    """The ``Query`` of a message. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    name, fields = read_record(data, ("query",))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    return Query(fields["id"], _values(name, fields["features"], features), fields["fingerprint"])


def query_id(data: bytes | None) -> str | None:
    """The id of the query that a message is, whatever else is wrong with it; None where it is no query at all."""
    try:
        sent: str = read_record(data, ("query",))[1]["id"]
    except WireError:
        return None
    return sent
