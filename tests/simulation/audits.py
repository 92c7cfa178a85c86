"""Audits of simulated histories: those of honest ones find nothing, those of forged deltas find what was forged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deltaplane.log.delta import Source
from deltaplane_services.processors.account import Account, Bygone, account_of_site
from deltaplane_services.processors.messages import Record
from simulation.world import SITE, RememberingBroker, World


class BrokerLog:
    """The logs of a simulated site, in batches of so many records."""

    def __init__(self, broker: RememberingBroker, most: int = 7) -> None:
        self._broker = broker
        self._most = most

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that a partition still has, and the one behind its last."""
        return self._broker.begin(topic, partition), self._broker.end(topic, partition)

    def batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Sequence[Record]]:
        """Its records from one offset up to another, in order."""
        if start >= stop:
            return
        records = [one for one in self._broker.fetch(topic, partition, start) if one.offset < stop]
        for begin in range(0, len(records), self._most):
            yield records[begin : begin + self._most]


def accounts_of(world: World, *, any_orders: bool = False) -> Mapping[Source, Account]:
    """An audit at the newest accepted deltas."""
    states = [world.truth(partition)[-1].state for partition in world.workers]
    bygone = Bygone(world.now, lambda: any_orders)
    return account_of_site(world.definition, SITE, states, BrokerLog(world.broker), bygone)


def check_audit(world: World, *, any_orders: bool = False) -> None:
    """An audit of an honest history finds nothing, and takes next to nothing on trust."""
    for source, account in accounts_of(world, any_orders=any_orders).items():
        assert account.faults == (), f"source {source}: {account.faults}"
        assert account.statistics == world.truth(source.partition)[-1].state.statistics
