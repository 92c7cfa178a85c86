"""``bench throughput --broker``: rows a second from a producer through a broker, a worker and a merger to a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from deltaplane.errors import DeltaplaneError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.model import Model
from deltaplane.stream.sample import admit
from deltaplane.window.partition import Partition
from deltaplane_benchmarks.speed.made_rows import definition_for, make_rows
from deltaplane_benchmarks.speed.processes import Load, Producer, Sent, running
from deltaplane_benchmarks.speed.wire import Traffic, traffic
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.processors.messages import DELTAS, SAMPLES

__all__ = ["LEARNED_AT_ONCE", "STALLED_SECONDS", "Measured", "measure", "reference", "wait_for"]

STALLED_SECONDS = 60.0
LEARNED_AT_ONCE = 10_000


@dataclass(frozen=True)
class Measured:
    """One run: ``seconds`` from the first message to the model that contains the last; costs by process."""

    load: Load
    seconds: float
    sent: Sent
    worker_cpu_seconds: float
    merger_cpu_seconds: float
    worker_peak_megabytes: float
    merger_peak_megabytes: float
    samples: Traffic
    deltas: Traffic
    codecs: dict[str, str]
    same_digest: bool
    model: Model


def measure(broker: str, load: Load, window: str, say: Callable[[str], None]) -> Measured:
    """Run a load through a stream of its own. Raises :class:`DeltaplaneError` where it does not come through."""
    definition = definition_for(make_rows(10_000, load.features, load.seed), "bench", window, 1.0)
    with running(definition, broker) as stream:
        follower = ModelFollower(reader(stream.settings, "central"), stream.settings.definition)
        producer = Producer(stream, load)
        before = stream.costs()
        say(f"{load.rows:,} rows of {load.features} features in {load.messages:,} messages")
        began = time.perf_counter()
        producer.go()
        model = wait_for(follower, load.messages)
        seconds = time.perf_counter() - began
        after = stream.costs()
        sent = producer.sent()
        samples, deltas = traffic(stream.settings, "site", SAMPLES), traffic(stream.settings, "central", DELTAS)
        codecs = {
            SAMPLES: stream.settings.producer_properties("site")["compression.type"],
            DELTAS: stream.settings.producer_properties("central")["compression.type"],
        }
        follower.close()
    return Measured(
        load,
        seconds,
        sent,
        after["worker"].cpu_seconds - before["worker"].cpu_seconds,
        after["merger"].cpu_seconds - before["merger"].cpu_seconds,
        after["worker"].peak_megabytes,
        after["merger"].peak_megabytes,
        samples,
        deltas,
        codecs,
        model.digest == reference(load, window).digest(model.data_fingerprint),
        model,
    )


def wait_for(follower: ModelFollower, messages: int) -> Model:
    """The first model that contains so many messages of the one source."""
    heard = time.monotonic()
    while True:
        for model in follower.poll(500, 0.02):
            heard = time.monotonic()
            if sum(position.samples for position in model.positions) >= messages:
                return model
        if time.monotonic() - heard > STALLED_SECONDS:
            raise DeltaplaneError(f"bench: no model came for {STALLED_SECONDS:g} s; are the services running?")


def reference(load: Load, window: str) -> Statistics:
    """What the live rows add up to, learned here at once."""
    rows = make_rows(load.rows, load.features, load.seed)
    definition = definition_for(make_rows(10_000, load.features, load.seed), "bench", window, 1.0)
    partition = Partition(definition, 0)
    for start in range(0, len(rows), LEARNED_AT_ONCE):
        partition.step(admit(rows.samples(start, min(start + LEARNED_AT_ONCE, len(rows))), definition)[0], [])
    return partition.statistics
