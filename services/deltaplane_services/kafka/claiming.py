"""Taking a source over: a fencing claim in the deltas topic, and the state of the source that the log gives.

The state is compared with the logs: if it has read further than a log reaches, or was read from another topic of the
same name, it is no state of these logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from deltaplane.errors import LogReplaced
from deltaplane.log.delta import SourceState
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.accepted import state_before
from deltaplane_services.kafka.assigned_source import AssignedSource
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.publishing import Publisher
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.recovery import accepted_state
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["Claims", "check_deltas_are_there"]

logger = logging.getLogger(__name__)


def check_deltas_are_there(definition: StreamDefinition, model: Model | None, end_of: Callable[[int], int]) -> None:
    """Raise :class:`LogReplaced` if a model has read deltas that their log does not have.

    ``end_of`` returns the end of a partition of the deltas topic, asked for after the model was read.
    """
    for position in () if model is None else model.positions:
        partition = position.source.partition % definition.partitions
        if position.read_to > (end := end_of(partition)):
            name = definition.name
            raise LogReplaced(
                f"source {position.source}: the newest model has read {name}.{DELTAS}-{partition} up to offset"
                f" {position.read_to}, the log ends at {end}; the topic was made anew, or has lost its end."
                f" The samples are the state: stop the stream's services, delete the topics {name}.{DELTAS},"
                f" {name}.{CHECKPOINTS} and {name}.models, make them with deltaplane topics create, and start the"
                " services; they read the samples topics again from their beginning"
            )


@dataclass(frozen=True)
class Claims:
    """Claims sources of a stream; ``publisher`` and ``log`` are of the central cluster, ``site_log`` of the site's."""

    definition: StreamDefinition
    publisher: Publisher
    log: LogReader
    site_log: LogReader

    def claim(self, processor: WorkerProcessor, model: Model | None) -> tuple[Record, SourceState]:
        """(the record of a claim that is appended, the accepted state of the source just before it).

        ``model`` is the newest that is known. Raises :class:`DeltaGap` if deltas are gone that no checkpoint holds, and
        :class:`LogReplaced` if the model has read deltas that the log does not have.
        """
        claim, source = processor.claim(), processor.source
        # This comes before anything is appended: in time, claims alone would make a new log as long as the old one.
        check_deltas_are_there(self.definition, model, lambda partition: self.log.bounds(DELTAS, partition)[1])
        offset = self.publisher.publish_and_wait(claim)
        before = state_before(self.definition, self.log, source, offset)
        return Record(DELTAS, claim.partition, offset, 0, claim.key, claim.value), before

    def take(self, processor: WorkerProcessor, model: Model | None) -> AssignedSource:
        """A source that has been claimed for a new life, at the state that the log gives; its window is to be rebuilt.

        ``model`` is the newest that is known. Raises :class:`SourceRemoved` for a source that was removed,
        :class:`LogReplaced` if its state is not of these logs, and :class:`DeltaGap` if they have lost what a rebuild
        needs.
        """
        source = processor.source
        claim, before = self.claim(processor, model)
        accepted = accepted_state(self.definition, before, [claim], claim.offset)
        resume = processor.restore(accepted, claim.offset)
        samples, retirements = (self.site_log.bounds(topic, source.partition) for topic in (SAMPLES, RETIREMENTS))
        processor.check_ends(samples[1], retirements[1])
        processor.skip_to(max(resume.samples, samples[0]), max(resume.retirements, retirements[0]))
        logger.info(
            "claimed %s as %s at tile %d, reading samples from %d, retirements from %d",
            source,
            processor.writer,
            accepted.sequence,
            *processor.position,
        )
        rebuild_to = accepted.samples_position, accepted.retirements_position
        return AssignedSource(processor, accepted.sequence, rebuild_to)
