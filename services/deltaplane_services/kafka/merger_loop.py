"""The merger's loop on Kafka: deltas in by offset, models and checkpoints out.

Several mergers may run, and one is elected to publish: the member of their group that has the only partition of the
checkpoints topic. The others wait. A merger that was paused and still believes itself elected does no harm: checkpoints
are compared by offset, model versions that are not higher are ignored, and the elected merger publishes a higher one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from deltaplane.errors import DefinitionMismatch, DeltaGap, LogReplaced
from deltaplane.log.delta import Source
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.claiming import check_deltas_are_there
from deltaplane_services.kafka.clocks import ClockWarnings
from deltaplane_services.kafka.following import ModelFollower, last_models, readable_model
from deltaplane_services.kafka.log_errors import is_passing, raise_if_error
from deltaplane_services.kafka.member import Member
from deltaplane_services.kafka.publishing import Publishers
from deltaplane_services.kafka.recoveries import Recoveries
from deltaplane_services.kafka.service_clients import ServiceClients
from deltaplane_services.kafka.service_loop import ServiceLoop
from deltaplane_services.kafka.set_aside import SetAside
from deltaplane_services.kafka.source_topics import SourceTopics
from deltaplane_services.kafka.topic_watch import ANSWER_SECONDS
from deltaplane_services.observe.metrics import MergerMetrics
from deltaplane_services.processors.announced import other_definition
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, MODELS, Outgoing, Output, Record, source_of_key
from deltaplane_services.processors.recovery import readable_checkpoint

__all__ = ["QUIET_SECONDS", "MergerPace", "MergerService"]

logger = logging.getLogger(__name__)
QUIET_SECONDS = 5.0
"""How long the last record of a log is waited for; a log may end with the mark of a transaction, which is no record."""


@dataclass(frozen=True)
class MergerPace:
    """The pace of a merger: at most one model every ``refresh_seconds``, checkpoints every ``checkpoint_seconds``."""

    refresh_seconds: float = 0.1
    checkpoint_seconds: float = 10.0


class MergerService(ServiceLoop):
    """One merger process, elected or standing by: ``step`` is one turn of its loop.

    After a failure it begins again from the checkpoints.
    """

    going_on = "beginning again"
    _watch: MergerMetrics

    def __init__(
        self,
        definition: StreamDefinition,
        clients: ServiceClients,
        pace: MergerPace,
        watch: MergerMetrics | None = None,
    ) -> None:
        self.definition = definition
        super().__init__(
            watch or MergerMetrics(definition),
            Recoveries(clients.party),
            lambda: Publishers.of_one(clients.central.publisher()),
        )
        self.processor: MergerProcessor | None = None
        self._clients = clients
        self._pace = pace
        self._reader = clients.central.reader()
        self._reader.batch_ends.watch = self._watch
        self._topics = SourceTopics(definition, (clients.central.watch(),), (DELTAS, CHECKPOINTS, MODELS))
        # This raises at once if the stream's models are of another definition.
        ModelFollower(self._reader, definition)
        self._clocks = ClockWarnings(definition)
        # Sources whose last checkpoint was larger than its topic admits.
        self._aside = SetAside[Source]()
        self._published_at = self._checkpointed_at = 0.0
        self._left_out = 0
        self._has_place = False
        # Partition of deltas to the end that it had when this merger began, until that end has been read.
        self._ahead: dict[int, int] = {}
        self._heard_at = 0.0
        self._election = Member(
            clients.consumer,
            [f"{definition.name}.{CHECKPOINTS}"],
            assigned=self._assigned,
            revoked=self._revoked,
            lost=self._revoked,
        )
        self._election.join()

    @property
    def elected(self) -> bool:
        """Whether this merger is elected and works."""
        return self.processor is not None

    # Election --------------------------------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_END) for place in places])
        self._has_place = bool(places)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer
        if places:
            logger.info("standing by")
            self._has_place, self.processor, self._aside = False, None, SetAside[Source]()
            # The client would read ahead, and hold megabytes of deltas for as long as another merger is elected.
            self._reader.follow([])

    def _begin(self) -> MergerProcessor:
        """A processor that goes on from the checkpoints.

        Raises :class:`DeltaGap` if deltas after them are gone, and :class:`LogReplaced` if the newest model has read
        deltas that the log does not have.
        """
        processor = MergerProcessor(self.definition)
        written = list(self._reader.read(CHECKPOINTS, 0))
        ends = {partition: self._reader.bounds(DELTAS, partition)[1] for partition in range(self.definition.partitions)}
        checkpoints = [record for record in written if readable_checkpoint(self.definition, record, ends)]
        if len(checkpoints) < len(written):
            logger.warning(
                "%d records of checkpoints are passed over: none of this stream's%s",
                len(written) - len(checkpoints),
                other_definition(self.definition, written),
            )
        follower = ModelFollower(self._reader, self.definition, self._watch.refused_model)
        check_deltas_are_there(self.definition, follower.model, lambda at: self._reader.bounds(DELTAS, at)[1])
        resume = processor.restore(checkpoints, last_models(self._reader, self.definition, follower.newest))
        if processor.solver_changed is not None:
            logger.warning(
                "the last model was solved with %s. If that was not intended, start this merger again with the newer"
                " definition",
                processor.solver_changed,
            )
        if processor.model is not None:
            # The counters of the metrics go on from the last model, whichever merger made it.
            self._watch.model(processor.model)
        _, end = self._reader.bounds(MODELS, 0)
        starts, ahead = [], {}
        for partition in range(self.definition.partitions):
            begin, ahead[partition] = self._reader.bounds(DELTAS, partition)
            start = resume.get(partition, 0)
            if start < begin:
                raise DeltaGap(
                    f"{self.definition.name}.{DELTAS}-{partition}: the checkpoints go on at offset {start}, the log"
                    f" begins at {begin}; retention has deleted deltas that no checkpoint holds: raise it, and start"
                    " the stream anew"
                )
            starts.append((DELTAS, partition, start))
        self._reader.follow([*starts, (MODELS, 0, end)])
        self._ahead = {partition: ahead[partition] for _, partition, start in starts if start < ahead[partition]}
        self._heard_at = time.monotonic()
        logger.info(
            "elected; going on with %s", ", ".join(f"deltas-{partition} at {start}" for _, partition, start in starts)
        )
        return processor

    # Work ------------------------------------------------------------------------------------------------------------

    def _go_on(self, pause_seconds: float) -> None:
        # Records without an acknowledgement may have arrived: the next beginning finds that out from the log.
        self.processor = None
        time.sleep(pause_seconds)

    def _turn(self, most: int, timeout_seconds: float) -> None:
        for message in self._election.consume(100, 0.0 if self._has_place else timeout_seconds):
            if not is_passing(message):
                raise_if_error(message, self._clients.party)
        if replaced := self._topics.look():
            if self.processor is not None:
                raise LogReplaced(
                    f"{self.definition.name}: the topics {', '.join(replaced)} were deleted and made again while this"
                    " merger worked on them; it ends here. Started again, it says what to do"
                )
            # While the topic is away, the group assigns nothing, and a client would ask again only after minutes.
            self._election.join_anew()
        if self._has_place:
            if self.processor is None:
                # The ids of the topics are asked for again: if topics were made anew after a failure, that must not
                # be taken for a change while this processor works.
                self._topics.look(ANSWER_SECONDS)
                self.processor = self._begin()
            self._work(self.processor, most, timeout_seconds)

    def _work(self, processor: MergerProcessor, most: int, timeout_seconds: float) -> None:
        records = self._reader.poll(most, timeout_seconds)
        # Dead letters are acknowledged BEFORE a checkpoint goes on behind their causes.
        self._publish(processor.process([record for record in records if record.topic == DELTAS]))
        for record in records:
            if record.topic == MODELS:
                self._see_model(processor, record)
        now = time.monotonic()
        checkpoint_due = now - self._checkpointed_at >= self._pace.checkpoint_seconds
        model_due = checkpoint_due or now - self._published_at >= self._pace.refresh_seconds
        caught_up = self._has_caught_up(records, now)
        if caught_up and model_due:
            began = time.perf_counter()
            output = processor.publish(time.time_ns() // 1_000_000)
            self._watch.solved(time.perf_counter() - began, output)
            if output.then:
                self._watch.deviations(processor.deviations())
            self._publish(output)
            self._published_at = now
            self._tell_left_out(processor)
        if caught_up and checkpoint_due:
            self._publish_checkpoints(processor, now)
            self._checkpointed_at = now
        self._publishers.then.check()

    def _publish_checkpoints(self, processor: MergerProcessor, now: float) -> None:
        """Publish the checkpoints of sources that have changed; one that is too large for its topic stops no other.

        They go out once a model that has come as far is acknowledged. A merger that starts from checkpoints ahead of
        every model would lose the prequential counts between the two.
        """
        self._publishers.then.flush()
        waiting = [source for source in self._aside.reasons if not self._aside.may_try(source, now)]
        output = processor.checkpoints(waiting)
        self._publish(Output(output.first))
        self._publishers.then.publish(output.then, partial(self._checkpoint_answered, processor))

    def _checkpoint_answered(self, processor: MergerProcessor, record: Outgoing, *, fits: bool) -> None:
        source, now = source_of_key(record.key), time.monotonic()
        if fits:
            self._aside.take(source, now)
            return
        processor.not_checkpointed(source)
        size = len(record.value or b"")
        reason = (
            f"checkpoint of source {source}: its {size:,} bytes, unpacked, are more than {self.definition.name}."
            f"{CHECKPOINTS} admits (max.message.bytes). Models go on. A merger that starts anew must read what came"
            " since the checkpoint before it, which works as long as the deltas are kept. Raise it: deltaplane topics"
            f" check names the value; or, if nobody knows the source: deltaplane source remove {source}"
        )
        said = source in self._aside.reasons
        pause = self._aside.put(source, reason, now)
        if not said:
            logger.error("%s; tried again after %.0f s and more", reason, pause)

    def _tell_left_out(self, processor: MergerProcessor) -> None:
        if processor.classes_left_out != self._left_out:
            self._left_out = processor.classes_left_out
            logger.warning(
                "%d live classes are not in the model, which has the %d with the most rows; made-up labels? look at the"
                " dead letters, declare the classes, or bound them with classes.most",
                self._left_out,
                self.definition.most_classes,
            )

    def _has_caught_up(self, records: Sequence[Record], now: float) -> bool:
        """Whether all deltas that were there at the beginning have been read.

        Until then no model is published, since it could contain less than the model before it, or a row that was
        retired there.
        """
        for record in records:
            if record.topic == DELTAS and record.offset + 1 >= self._ahead.get(record.partition, 0):
                self._ahead.pop(record.partition, None)
            self._heard_at = now
        # Silence alone is not enough: a client that meets a batch which it cannot read is silent, too.
        at_the_ends = all(self._reader.has_ended(DELTAS, partition) for partition in self._ahead)
        if self._ahead and at_the_ends and now - self._heard_at > QUIET_SECONDS:
            logger.warning("no record came up to the ends %s; what there is has been read", self._ahead)
            self._ahead.clear()
        return not self._ahead

    def _see_model(self, processor: MergerProcessor, record: Record) -> None:
        """Take note of a model on its topic: this merger's own, or that of another that believes itself elected."""
        try:
            model = readable_model(record, self.definition)
        except DefinitionMismatch as fault:
            self._watch.refused_model()
            logger.warning("models-0 at offset %d is passed over: %s", record.offset, fault)
        else:
            if model is None:
                self._watch.refused_model()
            else:
                processor.see_model(model)
                self._watch.model(model)

    def tell(self) -> None:
        """Give the metrics the state of this merger; called after every turn."""
        processor = self.processor
        self._watch.topics(self._topics.faults())
        self._watch.turn(
            None if processor is None else processor.verdicts,
            joined=self._election.joined,
            has_place=self._has_place,
            caught_up=not self._ahead,
            void_prequential_counts=0 if processor is None else processor.void_prequential_counts,
            ignored_watermarks=0 if processor is None else processor.ignored_watermarks,
        )
        self._watch.checkpoints(refused=len(self._aside.reasons))
        if processor is not None:
            self._clocks.tell_ignored("deltas and checkpoints", processor.ignored_watermarks)
        self._watch.look_at_lags(lambda: {} if processor is None else self._reader.lags())

    def _publish(self, output: Output) -> None:
        self._watch.published(output.first)
        super()._publish(output)

    def _finish(self) -> None:
        """Publish a last model and checkpoints."""
        if self.processor is not None and not self._ahead:
            self._publish(self.processor.publish(time.time_ns() // 1_000_000))
            self._publish_checkpoints(self.processor, time.monotonic())

    def _leave(self) -> None:
        self._election.close()
        self._reader.close()
