"""Following a stream's models: the newest there is, then each newer one, whatever else lies on the topic.

Records that are no usable model are skipped: bytes that are no model and models of another definition, which are
logged, and versions that are not higher (those of a merger that is no longer elected).

The topic itself may go. If it is gone, cannot be read on, or was deleted and made again, its newest model is looked up
as at the start, as soon as that is possible; on a new topic, versions begin again. Until then the last model stays in
force, and ``stale`` says why it is not renewed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaException

from deltaplane.errors import DefinitionMismatch
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.topic_watch import TopicWatch
from deltaplane_services.processors.announced import explained_mismatch
from deltaplane_services.processors.codec import Codec, Undecodable
from deltaplane_services.processors.messages import MODELS, Record

__all__ = ["LOOK_BACK_RECORDS", "TRY_AGAIN_SECONDS", "ModelFollower", "last_models", "readable_model"]

logger = logging.getLogger(__name__)
LOOK_BACK_RECORDS = 16
"""The number of last records that are first searched for the newest model; if none of them is one, more are."""

TRY_AGAIN_SECONDS = 1.0, 30.0
"""The first and the longest pause between attempts to begin anew; it doubles in between."""


class ModelFollower:
    """Follows the models topic, through a reader that nothing else uses.

    - ``model``: the newest model so far; None before there is one.
    - ``version``: its version; 0 without one.
    - ``newest``: the record that brought it.
    - ``log_times``: when the models that the last poll gave were appended to their topic, in milliseconds.
    - ``stale``: why it is not renewed, in words; None as long as the topic is followed.

    ``refused`` is called for each record that is skipped as no model of this stream. With a ``watch``, a topic that was
    made anew is recognised by its id. Without, it is noticed only if its end lies before what was read.

    Raises :class:`DefinitionMismatch` if the topic holds models, and all of them are of another stream definition.
    """

    def __init__(
        self,
        log: LogReader,
        definition: StreamDefinition,
        refused: Callable[[], None] = lambda: None,
        watch: TopicWatch | None = None,
    ) -> None:
        self.model: Model | None = None
        self.newest: Record | None = None
        self.log_times: list[int] = []
        self.stale: str | None = None
        self._log = log
        self._definition = definition
        self._refused = refused
        self._watch, self._id = watch, ""
        self._name = f"{definition.name}.{MODELS}"
        # The model in force if it came from an earlier log: any model of the log that is followed now replaces it.
        self._of_before: Model | None = None
        self._lost = False
        self._try_at, self._pause_seconds = 0.0, TRY_AGAIN_SECONDS[0]
        low, end = log.bounds(MODELS, 0)
        self._find_newest(low, end)
        # Following begins with the first poll, since some callers only look up the newest model. For these the client
        # must not read ahead, which cannot be stopped at once: librdkafka (2.16) goes on fetching a partition that was
        # given up while the client was still asking for its first offset.
        self._follow_from: int | None = end

    @property
    def version(self) -> int:
        """The version of the newest model."""
        return 0 if self.model is None else self.model.version

    def _find_newest(self, low: int, end: int) -> None:
        """Search backwards from the end, in growing steps, until a model of this stream is found."""
        back, stop = LOOK_BACK_RECORDS, end
        foreign: DefinitionMismatch | None = None
        while self.newest is None and stop > low:
            start = max(low, end - back)
            for record in self._log.read(MODELS, 0, start, stop):
                try:
                    self._take(record)
                except DefinitionMismatch as fault:
                    foreign = fault
            stop, back = start, 8 * back
        if self.newest is None and foreign is not None:
            raise foreign

    def _take(self, record: Record) -> bool:
        model = readable_model(record, self._definition)
        if model is None:
            self._refused()
        if model is None or not (self.model is self._of_before or model.replaces(self.model)):
            return False
        self.model, self.newest, self._of_before = model, record, None
        return True

    def poll(self, most: int, timeout_seconds: float) -> list[Model]:
        """The models that have come since the last call, each newer than the one before it.

        The first may also be the newest of a topic that was made anew. If the topic cannot be followed, ``stale`` says
        why, and nothing is raised but :class:`NotAllowed`.
        """
        self.log_times = []
        try:
            self._look()
            if not self._lost:
                return self._polled(most, timeout_seconds)
            if time.monotonic() >= self._try_at:
                found = self._begin_anew()
                self.log_times = [self.newest.log_time] if found and self.newest is not None else []
                return found
        except (LogUnavailable, DefinitionMismatch, KafkaException) as fault:
            self._lose(str(fault))
        time.sleep(timeout_seconds)
        return []

    def _polled(self, most: int, timeout_seconds: float) -> list[Model]:
        if self._follow_from is not None:
            self._log.follow([(MODELS, 0, self._follow_from)])
            self._follow_from = None
        found = []
        for record in self._log.poll(most, timeout_seconds):
            try:
                if self._take(record) and self.model is not None:
                    found.append(self.model)
                    self.log_times.append(record.log_time)
            except DefinitionMismatch as fault:
                self._refused()
                logger.warning("models-0 at offset %d is passed over: %s", record.offset, fault)
        if found and self.stale is not None:
            self._recover()
        return found

    def _look(self) -> None:
        """Stop following a topic that is gone, or was made anew."""
        if self._watch is None:
            return
        self._watch.turn()
        found = self._watch.ids.get(self._name, "")
        if self._name in self._watch.missing:
            if not self._lost:
                self._lose(f"{self._name} is gone")
        elif found and found != self._id:
            if self._id and not self._lost:
                self._lose(f"{self._name} was deleted and made again")
            self._id = found

    def _lose(self, why: str) -> None:
        """Keep the last model in force, and try again later."""
        self._lost, now = True, time.monotonic()
        self._try_at = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, TRY_AGAIN_SECONDS[1])
        if self.stale != why:
            kept = "there is no model" if self.model is None else f"model {self.model.version} stays in force"
            logger.warning("%s; %s, and the topic is looked up again", why, kept)
        self.stale = why

    def _recover(self) -> None:
        in_force = "there is no model yet" if self.model is None else f"model {self.version} is in force"
        logger.warning("%s is followed again; %s", self._name, in_force)
        self.stale, self._pause_seconds = None, TRY_AGAIN_SECONDS[0]

    def _begin_anew(self) -> list[Model]:
        """The newest model, looked up as at the start and followed from there; none if it is the one in force."""
        if self._watch is not None and (self._watch.silence is not None or self._name in self._watch.missing):
            return []
        low, end = self._log.bounds(MODELS, 0)
        before = self._forget()
        try:
            self._find_newest(low, end)
        finally:
            found = self.newest
            if found is None:
                self.newest = before
        self._lost, self._follow_from = False, end
        if found is None and self.model is None:
            # It never held one: nothing is out of date, and the first that comes is awaited as at the start.
            self._recover()
            return []
        if found is None:
            self.stale = f"{self._name} holds no model any more"
            logger.warning("%s; what comes is taken, whatever its version", self.stale)
            return []
        self._recover()
        assert self.model is not None
        return [] if before is not None and before.value == found.value else [self.model]

    def _forget(self) -> Record | None:
        """The record of the model in force, which any model that comes replaces from now on."""
        before, self.newest, self._of_before = self.newest, None, self.model
        return before

    def close(self) -> None:
        """Close the reader, and the watch if there is one."""
        self._log.close()
        if self._watch is not None:
            self._watch.close()


def readable_model(record: Record, definition: StreamDefinition) -> Model | None:
    """The model in a record of the models topic; None if it is no model, which is logged.

    Raises :class:`DefinitionMismatch` for a model of another stream definition.
    """
    model = Codec.model(record)
    if isinstance(model, Undecodable):
        logger.warning("models-0 at offset %d is passed over: %s", record.offset, model.fault)
        return None
    try:
        model.check(definition)
    except DefinitionMismatch as fault:
        raise explained_mismatch(definition, record, fault) from None
    return model


def last_models(log: LogReader, definition: StreamDefinition, newest: Record | None) -> Iterator[Record]:
    """The models of this stream among the last records of the models topic, up to the newest; nothing if it is None."""
    if newest is None:
        return
    low, _ = log.bounds(MODELS, 0)
    for record in log.read(MODELS, 0, max(low, newest.offset - LOOK_BACK_RECORDS), newest.offset):
        model = Codec.model(record)
        with contextlib.suppress(DefinitionMismatch):
            if not isinstance(model, Undecodable):
                model.check(definition)
                yield record
    yield newest
