"""What a stream's state depends on, read from its log and passed on: to another stream, or to a file.

That is, per source: the samples from the oldest live row on, and the retirements from the oldest remembered on. Both
offsets are in every delta, because a worker that takes a source over needs the same. Copying begins there and follows
the log until nothing new has come for a while; the model whose positions are where it ended says which digest a copy
must have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltaplane.errors import DeltaplaneError
from deltaplane.log.delta import SourceState
from deltaplane.log.model import Model
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import WENT_BY_CONTENT, readable_checkpoints, rows_went_by_content, state_at
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader, in_batches
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, Record
from deltaplane_services.processors.regroup import Labels, Regroup

__all__ = [
    "BATCH_RECORDS",
    "MODEL_WAIT_SECONDS",
    "POLL_SECONDS",
    "CannotCopy",
    "Copied",
    "Place",
    "copy_stream",
    "pass_live_log",
    "publish_all",
    "wait_for_digest",
]

BATCH_RECORDS = 500
POLL_SECONDS = 0.1
MODEL_WAIT_SECONDS = 30.0

Place = tuple[str, int]
"""Topic and partition."""


class CannotCopy(DeltaplaneError):
    """A stream cannot be copied, and why."""


@dataclass(frozen=True)
class Copied:
    """``counts`` of records and rows; ``model``: the one that contains exactly what was copied, or None."""

    counts: Mapping[str, int]
    model: Model | None


def copy_stream(
    old: ServiceSettings, new: ServiceSettings, regroup: Regroup, idle_seconds: float, *, whole_log: bool = False
) -> Copied:
    """Copy the live part of a stream's log at one site onto the empty topics of another stream; or the whole log.

    Raises :class:`CannotCopy` where there is nothing to copy, or the other stream is not empty.
    """
    _check_empty(new)
    out = publisher(new, "site")

    def pass_on(records: Iterable[Record]) -> None:
        for record in records:
            out.publish(regroup.record(record))

    model = pass_live_log(old, pass_on, idle_seconds, regroup.know, whole_log=whole_log)
    out.flush()
    return Copied(_without_zeros(regroup.counts), model)


def pass_live_log(
    settings: ServiceSettings,
    pass_on: Callable[[list[Record]], None],
    idle_seconds: float,
    begin: Callable[[Labels], None] | None = None,
    *,
    whole_log: bool = False,
) -> Model | None:
    """Hand on everything that the state of a stream at this site depends on, then what comes, until nothing comes.

    ``whole_log``: from where the log begins, which may be long before the oldest live row. Of sources that were removed
    nothing is handed on. ``begin`` is told first which labels of open classes each partition had admitted by then.
    Returns the model that contains exactly what was handed on, or None where none has come to contain just that.
    """
    central, site = reader(settings, "central"), reader(settings, "site")
    try:
        starts, labels = _starts(settings, central, site, whole_log=whole_log)
        if begin is not None:
            begin(labels)
        ends = {}
        for (topic, partition), start in starts.items():
            _, end = site.bounds(topic, partition)
            for batch in in_batches(site.read(topic, partition, start, end)):
                pass_on(batch)
            ends[topic, partition] = max(start, end)
        site.follow([(topic, partition, offset) for (topic, partition), offset in ends.items()])
        until = time.monotonic() + idle_seconds
        while time.monotonic() < until:
            if records := site.poll(BATCH_RECORDS, POLL_SECONDS):
                pass_on(records)
                ends |= {(record.topic, record.partition): record.offset + 1 for record in records}
                until = time.monotonic() + idle_seconds
        return _model_at(settings, central, ends)
    finally:
        site.close()
        central.close()


def _starts(
    settings: ServiceSettings, central: LogReader, site: LogReader, *, whole_log: bool
) -> tuple[dict[Place, int], Labels]:
    """Where to begin in each partition of samples and retirements, and the labels that it has admitted.

    Partitions whose source was removed from the stream are left out: nothing of theirs is in its state.
    """
    follower = ModelFollower(central, settings.definition)
    if follower.model is None:
        raise CannotCopy(f"{settings.definition.name}.models holds no model; copy the samples topic itself instead")
    checkpoints = readable_checkpoints(settings, central)
    labels: dict[int, Sequence[str]] = {}
    starts = {(topic, p): 0 for topic in (SAMPLES, RETIREMENTS) for p in range(settings.definition.partitions)}
    for position in follower.model.positions:
        if position.source.site != settings.site:
            continue
        if position.removed:
            for topic in (SAMPLES, RETIREMENTS):
                del starts[topic, position.source.partition]
            continue
        state = state_at(settings, central, checkpoints, position)
        _check_log_says_all(settings, state)
        rebuild, labels[position.source.partition] = state.rebuild, state.labels
        if settings.definition.nested_windows.keep_rows:
            starts[SAMPLES, position.source.partition] = rebuild.window_from
        starts[RETIREMENTS, position.source.partition] = rebuild.retirements_window_from
    if whole_log:
        return {place: site.bounds(*place)[0] for place in starts}, labels
    for (topic, partition), start in starts.items():
        begin, _ = site.bounds(topic, partition)
        # Where nothing of a partition was ever read, what its log has lost is lost to the stream, too.
        if start < begin and any(p.source.partition == partition for p in follower.model.positions):
            raise CannotCopy(
                f"{settings.definition.name}.{topic}-{partition}: its live part begins at offset {start}, the log at"
                f" {begin}; retention has eaten rows that count, so a copy could not be the same"
            )
    return starts, labels


def _check_log_says_all(settings: ServiceSettings, state: SourceState) -> None:
    if rows_went_by_content(settings.definition, state.counts):
        raise CannotCopy(f"source {state.source}: {WENT_BY_CONTENT}; a copy of the log would not be the same")


def _model_at(settings: ServiceSettings, central: LogReader, ends: Mapping[Place, int]) -> Model | None:
    """The model with just these ends in it; None where the stream has gone on, or does not get there in time."""
    follower = ModelFollower(central, settings.definition)
    deadline = time.monotonic() + MODEL_WAIT_SECONDS
    while True:
        model = follower.model
        behind = False
        for position in () if model is None else model.positions:
            if position.source.site == settings.site and not position.removed:
                at, partition = (position.samples, position.retirements), position.source.partition
                if (SAMPLES, partition) not in ends:
                    # It had been removed, and was let in again meanwhile.
                    return None
                wanted = (ends[SAMPLES, partition], ends[RETIREMENTS, partition])
                if at[0] > wanted[0] or at[1] > wanted[1]:
                    return None
                behind = behind or at != wanted
        if model is not None and not behind:
            return model
        if time.monotonic() >= deadline:
            return None
        follower.poll(BATCH_RECORDS, POLL_SECONDS)


def _check_empty(settings: ServiceSettings) -> None:
    log = reader(settings, "site")
    try:
        for topic in (SAMPLES, RETIREMENTS):
            for partition in range(settings.definition.partitions):
                begin, end = log.bounds(topic, partition)
                if end:
                    raise CannotCopy(
                        f"{settings.definition.name}.{topic}-{partition}: expected an empty stream, got records from"
                        f" {begin} to {end}; copy to a stream of a new name"
                    )
    finally:
        log.close()


def publish_all(settings: ServiceSettings, records: Iterable[Outgoing]) -> None:
    """Publish records on the empty topics of a stream, in order."""
    _check_empty(settings)
    out = publisher(settings, "site")
    for record in records:
        out.publish((record,))
    out.flush()


def wait_for_digest(settings: ServiceSettings, digest: str, wait_seconds: float) -> bool:
    """Whether a model of a stream comes to have this digest in time; its services must be running."""
    log = reader(settings, "central")
    try:
        follower = ModelFollower(log, settings.definition)
        deadline = time.monotonic() + wait_seconds
        while follower.model is None or follower.model.digest != digest:
            if time.monotonic() >= deadline:
                return False
            follower.poll(BATCH_RECORDS, POLL_SECONDS)
        return True
    finally:
        log.close()


def _without_zeros(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
