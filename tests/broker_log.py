"""The log of a stream on an embedded broker, as a history that becomes a source sees it, and its process that dies."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane.log.delta import Source, SourceState
from deltaplane.log.records import Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_receipt
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.processors.acceptance import SourceHistory, nothing_of
from deltaplane_services.processors.messages import DELTAS, RECEIPTS, Outgoing
from lake_tables import DEFINITION


class Killed(Exception):
    """The process is gone."""


@dataclass
class BrokerLog:
    """The log on an embedded broker; the process that uses it dies before or after one of its records."""

    broker: EmbeddedBroker
    definition: StreamDefinition = DEFINITION
    dies_before: int | None = None
    appended: int = 0

    def state(self, source: Source) -> SourceState:
        history = SourceHistory(self.definition, nothing_of(self.definition, source))
        for _ in history.follow(self.broker.fetch(DELTAS, 0, 0)):
            pass
        return history.state

    def receipts(self, source: Source) -> list[Receipt]:
        found = (read_receipt(record.value) for record in self.broker.fetch_topic(RECEIPTS))
        return [receipt for receipt in found if receipt.source == source]

    def append(self, *records: Outgoing) -> None:
        for record in records:
            if self.appended == self.dies_before:
                raise Killed
            self.broker.append(record, 0)
            self.appended += 1
