"""The fields that both forms of a batch share: ids, event times and labels of its rows, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s
from deltaplane.errors import LimitExceeded, WireError
from deltaplane.stream.sample import Samples
from deltaplane.wire.frame import Fields, header
from deltaplane.wire.singles import encoded_bytes, encoded_long

__all__ = [
    "FINGERPRINT_BYTES",
    "array_of",
    "batch_message",
    "head_parts",
    "ids_of",
    "rows_of",
    "samples_of",
    "texts_of",
]

FINGERPRINT_BYTES = 16
_LARGEST_UINT16 = 2**16 - 1


def rows_of(name: str, rows: int) -> int:
    """``rows``, if a batch may have so many. Raises :class:`WireError` if not; ``name`` is that of the record."""
    if not 1 <= rows <= limits.BATCH_ROWS:
        raise WireError(f"{name}: expected 1 to {limits.BATCH_ROWS} rows, got {rows}; split the batch")
    return rows


def head_parts(name: str, samples: Samples, data_fingerprint: bytes) -> list[bytes | memoryview]:
    """The bytes of a batch from its header to its label codes, in parts.

    Offsets and log times are not written, since the log gives them. Raises :class:`WireError` for what a batch cannot
    hold: too many rows or labels, an id that is too long, a text that is not Unicode.
    """
    rows = rows_of(name, len(samples))
    if len(data_fingerprint) != FINGERPRINT_BYTES:
        raise WireError(
            f"{name}: expected a fingerprint of {FINGERPRINT_BYTES} bytes, got {len(data_fingerprint)};"
            " take the definition's data fingerprint"
        )
    assert len(samples.features) == len(samples.event_times) == len(samples.label_codes) == rows, "columns differ"
    lengths, ids = _joined(name, samples.ids)
    # The parts are encoded here, since the general encoder copies every byte several times.
    labels = [part for label in samples.label_table for part in encoded_bytes(_label(name, label))]
    return [
        header(name),
        data_fingerprint,
        encoded_long(rows),
        *encoded_bytes(lengths),
        *encoded_bytes(ids),
        *encoded_bytes(samples.event_times.astype("<i8", copy=False).tobytes()),
        encoded_long(len(samples.label_table)),
        *labels,
        b"\0",
        *encoded_bytes(_label_codes(name, samples)),
    ]


def batch_message(name: str, parts: Sequence[bytes | memoryview]) -> bytes:
    """The message made of ``parts``. Raises :class:`LimitExceeded` if it is longer than a reader would take."""
    message = b"".join(parts)
    if len(message) > limits.MESSAGE_BYTES:
        raise LimitExceeded(
            f"{name}: expected at most {limits.MESSAGE_BYTES:,} bytes, got {len(message):,}; send smaller batches"
        )
    return message


def samples_of(
    name: str,
    fields: Fields,
    features: Floats,
    at: tuple[int, int],
    unread: Mapping[int, str] = MappingProxyType({}),
) -> Samples:
    """The n rows of a decoded batch with these ``features`` float64[n, d].

    ``at`` is (offset, time at which it was appended, in milliseconds). ``unread``: row to the reason why its cells
    cannot be read. Raises :class:`WireError` if the columns do not fit each other.
    """
    rows, (offset, log_time) = len(features), at
    codes = array_of(name, fields, "label_codes", "<u2", rows).astype(np.int32)
    table = tuple(fields["labels"])
    if int(codes.max()) >= len(table):
        raise WireError(f"{name}: label code {int(codes.max())} points beyond the {len(table)} labels sent")
    if len(table) > rows + limits.CLASSES:
        table, codes = _used_labels(table, codes)
    return Samples(
        ids=ids_of(name, fields, rows),
        event_times=array_of(name, fields, "event_times", "<i8", rows).astype(np.int64),
        label_table=table,
        label_codes=codes,
        features=features,
        offsets=np.full(rows, offset, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, log_time, dtype=np.int64),
        unread=unread,
    )


def _label(name: str, label: str) -> bytes:
    try:
        return label.encode()
    except UnicodeEncodeError as fault:
        raise WireError(f"{name}: a label is not a Unicode text ({fault.reason}); use another label") from fault


def _joined(name: str, ids: Sequence[str]) -> tuple[bytes, bytes]:
    """(the lengths of n ids in bytes, as uint16[n]; the ids end to end in UTF-8)."""
    text = "".join(ids)
    try:
        # If all are ASCII, lengths are the same in characters and in bytes.
        parts: Sequence[str | bytes] = ids if text.isascii() else [sample_id.encode() for sample_id in ids]
        data = text.encode()
    except UnicodeEncodeError as fault:
        raise WireError(f"{name}: an id is not a Unicode text ({fault.reason}); use another id") from fault
    lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    if lengths.max() > limits.BATCH_ID_BYTES:
        at = int(lengths.argmax())
        raise WireError(
            f"{name}: expected ids of at most {limits.ID_BYTES} bytes, got {lengths[at]} in row {at}"
            f" ({ids[at][:50]!r}...); shorten it"
        )
    return lengths.astype("<u2").tobytes(), data


def _label_codes(name: str, samples: Samples) -> bytes:
    codes, labels = samples.label_codes, len(samples.label_table)
    if int(codes.min()) < 0 or int(codes.max()) >= labels:
        raise WireError(
            f"{name}: expected label codes from 0 to {labels - 1}, got {codes.min()} to {codes.max()};"
            " a code is a place in label_table"
        )
    if int(codes.max()) > _LARGEST_UINT16:
        raise WireError(f"{name}: expected at most {_LARGEST_UINT16 + 1} labels, got {labels}; split the batch")
    return codes.astype("<u2").tobytes()


def _used_labels(table: tuple[str, ...], codes: Int32s) -> tuple[tuple[str, ...], Int32s]:
    """The labels that some row has, and the codes int32[n] that point to these.

    All batches of a poll are in memory until the last of them is decoded, so that unused labels would add up.
    """
    used, places = np.unique(codes, return_inverse=True)
    return tuple(table[code] for code in used.tolist()), places.astype(np.int32)


def array_of(name: str, fields: Fields, column: str, kind: str, items: int) -> npt.NDArray[Any]:
    """The column as an array [items] of the NumPy type ``kind``. Raises :class:`WireError` if it has another length."""
    data = fields[column]
    expected = items * np.dtype(kind).itemsize
    if len(data) != expected:
        raise WireError(f"{name}: expected {expected} bytes of {column} ({items} x {kind}), got {len(data)}")
    return np.frombuffer(data, dtype=kind)


def ids_of(name: str, fields: Fields, rows: int) -> list[str]:
    """The ids of the n = ``rows`` rows of a decoded batch. Raises :class:`WireError` if they do not fit each other."""
    lengths = array_of(name, fields, "id_lengths", "<u2", rows)
    return texts_of(name, "id", lengths, fields["ids"])


def texts_of(name: str, what: str, lengths: npt.NDArray[Any], data: bytes) -> list[str]:
    """The k > 0 texts that lie end to end in ``data``, of ``lengths`` uint16[k] bytes each.

    ``what`` names one of them in a message. Raises :class:`WireError` if lengths and bytes do not fit, or if a text is
    not UTF-8.
    """
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    if ends[-1] != len(data):
        raise WireError(f"{name}: the {what} lengths add up to {ends[-1]} bytes, got {len(data)} bytes of {what}s")
    starts = [0, *ends[:-1]]
    try:
        if data.isascii():
            text = data.decode("ascii")
            length = int(lengths[0])
            # Texts of equal length are cut as an array, at a third of the cost. It would drop zeros at their ends.
            if length and ends[-1] == len(lengths) * length and "\0" not in text and (lengths == length).all():
                cut: list[str] = np.array([text]).view(f"U{length}").tolist()
                return cut
            return [text[start:end] for start, end in zip(starts, ends, strict=True)]
        return [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    except UnicodeDecodeError as fault:
        raise WireError(
            f"{name}: {'an' if what == 'id' else 'a'} {what} is not UTF-8 ({fault}); encode {what}s as UTF-8"
        ) from fault
