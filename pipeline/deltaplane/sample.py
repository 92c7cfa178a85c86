"""Samples and retirements as they come from the log, and which of them a stream admits.

Admission is a pure function of the record and the definition, never of a clock: a row that was refused is refused
again when the log is read a second time. A refused row takes no slot of a window and touches nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.definition import StreamDefinition

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Samples:
    """n labeled rows in the order of the log, column by column.

    ``features`` float64[n, d] raw values; ``label_codes`` int32[n] index ``label_table``; ``event_times`` int64[n] in
    milliseconds since the epoch; ``offsets`` int64[n] of the record each row came in, ``rows`` int64[n] its place in
    that record, ``log_times`` int64[n] the time the record was appended, in milliseconds.
    """

    ids: Sequence[str]
    event_times: Int64s
    label_table: tuple[str, ...]
    label_codes: Int32s
    features: Floats
    offsets: Int64s
    rows: Int64s
    log_times: Int64s

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Retirement:
    """A request to take a sample out: by id, or, where rows are not kept, by its content.

    ``offset`` is its place in the retirements log. ``label`` and ``features`` (d raw values) are for retirement by
    content and None otherwise. ``time`` is when it was asked for, in milliseconds, for the record only.
    """

    id: str
    reason: str
    offset: int
    time: int | None = None
    label: str | None = None
    features: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Refusal:
    """One row that a stream does not admit, and why: row ``row`` of the record at ``offset``, both counted from 0."""

    id: str
    offset: int
    row: int
    kind: str
    reason: str


@dataclass(frozen=True)
class AdmittedSamples:
    """The rows of a batch that a stream admits, on its grid.

    ``placed`` is integer-valued float64[n, d]; ``codes`` int32[n] index ``labels`` (class labels, not raw ones);
    ``features`` float64[n, d] are the raw values, missing ones filled in, for scoring. ``missing`` counts values that were filled in, ``rounding`` float64[d] is the largest
    distance to the grid.
    """

    ids: Sequence[str]
    event_times: Int64s
    labels: list[str]
    codes: Int32s
    features: Floats
    placed: Floats
    offsets: Int64s
    rows: Int64s
    missing: int
    rounding: Floats

    def __len__(self) -> int:
        return len(self.ids)


def partition_of(sample_id: str, partitions: int) -> int:
    """The partition of samples and retirements with this id: CRC-32 of its UTF-8 bytes, as librdkafka's ``consistent``."""
    return zlib.crc32(sample_id.encode()) % partitions


def admit(samples: Samples, definition: StreamDefinition) -> tuple[AdmittedSamples, list[Refusal]]:
    """Split a batch into what the stream admits and refusals with their reasons, in order.

    A row is refused whose id is empty or too long, whose label is unknown to a closed set of classes, whose event time
    lies more than ``max_skew`` ahead of the time its record was appended, or that has a value that is missing,
    infinite or outside the grid's range.
    """
    features, missing = samples.features, 0
    if definition.missing == "offset":
        gaps = np.isnan(features)
        missing = int(np.count_nonzero(gaps))
        if missing:
            features = np.where(gaps, definition.grid.offsets, features)
    placed, fits = definition.grid.place(features)
    classes = [definition.classes.class_of(label) for label in samples.label_table]
    labels = sorted({label for label in classes if label is not None})
    recode = np.array([labels.index(label) if label is not None else -1 for label in classes], dtype=np.int32)
    codes = recode[samples.label_codes] if len(samples) else np.zeros(0, dtype=np.int32)
    good = fits & (codes >= 0) & _usable_ids(samples.ids)
    if definition.ladder.longest_milliseconds is not None:  # Where no window ends with time, an odd time harms nobody.
        good &= samples.event_times <= samples.log_times + definition.max_skew_milliseconds
        good &= np.abs(samples.event_times) < limits.EVENT_TIME_MILLISECONDS
    refusals = [_refusal(samples, row, codes, fits, features, definition) for row in np.flatnonzero(~good).tolist()]
    kept = np.flatnonzero(good) if refusals else slice(None)
    features, placed = features[kept], placed[kept]
    admitted = AdmittedSamples(
        ids=[samples.ids[row] for row in kept.tolist()] if isinstance(kept, np.ndarray) else samples.ids,
        event_times=samples.event_times[kept],
        labels=labels,
        codes=codes[kept],
        features=features,
        placed=placed,
        offsets=samples.offsets[kept],
        rows=samples.rows[kept],
        missing=missing,
        rounding=definition.grid.rounding_error(features, placed),
    )
    return admitted, refusals


def _usable_ids(ids: Sequence[str]) -> npt.NDArray[np.bool_]:
    """bool[n]: ids that are not empty and, in UTF-8, not longer than the limit."""
    # A code point takes at most four bytes, so only long ids need to be encoded to be measured.
    return np.fromiter(
        (0 < len(i) and (4 * len(i) <= limits.ID_BYTES or len(i.encode()) <= limits.ID_BYTES) for i in ids),
        dtype=np.bool_,
        count=len(ids),
    )


def _refusal(
    samples: Samples, row: int, codes: Int32s, fits: npt.NDArray[np.bool_], features: Floats, definition: StreamDefinition
) -> Refusal:
    """The first reason, in a fixed order, why a row is not admitted."""
    sample_id = samples.ids[row]
    label = samples.label_table[samples.label_codes[row]]
    if not sample_id:
        kind, reason = "bad id", "the id is empty; every sample needs one"
    elif len(sample_id.encode()) > limits.ID_BYTES:
        kind, reason = "bad id", f"the id takes {len(sample_id.encode())} bytes, expected at most {limits.ID_BYTES}"
        sample_id = sample_id[:64]
    elif codes[row] < 0:
        kind, reason = "unknown class", f"label {label!r} is not one of {', '.join(definition.classes.names)}"
    elif not fits[row]:
        kind, reason = "bad value", definition.grid.fault(features[row], definition.features)
    elif abs(int(samples.event_times[row])) >= limits.EVENT_TIME_MILLISECONDS:
        kind, reason = "bogus time", f"event time {samples.event_times[row]} ms is beyond any calendar"
    else:
        ahead = int(samples.event_times[row] - samples.log_times[row])
        kind = "bogus time"
        reason = (
            f"event time {samples.event_times[row]} ms is {ahead} ms ahead of the log,"
            f" expected at most {definition.max_skew_milliseconds} ms (max_skew)"
        )
    return Refusal(sample_id, int(samples.offsets[row]), int(samples.rows[row]), kind, reason)
