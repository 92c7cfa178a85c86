"""The messages of one poll of a worker, sorted by partition: records, ends of logs, and errors of one partition."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.log import record_of
from deltaplane_services.kafka.log_errors import is_end, is_passing, raise_if_error
from deltaplane_services.kafka.membership import NotAllowed, Principal, refuse_fatal
from deltaplane_services.kafka.unpacking import BatchEnds, does_not_unpack, once, stand_in
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record

__all__ = ["Arrivals", "Poll", "sorted_poll"]

logger = logging.getLogger(__name__)


@dataclass
class Arrivals:
    """What came for one partition.

    ``records``: topic to records, in order. ``ends``: topic to the offset of its end, if the client has reached it.
    ``fault``: an error that concerns this partition alone.
    """

    records: dict[str, list[Record]] = field(default_factory=lambda: {SAMPLES: [], RETIREMENTS: []})
    ends: dict[str, int] = field(default_factory=dict)
    fault: DeltaplaneError | None = None


@dataclass
class Poll:
    """All that one poll brought, by partition.

    ``go_on``: the client stands before a batch that does not unpack, and must be told to read on behind it.
    ``record_bytes``: the average size of a record's value; None if no record came.
    """

    of: dict[int, Arrivals] = field(default_factory=dict)
    go_on: bool = False
    record_bytes: float | None = None

    def add(self, message: Message, prefix: str, batch_ends: BatchEnds, party: Principal) -> int:
        """The number of bytes of a message's value, after the message has been sorted in; 0 for an error.

        Raises an error that concerns the whole client.
        """
        partition, offset = message.partition(), message.offset()
        topic = (message.topic() or "").removeprefix(f"{prefix}.")
        # An error is looked at before anything else of its message: it may have neither offset nor partition.
        if message.error() is None or does_not_unpack(message):
            record = record_of(message, prefix)
            if does_not_unpack(message):
                place = batch_ends.behind(message)
                logger.warning("%s: offsets %d to %d do not unpack", place.topic, record.offset, place.offset - 1)
                record, self.go_on = stand_in(record), True
            self.of.setdefault(record.partition, Arrivals()).records[record.topic].append(record)
            return len(record.value or b"")
        if is_end(message) and partition is not None and offset is not None:
            self.of.setdefault(partition, Arrivals()).ends[topic] = offset
        elif not is_passing(message):
            try:
                raise_if_error(message, party)
            except NotAllowed:
                raise
            except DeltaplaneError as fault:
                if partition is None or partition < 0 or topic not in (SAMPLES, RETIREMENTS):
                    raise
                self.of.setdefault(partition, Arrivals()).fault = fault
        return 0


def sorted_poll(messages: Sequence[Message], prefix: str, batch_ends: BatchEnds, party: Principal) -> Poll:
    """The messages of one poll, by partition; ``prefix`` is the stream's name.

    Raises :class:`LogUnavailable` for an error that concerns more than one partition, and :class:`NotAllowed` and
    :class:`MembershipLost`.
    """
    refuse_fatal((message.error() for message in messages), party)
    poll, sizes = Poll(), []
    for message in once(messages):
        size = poll.add(message, prefix, batch_ends, party)
        if message.error() is None:
            sizes.append(size)
    if sizes:
        poll.record_bytes = max(1.0, sum(sizes) / len(sizes))
    return poll
