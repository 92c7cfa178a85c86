"""Samples and retirements as they come from the log, and which of them a stream admits.

Admission is a pure function of the record, its partition, the definition and the classes admitted before, never of a
clock: a row that was refused is refused again when the log is read again. A refused row takes no slot of a window and
changes nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Int32s, Int64s, Quantized, Steps
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.event_times import unit_in_words
from deltaplane.stream.placement import partition_of

__all__ = [
    "TOO_MANY_CLASSES",
    "WRONG_PARTITION",
    "AdmittedSamples",
    "NoIds",
    "Refusal",
    "Retirement",
    "Samples",
    "admit",
    "codes_as_they_come",
    "misplaced",
    "refused_for_its_place",
    "usable",
    "usable_each",
    "why_misplaced",
]

TOO_MANY_CLASSES = "too many classes"
"""The kind of refusal of a row whose label is one more than a partition with open classes admits."""

WRONG_PARTITION = "wrong partition"
"""The kind of refusal of a sample or a retirement that is in another partition than that of its id."""

_SHOWN = 64
"""The largest number of characters of an id, and of names of classes, that a refusal repeats."""


class NoIds(Sequence[str]):
    """The ids of n rows that have none: each is ``-``, which is usable, and nobody looks at them one by one."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        places = range(self._count)[at]
        return NoIds(len(places)) if isinstance(places, range) else "-"


@dataclass(frozen=True)
class Samples:
    """n labeled rows in the order of the log, column by column.

    ``features`` float64[n, d]: raw values. ``label_codes`` int32[n]: indices into ``label_table``. ``event_times``
    int64[n]: milliseconds since the epoch. ``offsets`` int64[n]: the offset of each row's record. ``rows`` int64[n]:
    the index of the row in that record. ``log_times`` int64[n]: when the record was appended, in milliseconds.
    ``unread``: index of each row that the definition's encoder refuses to the reason; the features of such a row are
    NaN.
    """

    ids: Sequence[str]
    event_times: Int64s
    label_table: tuple[str, ...]
    label_codes: Int32s
    features: Floats
    offsets: Int64s
    rows: Int64s
    log_times: Int64s
    unread: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of_record(
        cls,
        ids: Sequence[str],
        event_times: Int64s | int,
        label_table: tuple[str, ...],
        label_codes: Int32s,
        features: Floats,
        log_time: int = 0,
    ) -> Samples:
        """The rows of one record at offset 0, as a producer has them; an event time may be given once for all rows."""
        count = len(ids)
        if isinstance(event_times, int):
            event_times = np.full(count, event_times, dtype=np.int64)
        nothing, rows = np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64)
        log_times = np.full(count, log_time, dtype=np.int64)
        return cls(ids, event_times, label_table, label_codes, features, nothing, rows, log_times)

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, offset: int, log_time: int) -> Samples:
        """These rows as one record at ``offset`` of the log, appended at ``log_time`` in milliseconds."""
        count = len(self)
        offsets, times = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        offsets.fill(offset)
        times.fill(log_time)
        return replace(self, offsets=offsets, rows=np.arange(count, dtype=np.int64), log_times=times)

    def chosen(self, rows: Int64s) -> Samples:
        """Some of these rows, by their indices int64[k], in the order of the indices."""
        places = rows.tolist()
        return Samples(
            ids=[self.ids[row] for row in places],
            event_times=self.event_times[rows],
            label_table=self.label_table,
            label_codes=self.label_codes[rows],
            features=self.features[rows],
            offsets=self.offsets[rows],
            rows=self.rows[rows],
            log_times=self.log_times[rows],
            unread={at: self.unread[row] for at, row in enumerate(places) if row in self.unread},
        )


@dataclass(frozen=True)
class Retirement:
    """A request to take a sample out, by its id.

    ``offset``: that in the retirements log. ``time``: when it was requested, in milliseconds, for information only.
    """

    id: str
    reason: str
    offset: int
    time: int | None = None


@dataclass(frozen=True)
class Refusal:
    """A row that a stream does not admit, and the reason: row ``row`` of the record at ``offset``, both from 0."""

    id: str
    offset: int
    row: int
    kind: str
    reason: str


@dataclass(frozen=True)
class AdmittedSamples:
    """The rows of a batch that a stream admits, on its grid.

    ``quantized``: grid rows [n, d]. ``codes`` int32[n]: indices into ``labels`` (classes, not raw labels).
    ``features`` float64[n, d]: raw values with missing ones filled in, for scoring. ``missing``: the number of values
    filled in. ``rounding`` float64[d]: the largest distances to the grid. ``new_labels``: if classes are open, those
    admitted for the first time, in the order of their rows.
    """

    ids: Sequence[str]
    event_times: Int64s
    labels: list[str]
    codes: Int32s
    features: Floats
    quantized: Steps
    offsets: Int64s
    rows: Int64s
    missing: int
    rounding: Floats
    feature_map: FeatureMap = NO_MAP
    new_labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def mapped(self) -> Iterator[tuple[slice, Quantized]]:
        """The mapped rows as grid rows [k, D-1], in pieces of k rows; a batch of one piece is mapped only once."""
        pieces = list(self.feature_map.pieces(len(self)))
        if len(pieces) == 1:
            yield pieces[0], self._mapped_at_once
        else:
            for piece in pieces:
                yield piece, self.feature_map.apply(self.quantized[piece])

    @functools.cached_property
    def _mapped_at_once(self) -> Quantized:
        return self.feature_map.apply(self.quantized)

    def inputs(self) -> Iterator[tuple[slice, Floats]]:
        """The inputs of a plane for the rows, float64[k, D-1], in pieces of k rows: raw values, or mapped ones."""
        if self.feature_map.kind == "none":
            return iter([(slice(0, len(self)), self.features)])
        return ((piece, self.feature_map.inputs(self.features[piece], mapped)) for piece, mapped in self.mapped())


def misplaced(ids: Sequence[str], partition: int, definition: StreamDefinition) -> Flags:
    """bool[n]: which of n ids do not belong in ``partition``, whether or not the stream refuses that."""
    wrong: Flags = definition.partitions_of(ids) != partition
    return wrong


def refused_for_its_place(sample_id: str, partition: int, definition: StreamDefinition) -> bool:
    """Whether a sample or a retirement with this id is refused since it does not belong in ``partition``."""
    return definition.checks_places and definition.partition_of(sample_id) != partition


def why_misplaced(sample_id: str, partition: int, definition: StreamDefinition) -> str:
    """The reason why a sample or a retirement is in the wrong partition, the rule, and what to do."""
    home = partition_of(sample_id, definition.partitions, definition.partitioner)
    return (
        f"it lies in partition {partition}, and by its id belongs in {home} of {definition.partitions} (partitioner"
        f" {definition.partitioner}, Kafka's default); set the producer's partitioner to murmur2_random (librdkafka,"
        " Python) or leave it at its default (Java, kafkajs), make the id its key, and send it again; a stream whose"
        ' producers all place by CRC-32 declares partitioner = "crc32" when it is begun'
    )


def admit(
    samples: Samples, definition: StreamDefinition, known: Collection[str] = (), *, partition: int | None = None
) -> tuple[AdmittedSamples, list[Refusal]]:
    """The rows of a batch that the stream admits, and refusals with their reasons for the others, in order.

    A row is refused if its id or label is empty or too long, if its label is not a declared one, if the encoder cannot
    read a cell, or if a value is missing (and not filled in), infinite or outside the grid's range. With windows of
    event time it is also refused if its event time is beyond any calendar, or more than ``max_skew`` ahead of the time
    at which its record was appended. ``partition``: that of the rows, or None if they are not from a log; if the
    definition checks places, a row in another partition than that of its id is refused.

    If classes are open, a partition admits the first ``definition.most_classes`` labels that it meets in rows without
    other faults, for good. ``known``: the labels that it has admitted before. So a flood of labels ends in refusals,
    and these depend on the log alone: an admitted label stays known, and a label is refused only when there is no more
    room. So if a row is read again with the labels known later, the result is the same.
    """
    features, gaps = definition.filled(samples.features)
    quantized, fits, rounding = definition.grid.quantize_and_measure(features)
    labels, codes = _classes(samples, definition)
    named = usable_each(samples.ids, limits.ID_BYTES)
    good = fits & (codes >= 0) & named
    good[list(samples.unread)] = False
    wrong = _in_a_wrong_partition(samples.ids, named, partition, definition)
    if wrong is not None:
        good &= ~wrong
    if definition.nested_windows.timed:  # Other windows do not depend on event times.
        times = samples.event_times
        # The difference may wrap around only for times that the first line refuses.
        good &= (times > -limits.EVENT_TIME_MILLISECONDS) & (times < limits.EVENT_TIME_MILLISECONDS)
        good &= times - definition.max_skew_milliseconds <= samples.log_times
    room = _Room(labels, codes, None, ())
    if definition.classes.are_open:
        room = _room_for(labels, codes, good, known, definition.most_classes)
    if room.beyond is not None:
        good &= ~room.beyond
    refusals = [
        _wrong_partition(samples, row, partition, definition)
        if wrong is not None and wrong[row] and partition is not None
        else _one_too_many(samples, row, definition.most_classes)
        if room.beyond is not None and room.beyond[row]
        else _refusal(samples, row, codes, fits, features, definition)
        for row in np.flatnonzero(~good).tolist()
    ]
    kept = np.flatnonzero(good) if refusals else slice(None)
    features, quantized = features[kept], quantized[kept]
    if refusals:
        rounding = definition.grid.rounding_error(features, quantized)
    admitted = AdmittedSamples(
        ids=[samples.ids[row] for row in kept.tolist()] if isinstance(kept, np.ndarray) else samples.ids,
        event_times=samples.event_times[kept],
        labels=room.labels,
        codes=room.codes[kept],
        features=features,
        quantized=quantized,
        offsets=samples.offsets[kept],
        rows=samples.rows[kept],
        missing=0 if gaps is None else int(np.count_nonzero(gaps[kept])),
        rounding=rounding,
        feature_map=definition.feature_map,
        new_labels=room.new,
    )
    return admitted, refusals


def _in_a_wrong_partition(
    ids: Sequence[str], named: Flags, partition: int | None, definition: StreamDefinition
) -> Flags | None:
    """bool[n]: which rows with a usable id are refused for their partition; None if there are none."""
    if partition is None or not definition.checks_places:
        return None
    if named.all():
        wrong = misplaced(ids, partition, definition)
    else:
        wrong, rows = np.zeros(len(ids), dtype=np.bool_), np.flatnonzero(named)
        wrong[rows] = misplaced([ids[row] for row in rows.tolist()], partition, definition)
    return wrong if wrong.any() else None


def _wrong_partition(samples: Samples, row: int, partition: int, definition: StreamDefinition) -> Refusal:
    sample_id = samples.ids[row]
    reason = why_misplaced(sample_id, partition, definition)
    return Refusal(sample_id, int(samples.offsets[row]), int(samples.rows[row]), WRONG_PARTITION, reason)


class _Room(NamedTuple):
    """The admitted labels, the index int32[n] of each row's label among them, and the ``new`` ones among them.

    ``beyond`` bool[n]: rows that are refused since there are too many classes; None if there are none.
    """

    labels: list[str]
    codes: Int32s
    beyond: Flags | None
    new: tuple[str, ...]


def _room_for(labels: list[str], codes: Int32s, good: Flags, known: Collection[str], most: int) -> _Room:
    """The open classes of a batch that there is room for. A label that no good row has does not count."""
    if all(label in known for label in labels):
        return _Room(labels, codes, None, ())
    in_order = [labels[code] for code in codes_as_they_come(codes[good], len(labels))]
    unknown = [label for label in in_order if label not in known]
    new = unknown[: max(0, most - len(known))]
    admitted = {label for label in in_order if label in known} | set(new)
    kept = [label for label in labels if label in admitted]
    place = {label: code for code, label in enumerate(kept)}
    recoded = np.array([place.get(label, -1) for label in labels], dtype=np.int32)[codes]
    beyond = good & (recoded < 0)
    return _Room(kept, recoded, beyond if beyond.any() else None, tuple(new))


def codes_as_they_come(codes: Int32s, count: int) -> list[int]:
    """The different ones of some codes int32[n], each below ``count``, in the order in which they come first."""
    first = np.full(count, len(codes))
    # Of several rows with one code the last that is written stays, which is the first of all; nothing is sorted.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order: list[int] = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))].tolist()
    return order


def _one_too_many(samples: Samples, row: int, most: int) -> Refusal:
    reason = (
        f"label {samples.label_table[samples.label_codes[row]]!r} would be one more than the {most} that a partition"
        " admits, the first that it met; declare the classes, or raise classes.most under another stream name"
    )
    return Refusal(samples.ids[row], int(samples.offsets[row]), int(samples.rows[row]), TOO_MANY_CLASSES, reason)


def _classes(samples: Samples, definition: StreamDefinition) -> tuple[list[str], Int32s]:
    """The sorted classes of a batch, and the index int32[n] of each row's class among them, or -1 if it has none."""
    classes = [
        definition.classes.class_of(label) if usable(label, limits.LABEL_BYTES) else None
        for label in samples.label_table
    ]
    labels = sorted({label for label in classes if label is not None})
    place = {label: code for code, label in enumerate(labels)}
    recode = np.array([-1 if label is None else place[label] for label in classes], dtype=np.int32)
    return labels, recode[samples.label_codes] if len(samples) else np.zeros(0, dtype=np.int32)


def usable(text: str, limit_bytes: int) -> bool:
    """Whether an id or a label is not empty and has at most ``limit_bytes`` in UTF-8."""
    # A code point takes at most four bytes, so only long texts are encoded to be measured.
    return len(text) > 0 and (4 * len(text) <= limit_bytes or len(text.encode()) <= limit_bytes)


def usable_each(texts: Sequence[str], limit_bytes: int) -> Flags:
    """bool[n]: which of n texts are :func:`usable`."""
    if isinstance(texts, NoIds):
        return np.ones(len(texts), dtype=np.bool_)
    lengths = set(map(len, texts))
    if 0 not in lengths and 4 * max(lengths, default=0) <= limit_bytes:
        return np.ones(len(texts), dtype=np.bool_)
    return np.fromiter((usable(text, limit_bytes) for text in texts), dtype=np.bool_, count=len(texts))


def _refusal(
    samples: Samples,
    row: int,
    codes: Int32s,
    fits: Flags,
    features: Floats,
    definition: StreamDefinition,
) -> Refusal:
    """The refusal of a row, with the first reason in a fixed order."""
    sample_id = samples.ids[row]
    label = samples.label_table[samples.label_codes[row]]
    time = int(samples.event_times[row])
    if not sample_id:
        kind, reason = "bad id", "the id is empty; every sample needs one"
    elif not usable(sample_id, limits.ID_BYTES):
        kind, reason = "bad id", f"the id takes {len(sample_id.encode())} bytes, expected at most {limits.ID_BYTES}"
        sample_id = sample_id[:_SHOWN]
    elif not label:
        kind, reason = "bad label", "the label is empty; every sample needs one"
    elif not usable(label, limits.LABEL_BYTES):
        kind, reason = (
            "bad label",
            f"the label takes {len(label.encode())} bytes, expected at most {limits.LABEL_BYTES}",
        )
    elif codes[row] < 0:
        names = definition.classes.names
        known = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        kind, reason = "unknown class", f"label {label!r} is not one of {known}"
    elif row in samples.unread:
        kind, reason = "bad value", samples.unread[row]
    elif not fits[row]:
        kind, reason = "bad value", definition.grid.fault(features[row], definition.features)
    else:
        kind, log_time = "bogus time", int(samples.log_times[row])
        if abs(time) >= limits.EVENT_TIME_MILLISECONDS:
            reason = f"event time {time} ms is beyond any calendar"
        else:
            reason = (
                f"event time {time} ms is {time - log_time} ms ahead of the log,"
                f" expected at most {definition.max_skew_milliseconds} ms (max_skew)"
            )
        reason += unit_in_words(time, log_time)
    return Refusal(sample_id, int(samples.offsets[row]), int(samples.rows[row]), kind, reason)
