"""The records that come into a stream from outside: samples, retirements, queries. Anyone may have written them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import WireError
from deltaplane.log.records import NamedQuery, Query
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire.batch_rows import FINGERPRINT_BYTES, array_of, batch_message, head_parts, rows_of, samples_of
from deltaplane.wire.frame import Fields, check_fingerprint, header, read_record, write_record
from deltaplane.wire.named_rows import named_batch, one_named_sample
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
"""The names of the feature types, in the order of the schema's enum."""


# Samples -------------------------------------------------------------------------------------------------------------


def write_sample(
    sample_id: str, event_time: int, label: str, features: Iterable[float], data_fingerprint: bytes
) -> bytes:
    """One ``Sample`` message; ``event_time`` is in milliseconds since the epoch, ``features`` are d raw values.

    Raises :class:`WireError` if a field does not fit its type, and :class:`LimitExceeded` if the message is too long.
    """
    values = list(features)
    try:
        message = encoded_sample(header("sample") + data_fingerprint, sample_id, event_time, label, values)
    except (AttributeError, OverflowError, TypeError, UnicodeEncodeError, struct.error):
        message = b""
    if len(data_fingerprint) == FINGERPRINT_BYTES and 0 < len(message) <= limits.MESSAGE_BYTES:
        return message
    # The fast way does not take these fields: the general encoder writes them, or says what is wrong.
    fields = {
        "fingerprint": data_fingerprint,
        "id": sample_id,
        "event_time": event_time,
        "label": label,
        "features": values,
    }
    return write_record("sample", fields)


def single_samples(features: int, data_fingerprint: bytes) -> SingleSamples:
    """A gatherer of ``Sample`` messages of d = ``features``; what it does not take is left to :func:`read_samples`."""
    return SingleSamples(header("sample") + data_fingerprint, features)


def write_sample_batch(
    samples: Samples, data_fingerprint: bytes, feature_type: Literal["float32", "float64"] = "float64"
) -> bytes:
    """One ``SampleBatch`` message of n rows; offsets and log times are not written, since the log gives them.

    Raises :class:`WireError` for what a batch cannot hold: too many rows or labels, an id that is too long, a finite
    feature value that is infinite in float32. Raises :class:`LimitExceeded` if the message is too long.
    """
    # The features are nearly all of the message, and are copied only if their type changes.
    features = np.ascontiguousarray(_features_as(feature_type, samples)).reshape(-1).view(np.uint8).data
    parts = head_parts("sample_batch", samples, data_fingerprint)
    return batch_message(
        "sample_batch", [*parts, encoded_long(_FEATURE_TYPES.index(feature_type)), *encoded_bytes(features)]
    )


def _features_as(feature_type: str, samples: Samples) -> npt.NDArray[np.float32 | np.float64]:
    """The features float32[n, d] or float64[n, d], little-endian; raises :class:`WireError` beyond float32."""
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


def read_samples(
    data: bytes | None,
    features: int,
    data_fingerprint: bytes,
    offset: int,
    log_time: int,
    *,
    columns: Encoder | None = None,
) -> Samples:
    """The rows of a message of samples that lies at ``offset`` and was appended at ``log_time``, in milliseconds.

    ``features`` is d. ``columns`` is the definition's encoder for rows by name; if it is None, such rows are refused.
    Rows with a cell that cannot be read are among the ``unread`` of the result. Raises :class:`WireError` if the
    message does not decode or its columns do not fit each other, and :class:`DefinitionMismatch` if it was made under
    another stream definition.
    """
    name, fields = read_record(data, _forms(data, ("sample_batch", "sample"), by_name=columns is not None))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    if name == "sample":
        return _single(fields, features, offset, log_time)
    if columns is not None and name == "named_sample":
        return one_named_sample(fields, columns, (offset, log_time))
    if columns is not None and name == "named_sample_batch":
        return named_batch(fields, columns, (offset, log_time))
    rows = rows_of(name, fields["rows"])
    return samples_of(name, fields, _features(fields, rows, features), (offset, log_time))


def _forms(data: bytes | None, dense: tuple[str, ...], *, by_name: bool) -> tuple[str, ...]:
    """The names of the records that a message may be: the ``dense`` ones, and by name if it is one of those.

    Raises :class:`WireError` for rows by name unless ``by_name``.
    """
    named = tuple(f"named_{name}" for name in dense)
    came = next((name for name in named if (data or b"").startswith(header(name))), None)
    if came is not None and not by_name:
        raise WireError(
            f"{came}: expected {' or '.join(dense)}, since the definition of this stream has no [columns] to encode"
            " rows by name with; send the features in the definition's order"
        )
    return (*dense, *named) if came is not None else dense


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
    """The features float64[d] of a decoded row. Raises :class:`WireError` unless there are d = ``features``."""
    if len(values) != features:
        raise WireError(f"{name}: expected {features} features, got {len(values)}; send them in the definition's order")
    return np.array(values, dtype=np.float64)


def _features(fields: Fields, rows: int, features: int) -> Floats:
    """The features float64[n, d] of a decoded batch; float64 is not copied, since nobody writes into it."""
    column = array_of("sample_batch", fields, "features", _COLUMN_TYPES[fields["feature_type"]], rows * features)
    with np.errstate(invalid="ignore"):  # A signalling NaN becomes a quiet one.
        return column.reshape(rows, features).astype(np.float64, copy=False)


# Retirements ---------------------------------------------------------------------------------------------------------


def write_retirement(retirement: Retirement, data_fingerprint: bytes) -> bytes:
    """One ``Retirement`` message; its offset is not written, since the log gives it. Raises :class:`WireError`."""
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
    """The ``Retirement`` in a message that lies at ``offset``. Raises :class:`WireError`, :class:`DefinitionMismatch`.

    Earlier versions could also retire by content. Of that, only the number of features is checked: a record that was
    refused for it then must be refused whenever the log is read again.
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
    """One ``Query`` message. Raises :class:`WireError` and :class:`LimitExceeded`."""
    fields = {"fingerprint": query.data_fingerprint, "id": query.id, "features": query.features.tolist()}
    return write_record("query", fields)


def read_query(
    data: bytes | None, features: int, data_fingerprint: bytes, *, by_name: bool = False
) -> Query | NamedQuery:
    """The query in a message of d = ``features``; ``by_name``: the stream also takes queries by name.

    Raises :class:`WireError` and :class:`DefinitionMismatch`.
    """
    name, fields = read_record(data, _forms(data, ("query",), by_name=by_name))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    if name == "named_query":
        return NamedQuery(fields["id"], fields["cells"], fields["fingerprint"])
    return Query(fields["id"], _values(name, fields["features"], features), fields["fingerprint"])


def query_id(data: bytes | None) -> str | None:
    """The id of the query in a message, whatever else is wrong with it; None if the message is no query at all."""
    try:
        sent: str = read_record(data, ("query", "named_query"))[1]["id"]
    except WireError:
        return None
    return sent
