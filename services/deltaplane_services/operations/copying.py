"""The part of a log that a stream's state depends on, read and passed on: to another stream, or to a file.

For each source this is: the samples from the oldest live row on, and the retirements from the oldest remembered one on.
Both offsets are in every delta, because a worker that takes a source over needs them too. Copying begins there, and
follows the log until nothing new has come for a while. The model whose positions are the ends of what was copied gives
the digest that a copy must have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from deltaplane.errors import DeltaplaneError
from deltaplane.log.delta import SourceState
from deltaplane.log.model import Model
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import WENT_BY_CONTENT, readable_checkpoints, rows_went_by_content, state_at
from deltaplane_services.kafka.clients import publisher, reader, readers
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
]

BATCH_RECORDS = 500
POLL_SECONDS = 0.1
MODEL_WAIT_SECONDS = 30.0

Place = tuple[str, int]
"""(topic, partition)."""


class CannotCopy(DeltaplaneError):
    """A stream cannot be copied; the text says why."""


@dataclass(frozen=True)
class Copied:
    """``counts`` of records and rows, and the ``model`` that contains exactly what was copied, or None."""

    counts: Mapping[str, int]
    model: Model | None


def copy_stream(
    old: ServiceSettings, new: ServiceSettings, regroup: Regroup, idle_seconds: float, *, whole_log: bool = False
) -> Copied:
    """Copy the live part of a stream's log at one site onto the empty topics of another stream.

    ``whole_log`` copies the whole log instead. Raises :class:`CannotCopy` if there is nothing to copy, or if the other
    stream is not empty.
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
    """The model that contains exactly the records that were passed on; None if no such model has come.

    Passes on all records at this site that the state of the stream depends on, then new ones, until none has come for
    ``idle_seconds``. ``whole_log`` begins at the start of the log, which may be long before the oldest live row.
    Records of removed sources are left out. ``begin`` is called first, with the labels of open classes that each
    partition had admitted.
    """
    with readers(settings) as (central, site):
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


def _starts(
    settings: ServiceSettings, central: LogReader, site: LogReader, *, whole_log: bool
) -> tuple[dict[Place, int], Labels]:
    """The first offset of each partition of samples and retirements, and the labels that each partition has admitted.

    Partitions of removed sources are left out: the state of the stream contains nothing of them.
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
        # If no source of a partition is in the model, the stream has never read it, and misses no row of it.
        if start < begin and any(p.source.partition == partition for p in follower.model.positions):
            raise CannotCopy(
                f"{settings.definition.name}.{topic}-{partition}: its live part begins at offset {start}, the log at"
                f" {begin}; retention has deleted rows that count, so a copy could not be the same"
            )
    return starts, labels


def _check_log_says_all(settings: ServiceSettings, state: SourceState) -> None:
    if rows_went_by_content(settings.definition, state.counts):
        raise CannotCopy(f"source {state.source}: {WENT_BY_CONTENT}; a copy of the log would not be the same")


def _model_at(settings: ServiceSettings, central: LogReader, ends: Mapping[Place, int]) -> Model | None:
    """The model that ends exactly at ``ends``; None if the stream has gone on, or does not get there in time."""
    follower = ModelFollower(central, settings.definition)
    deadline = time.monotonic() + MODEL_WAIT_SECONDS
    while True:
        model = follower.model
        behind = False
        for position in () if model is None else model.positions:
            if position.source.site == settings.site and not position.removed:
                at, partition = (position.samples, position.retirements), position.source.partition
                if (SAMPLES, partition) not in ends:
                    # The source was removed at the start, and has been admitted again since.
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
    with closing(reader(settings, "site")) as log:
        for topic in (SAMPLES, RETIREMENTS):
            for partition in range(settings.definition.partitions):
                begin, end = log.bounds(topic, partition)
                if end:
                    raise CannotCopy(
                        f"{settings.definition.name}.{topic}-{partition}: expected an empty stream, got records from"
                        f" {begin} to {end}; copy to a stream of a new name"
                    )


def publish_all(settings: ServiceSettings, records: Iterable[Outgoing]) -> None:
    """Publish records onto the empty topics of a stream, in order. Raises :class:`CannotCopy` if they are not empty."""
    _check_empty(settings)
    out = publisher(settings, "site")
    for record in records:
        out.publish((record,))
    out.flush()


def _without_zeros(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
