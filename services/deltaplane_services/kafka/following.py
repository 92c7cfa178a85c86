"""Following a stream's models: the newest there is, then each newer one, whatever else lies on the topic.

A reader of models takes nothing on trust: bytes that are no model, models of another definition, and versions that are
not higher (those of a merger that no longer is the one) are passed over and said in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from deltaplane.definition import StreamDefinition
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.model import Model
from deltaplane.wire import read_model
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.records import MODELS, Record

logger = logging.getLogger(__name__)
LOOK_BACK_RECORDS = 16
"""How many of the last records are looked at first for the newest model; more, where none of them is one."""


class ModelFollower:
    """Reads the models topic through a reader that it has for itself.

    ``model`` is the newest model so far, None before there is one; ``version`` its version, 0 without one; ``newest``
    the record that brought it. ``refused`` is called for each record that is passed over as no model of this stream.
    Raises :class:`DefinitionMismatch` where the topic holds models, and all of them are of another stream definition.
    """

    def __init__(
        self, log: LogReader, definition: StreamDefinition, refused: Callable[[], None] = lambda: None
    ) -> None:
        self.model: Model | None = None
        self.newest: Record | None = None
        self._log = log
        self._definition = definition
        self._refused = refused
        low, end = log.bounds(MODELS, 0)
        self._find_newest(low, end)
        # Followed from the first poll on: whoever only looks up the newest model has a client read nothing ahead, which
        # cannot be taken back at once. librdkafka (2.16) goes on fetching a partition that was given up while it still
        # asked for the partition's first offset.
        self._follow_from: int | None = end

    @property
    def version(self) -> int:
        """The version of the newest model."""
        return 0 if self.model is None else self.model.version

    def _find_newest(self, low: int, end: int) -> None:
        """Look back from the end, further and further, until there is a model of this stream."""
        back, stop = LOOK_BACK_RECORDS, end
        foreign: DefinitionMismatch | None = None
        while self.model is None and stop > low:
            start = max(low, end - back)
            for record in self._log.read(MODELS, 0, start, stop):
                try:
                    self._take(record)
                except DefinitionMismatch as fault:
                    foreign = fault
            stop, back = start, 8 * back
        if self.model is None and foreign is not None:
            raise foreign

    def _take(self, record: Record) -> bool:
        model = readable_model(record, self._definition)
        if model is None:
            self._refused()
        if model is None or not model.replaces(self.model):
            return False
        self.model, self.newest = model, record
        return True

    def poll(self, most: int, timeout_seconds: float) -> list[Model]:
        """The models that have come since, each newer than the one before it."""
        if self._follow_from is not None:
            self._log.follow([(MODELS, 0, self._follow_from)])
            self._follow_from = None
        found = []
        for record in self._log.poll(most, timeout_seconds):
            try:
                if self._take(record) and self.model is not None:
                    found.append(self.model)
            except DefinitionMismatch as fault:
                self._refused()
                logger.warning("models-0 at offset %d is passed over: %s", record.offset, fault)
        return found

    def close(self) -> None:
        """Leave."""
        self._log.close()


def readable_model(record: Record, definition: StreamDefinition) -> Model | None:
    """The model in a record of the models topic, or None where it is none that this stream can have.

    Raises :class:`DefinitionMismatch` for a model of another stream definition.
    """
    try:
        model = read_model(record.value)
        model.check(definition)
    except WireError as fault:
        logger.warning("models-0 at offset %d is passed over: %s", record.offset, fault)
        return None
    return model
