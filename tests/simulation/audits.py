"""Audits of simulated histories: those of honest ones find nothing, those of forged deltas find what was forged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.log.model_proof import ModelProof
from deltaplane.wire import read_checkpoint, read_model, write_model
from deltaplane_services.processors.account import LostRows, RecomputedSource, account_of_site
from deltaplane_services.processors.messages import CHECKPOINTS, MODELS, Record
from deltaplane_services.processors.model_account import DatedCheckpoint, account_of_model
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


def accounts_of(world: World, *, any_orders: bool = False) -> Mapping[Source, RecomputedSource]:
    """An audit at the newest accepted deltas."""
    states = [world.truth(partition)[-1].state for partition in world.workers]
    bygone = LostRows(world.now, lambda: any_orders)
    return account_of_site(world.definition, SITE, states, BrokerLog(world.broker), bygone)


def check_audit(world: World, *, any_orders: bool = False) -> None:
    """An audit of an honest history finds nothing, and takes next to nothing on trust."""
    for source, account in accounts_of(world, any_orders=any_orders).items():
        assert account.faults == (), f"source {source}: {account.faults}"
        assert account.statistics == world.truth(source.partition)[-1].state.statistics


class ModelsLog:
    """The central logs of a simulated stream; ``models`` are all that were ever written, compacted or not."""

    def __init__(self, broker: RememberingBroker, models: Sequence[Record]) -> None:
        self._broker = broker
        self._models = models

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that a partition still has, and the one behind its last."""
        if topic == MODELS:
            return 0, len(self._models)
        return self._broker.begin(topic, partition), self._broker.end(topic, partition)

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterable[Record]:
        """Its records from one offset up to another, in order."""
        records = self._models if topic == MODELS else self._broker.fetch(topic, partition, start)
        return [record for record in records if start <= record.offset < stop]


def newest_of(models: Sequence[Record]) -> tuple[Model, Record]:
    """The model that readers go by, and its record."""
    found: tuple[Model, Record] | None = None
    for record in models:
        model = read_model(record.value)
        if model.replaces(None if found is None else found[0]):
            found = model, record
    assert found is not None
    return found


def proof_of_model(
    world: World, forged: Model | None = None, log_time: int | None = None
) -> tuple[ModelProof, tuple[str, ...]]:
    """What comes of making the newest model again, or one that somebody writes behind it; and the faults of sources."""
    models = list(world.broker.everything[MODELS, 0])
    if forged is not None:
        models.append(Record(MODELS, 0, len(models), log_time or world.now, None, write_model(forged)))
    model, record = newest_of(models)
    every = world.broker.everything[CHECKPOINTS, 0]
    checkpoints = [
        DatedCheckpoint(read_checkpoint(one.value, world.definition.dimensions), one.log_time) for one in every
    ]
    told = account_of_model(world.definition, model, record, ModelsLog(world.broker, models), checkpoints)
    rebuilt = sum((state.statistics for state in told.states.values()), Statistics(world.definition.dimension))
    return told.prove(model, rebuilt, world.definition), tuple(f for faults in told.faults.values() for f in faults)


def check_model(world: World) -> None:
    """The newest model of an honest history is what its statistics give."""
    proof, faults = proof_of_model(world)
    assert (proof.faults, faults) == ((), ())
    assert proof.rounding == 0.0
