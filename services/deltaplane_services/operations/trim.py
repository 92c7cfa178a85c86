"""Deleting samples and retirements that no window needs, up to the offsets that the checkpoints give.

The checkpoints are those in their topic: written and acknowledged by some merger, and the ones that the next merger
begins from. Each source of this site has its own. A source keeps its log if its checkpoint contradicts itself or the
log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from deltaplane.errors import DeltaplaneError
from deltaplane.log.delta import Source
from deltaplane.log.records import Checkpoint
from deltaplane.log.trimming import LogSpans, TrimMargin, TrimPoint, Untouched, trim_point
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import readable_checkpoints
from deltaplane_services.kafka.admin_questions import admin_client
from deltaplane_services.kafka.clients import readers
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.membership import Principal, is_refusal
from deltaplane_services.kafka.topic_plans import topic_name
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES
from deltaplane_services.system.background import repeat_in_background

__all__ = [
    "ANSWER_SECONDS",
    "CannotTrim",
    "LogTrim",
    "Place",
    "TrimPlan",
    "Trimming",
    "apply_trims",
    "plan_trim",
    "trimmed",
]

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0

Place = tuple[str, int]
"""(topic without the stream's prefix, partition)."""


class CannotTrim(DeltaplaneError):
    """Records could not be deleted."""


@dataclass(frozen=True)
class LogTrim:
    """One log of a source: it now begins at offset ``begin``, and may begin at offset ``to``."""

    source: Source
    topic: str
    begin: int
    to: int
    end: int

    @property
    def records(self) -> int:
        """The number of offsets to delete; if the log has gaps, there are fewer records."""
        return self.to - self.begin

    @property
    def place(self) -> Place:
        """Topic and partition of the log."""
        return self.topic, self.source.partition


@dataclass(frozen=True)
class TrimPlan:
    """What can be deleted, log by log, and the sources of which nothing can be deleted."""

    trims: tuple[LogTrim, ...]
    untouched: tuple[Untouched, ...]


def plan_trim(settings: ServiceSettings, margin: TrimMargin) -> TrimPlan:
    """What the sources of this site no longer need, by their newest checkpoints. Raises :class:`LogUnavailable`."""
    with readers(settings) as (central, site):
        newest: dict[Source, Checkpoint] = {}
        for checkpoint in readable_checkpoints(settings, central):
            source = checkpoint.state.source
            mine = source.site == settings.site and source.partition < settings.definition.partitions
            if mine and (source not in newest or checkpoint.next_offset > newest[source].next_offset):
                newest[source] = checkpoint
        trims: list[LogTrim] = []
        untouched: list[Untouched] = []
        for source in sorted(newest):
            spans = _spans(site, source)
            point = trim_point(settings.definition, newest[source].state, spans, margin)
            if isinstance(point, TrimPoint):
                trims += _trims(point, spans)
            else:
                untouched.append(point)
        return TrimPlan(tuple(trims), tuple(untouched))


def _spans(site: LogReader, source: Source) -> LogSpans:
    samples, retirements = site.bounds(SAMPLES, source.partition), site.bounds(RETIREMENTS, source.partition)
    return LogSpans(*samples, *retirements)


def _trims(point: TrimPoint, spans: LogSpans) -> list[LogTrim]:
    return [
        LogTrim(point.source, SAMPLES, spans.samples_begin, point.samples, spans.samples_end),
        LogTrim(point.source, RETIREMENTS, spans.retirements_begin, point.retirements, spans.retirements_end),
    ]


def apply_trims(settings: ServiceSettings, trims: Sequence[LogTrim]) -> dict[Place, int]:
    """Place to the offset at which its log begins now, after the brokers have deleted what can go.

    Raises :class:`NotAllowed` if a right is missing, and :class:`CannotTrim` for any other refusal. All logs are asked
    for in one request, so the others may have been trimmed even then.
    """
    wanted = [trim for trim in trims if trim.records > 0]
    if not wanted:
        return {}
    properties = settings.admin_properties("site")
    client = admin_client(properties, "site")
    names = {trim.place: topic_name(settings.definition, trim.topic) for trim in wanted}
    asked = [TopicPartition(names[trim.place], trim.source.partition, trim.to) for trim in wanted]
    futures = client.delete_records(asked, request_timeout=ANSWER_SECONDS, operation_timeout=ANSWER_SECONDS)
    of = {(name, place[1]): place for place, name in names.items()}
    begins = {}
    for at, future in futures.items():
        try:
            begins[of[at.topic, at.partition]] = future.result().low_watermark
        except KafkaException as fault:
            error = fault.args[0] if fault.args else None
            if is_refusal(error):
                raise Principal.of(properties).not_allowed("Delete", f"records of topic {at.topic}", error) from None
            said = error.str() if isinstance(error, KafkaError) else str(fault)
            raise CannotTrim(f"kafka: {at.topic}-{at.partition} cannot be trimmed to {at.offset}: {said}") from None
    return begins


def trimmed(
    settings: ServiceSettings,
    is_elected: Callable[[], bool],
    tell: Callable[[Mapping[Place, int], Mapping[Place, int]], None],
) -> contextlib.AbstractContextManager[None]:
    """Delete what no window needs at intervals, within the block, as long as this merger is elected.

    ``tell`` is called with the number of records deleted and the beginning of each log. Does nothing if
    ``trim_seconds`` is 0, if a window is over everything, or if the site has a cluster of its own: the merger may not
    reach that cluster, and ``deltaplane topics trim`` is to be run there.
    """
    knobs, nested_windows = settings.knobs, settings.definition.nested_windows
    if not knobs.trim_seconds or nested_windows.endless or not settings.one_cluster:
        return contextlib.nullcontext()
    return repeat_in_background("trim", knobs.trim_seconds, Trimming(settings, is_elected, tell).turn)


class Trimming:
    """The deletions of an elected merger: each turn deletes what the turn before found.

    So a reader that started on records which were still needed has a whole turn to get past them.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        is_elected: Callable[[], bool],
        tell: Callable[[Mapping[Place, int], Mapping[Place, int]], None],
        margin: TrimMargin | None = None,
    ) -> None:
        self._settings, self._is_elected, self._tell = settings, is_elected, tell
        self._margin = margin or TrimMargin()
        self._found: dict[tuple[Source, str], int] = {}
        self._said: dict[Source, str] = {}

    def turn(self) -> None:
        """Delete what the turn before found, and look for what the next may delete. Raises :class:`DeltaplaneError`."""
        if not self._is_elected():
            self._found.clear()
            return
        plan = plan_trim(self._settings, self._margin)
        trims = [
            LogTrim(trim.source, trim.topic, trim.begin, min(trim.to, self._found[trim.source, trim.topic]), trim.end)
            for trim in plan.trims
            if (trim.source, trim.topic) in self._found
        ]
        self._found = {(trim.source, trim.topic): trim.to for trim in plan.trims}
        for untouched in plan.untouched:
            if self._said.get(untouched.source) != untouched.reason:
                self._said[untouched.source] = untouched.reason
                logger.info("source %s keeps its log: %s", untouched.source, untouched.reason)
        # If the election was lost meanwhile, no harm is done: any elected merger would delete the same.
        begins = apply_trims(self._settings, trims)
        gone = {trim.place: trim.records for trim in trims if trim.place in begins}
        for (topic, partition), records in gone.items():
            begin = begins[topic, partition]
            logger.info("%s-%d: let go of %d records, it begins at %d now", topic, partition, records, begin)
        self._tell(gone, {trim.place: begins.get(trim.place, trim.begin) for trim in plan.trims})
