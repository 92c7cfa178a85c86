"""What a dead worker sent arrives late: a delta again, a delta of a source it no longer owns, and a claim.

Requests that a broker has received outlive the process that sent them. That they arrive at the worst of times is left
to chance elsewhere; here it is made to happen. Any of these deltas, were it accepted, would count rows twice, and the
claim makes every delta of the true owner worthless until it claims again.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from deltaplane.errors import WireError
from deltaplane.log.delta import Claim, Delta, Tile
from deltaplane.wire import read_claim_or_delta, write_claim, write_delta
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.publishing import DeliveryFailed
from deltaplane_services.processors.messages import DELTAS, Outgoing, Record

LOOK_BACK_RECORDS = 100


class LateRecords:
    """Appends to the deltas of a stream in the name of workers that are no more."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._log = reader(settings, "central")

    def arrive(self, random: Random, partition: int | None = None) -> bool:
        """Append them to a partition, or to any; False where there is nothing to repeat yet, or a broker is away."""
        definition = self._settings.definition
        partition = random.randrange(definition.partitions) if partition is None else partition
        out = publisher(self._settings, "central")
        try:
            _, end = self._log.bounds(DELTAS, partition)
            records = list(self._log.read(DELTAS, partition, end - LOOK_BACK_RECORDS, end))
            deltas = [(record, delta) for record in records if (delta := self._delta(record)) is not None]
            if not deltas:
                return False
            last = deltas[-1][1]
            dead = f"dead-{random.randrange(2**40):x}.1"
            # Exactly where the next tile begins: only its writer is wrong.
            after = last.tile.samples_to, last.tile.retirements_to
            tile = Tile(last.tile.sequence + 1, after[0], after[0], after[1], after[1])
            late = (
                random.choice(deltas)[0].value,
                write_delta(replace(last, writer=dead, tile=tile)),
                write_claim(Claim(last.source, dead, definition.stream_fingerprint)),
            )
            out.publish(Outgoing(DELTAS, partition, records[-1].key, value) for value in late)
            out.flush()
        except (DeliveryFailed, LogUnavailable):
            return False
        return True

    def _delta(self, record: Record) -> Delta | None:
        try:
            read = read_claim_or_delta(record.value, self._settings.definition.dimensions)
        except WireError:
            return None
        return read if isinstance(read, Delta) else None

    def close(self) -> None:
        """Leave."""
        self._log.close()
