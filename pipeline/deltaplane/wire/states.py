"""The records of workers and mergers: claims, deltas, orders about sources, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from deltaplane import limits
from deltaplane.exact.statistics import Dimensions
from deltaplane.log.delta import Claim, Delta, SourceOrder, SourceState, Tile, TopicIds
from deltaplane.log.records import Checkpoint
from deltaplane.wire.aims import read_tallied, with_scores, write_tallied
from deltaplane.wire.blends import prequential_counts_fields, prequential_counts_of
from deltaplane.wire.calibrations import read_binned, tallies_of, write_binned
from deltaplane.wire.frame import Fields, header, read_record, write_record
from deltaplane.wire.parts import (
    check_name,
    check_positions,
    counts_of,
    labels_of,
    rebuild_of,
    score_fields,
    scores_of,
    source_fields,
    source_of,
    statistics_fields,
    statistics_of,
)

__all__ = [
    "read_checkpoint",
    "read_claim_or_delta",
    "write_checkpoint",
    "write_claim",
    "write_delta",
    "write_source_order",
]


def _write_labelled(labels: Sequence[str], message: bytes) -> bytes:
    """``message`` wrapped in a ``Labelled`` with ``labels``, or as it is if there are none, as mostly."""
    return write_record("labelled", {"labels": list(labels), "message": message}) if labels else message


def _read_labelled(data: bytes | None, within: str, others: Sequence[str]) -> tuple[str, Fields, tuple[str, ...]]:
    """(record name, fields, labels) of a message of one of ``others``, or of ``within``, in a ``Labelled`` or not."""
    name, fields = read_record(data, (within, *others, "labelled"))
    if name != "labelled":
        return name, fields, ()
    labels = labels_of(name, fields["labels"])
    name, fields = read_record(fields["message"], (within,))
    return name, fields, labels


def _write_anchored(topics: TopicIds, message: bytes) -> bytes:
    """``message`` wrapped in an ``Anchored`` with the identifiers of its topics, or as it is if none is known."""
    if not any(topics):
        return message
    named = {"samples_topic_id": topics.samples, "retirements_topic_id": topics.retirements}
    return write_record("anchored", {**named, "message": message})


def _read_anchored(data: bytes | None) -> tuple[bytes | None, TopicIds | None]:
    """(inner message, identifiers of its topics) of an ``Anchored``; (message, None) of any other."""
    if data is None or not data.startswith(header("anchored")):
        return data, None
    name, fields = read_record(data, ("anchored",))
    topics = TopicIds(fields["samples_topic_id"], fields["retirements_topic_id"])
    for one in topics:
        check_name(name, "a topic's identifier", one, limits.NAME_BYTES)
    return fields["message"], topics


def write_claim(claim: Claim) -> bytes:
    """One ``Claim`` message, in an ``Anchored`` if identifiers of the topics are known."""
    fields = {"stream_fingerprint": claim.stream_fingerprint, "writer": claim.writer}
    return _write_anchored(claim.topics, write_record("claim", fields | source_fields(claim.source)))


def write_source_order(order: SourceOrder) -> bytes:
    """One ``SourceOrder`` message."""
    fields = {"stream_fingerprint": order.stream_fingerprint, "barred": order.removed, "reason": order.reason}
    return write_record("source_order", fields | source_fields(order.source))


def write_delta(delta: Delta) -> bytes:
    """One ``Delta`` message, in a ``Labelled`` if it is the first of its source to admit some labels.

    That is in a ``Tallied`` if its trials have the scores of candidates, and all of it in a ``Binned`` if it counts the
    scores of the plane.
    """
    message = write_record(
        "delta",
        {
            **source_fields(delta.source),
            **vars(delta.tile),
            **vars(delta.rebuild),
            "stream_fingerprint": delta.stream_fingerprint,
            "writer": delta.writer,
            "dimension": delta.change.dimension,
            "change": statistics_fields(delta.change),
            "scored_by": delta.scored_by,
            "scores": score_fields(delta.scores),
            "counts": delta.counts,
            "trials": prequential_counts_fields(delta.prequential_counts),
        },
    )
    return write_binned(delta.tallies, write_tallied(delta.prequential_counts, _write_labelled(delta.labels, message)))


def read_claim_or_delta(data: bytes | None, dimensions: Dimensions) -> Claim | Delta | SourceOrder:
    """The record in a message of the deltas topic, with statistics of such dimensions. Raises :class:`WireError`."""
    data, topics = _read_anchored(data)
    data, binned = read_binned(data) if topics is None else (data, None)
    data, tallied = read_tallied(data) if topics is None else (data, None)
    if topics is None:
        others = ("claim", "source_order") if tallied is None and binned is None else ()
        name, fields, labels = _read_labelled(data, "delta", others)
    else:
        (name, fields), labels = read_record(data, ("claim",)), ()
    source = source_of(name, fields)
    if name == "source_order":
        return SourceOrder(source, fields["barred"], fields["reason"], fields["stream_fingerprint"])
    check_name(name, "a writer", fields["writer"], limits.NAME_BYTES)
    if name == "claim":
        return Claim(source, fields["writer"], fields["stream_fingerprint"], topics or TopicIds())
    check_positions(name, fields, ("sequence",), ("samples_from", "samples_to"), ("retirements_from", "retirements_to"))
    return Delta(
        source=source,
        writer=fields["writer"],
        stream_fingerprint=fields["stream_fingerprint"],
        tile=Tile(*(fields[key] for key in Tile.__dataclass_fields__)),
        rebuild=rebuild_of(name, fields),
        change=statistics_of(name, fields, "change", dimensions),
        scores=scores_of(name, fields),
        scored_by=fields["scored_by"],
        counts=counts_of(name, fields, "counts"),
        prequential_counts=with_scores(prequential_counts_of(fields["trials"]), tallied),
        labels=labels,
        tallies=tallies_of(binned),
    )


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """One ``Checkpoint`` message.

    It is in a ``Labelled`` if the source has admitted labels of open classes, and that in an ``Anchored`` if
    identifiers of the topics are known.
    """
    state = checkpoint.state
    message = write_record(
        "checkpoint",
        {
            **source_fields(state.source),
            **vars(state.rebuild),
            "stream_fingerprint": checkpoint.stream_fingerprint,
            "owner": state.owner,
            "sequence": state.sequence,
            "samples_position": state.samples_position,
            "retirements_position": state.retirements_position,
            "dimension": state.statistics.dimension,
            "statistics": statistics_fields(state.statistics),
            "scores": score_fields(state.scores),
            "counts": state.counts,
            "dropped": state.dropped,
            "barred": state.removed,
            "next_offset": checkpoint.next_offset,
        },
    )
    return _write_anchored(state.topics, _write_labelled(state.labels, message))


def read_checkpoint(data: bytes | None, dimensions: Dimensions) -> Checkpoint:
    """The ``Checkpoint`` in a message, with statistics of such dimensions. Raises :class:`WireError`."""
    data, topics = _read_anchored(data)
    name, fields, labels = _read_labelled(data, "checkpoint", ())
    positions = ("sequence", "samples_position", "retirements_position", "next_offset")
    check_positions(name, fields, *((key,) for key in positions))
    check_name(name, "an owner", fields["owner"], limits.NAME_BYTES)
    state = SourceState(
        source=source_of(name, fields),
        statistics=statistics_of(name, fields, "statistics", dimensions),
        owner=fields["owner"],
        sequence=fields["sequence"],
        samples_position=fields["samples_position"],
        retirements_position=fields["retirements_position"],
        rebuild=rebuild_of(name, fields),
        scores=scores_of(name, fields),
        counts=counts_of(name, fields, "counts"),
        dropped=counts_of(name, fields, "dropped"),
        removed=fields["barred"],
        labels=labels,
        topics=topics or TopicIds(),
    )
    return Checkpoint(state, fields["next_offset"], fields["stream_fingerprint"])
