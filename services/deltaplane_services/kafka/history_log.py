"""The log of a stream on Kafka, as far as a history that becomes a source needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from deltaplane.log.delta import Source, SourceState
from deltaplane.log.records import Receipt
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import last_receipts, state_before
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.processors.history_beginning import SourceBounds
from deltaplane_services.processors.messages import DELTAS, RECEIPTS, RETIREMENTS, SAMPLES, Outgoing

__all__ = ["KafkaHistoryLog"]


class KafkaHistoryLog:
    """Reads and appends what a history needs; a context manager. Statistics are central, receipts are of the site."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._definition = settings.definition
        self._settings = settings
        self._central, self._site = reader(settings, "central"), reader(settings, "site")

    def state(self, source: Source) -> SourceState:
        """The accepted state of a source at the end of the log. Raises :class:`DeltaGap`."""
        _, end = self._central.bounds(DELTAS, source.partition % self._definition.partitions)
        return state_before(self._definition, self._central, source, end)

    def receipts(self, source: Source) -> Sequence[Receipt]:
        """All receipts of a source that their topic still holds; what does not decode is passed over."""
        ours = self._definition.stream_fingerprint
        return last_receipts(
            self._site,
            source.partition % self._definition.partitions,
            lambda receipt: receipt.source == source and receipt.stream_fingerprint == ours,
        )

    def bounds_of(self, source: Source) -> SourceBounds:
        """Where the logs of a live source begin and end. Raises :class:`LogUnavailable` and :class:`NotAllowed`."""
        samples, retirements = (self._site.bounds(topic, source.partition) for topic in (SAMPLES, RETIREMENTS))
        return SourceBounds(samples, retirements)

    def append(self, *records: Outgoing) -> None:
        """Append records of one cluster in order, and return once every in-sync replica has all of them.

        Raises :class:`DeliveryFailed` and :class:`NotAllowed`.
        """
        if records:
            out = publisher(self._settings, "site" if records[0].topic == RECEIPTS else "central")
            out.publish(records)
            out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._central.close()
        self._site.close()
