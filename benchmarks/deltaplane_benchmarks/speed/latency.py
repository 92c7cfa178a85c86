"""``bench latency``: how old a sample is when a model contains it, and where the time went.

Freshness of a message: from the moment a producer hands it over to the moment a reader of the models topic holds the
first model that contains it. Records carry the time at which their writers made them (to the millisecond, all
processes on one machine), so it falls into three: until the worker had made the delta (linger, broker, poll, Gram
matrices), until the merger had made the model (broker, waiting for the refresh, solve), until the reader had it.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.errors import WireError
from deltaplane.log.delta import Delta
from deltaplane.log.model import Model
from deltaplane.wire import read_claim_or_delta
from deltaplane_benchmarks.speed.made_rows import definition_for, make_rows
from deltaplane_benchmarks.speed.processes import Load, Producer, Running, running
from deltaplane_benchmarks.speed.throughput import reference
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.processors.messages import DELTAS

__all__ = ["WARM_UP_SHARE", "Freshness", "measure"]

WARM_UP_SHARE = 0.1
"""Of the messages; the first find cold processes and no model."""


@dataclass(frozen=True, eq=False)
class Freshness:
    """Milliseconds for each message, in order; the parts add up to the whole."""

    whole: Floats
    to_delta: Floats
    to_model: Floats
    to_reader: Floats
    rows_per_second: float
    models: int
    same_digest: bool
    model: Model

    def percentile(self, name: str, percent: float) -> float:
        """Of ``whole`` or of a part."""
        return float(np.percentile(getattr(self, name), percent))


def measure(broker: str, load: Load, window: str, say: Callable[[str], None]) -> Freshness:
    """Send a paced load and follow the models."""
    definition = definition_for(make_rows(10_000, load.features, load.seed), "bench", window, 1.0)
    with running(definition, broker) as stream:
        follower = ModelFollower(reader(stream.settings, "central"), stream.settings.definition)
        producer = Producer(stream, load)
        say(f"{load.rows:,} rows at {load.rows_per_second or 0:,.0f} a second")
        producer.go()
        arrivals: list[tuple[float, Model]] = []
        while not arrivals or _contained(arrivals[-1][1]) < load.messages:
            arrivals += [(time.time(), model) for model in follower.poll(500, 0.002)]
        sent = producer.sent()
        deltas = _deltas(stream)
        follower.close()
    last = arrivals[-1][1]
    same = last.digest == reference(load, window).digest(last.data_fingerprint)
    return _freshness(np.array(sent.sent_at), arrivals, deltas, load.rows / sent.seconds, same_digest=same)


def _contained(model: Model) -> int:
    return sum(position.samples for position in model.positions)


def _deltas(stream: Running) -> list[tuple[int, int]]:
    """(end of the samples covered, milliseconds at which the delta was made), in order."""
    log, found = reader(stream.settings, "central"), []
    _, end = log.bounds(DELTAS, 0)
    for record in log.read(DELTAS, 0, 0, end):
        try:
            change = read_claim_or_delta(record.value, stream.settings.definition.dimensions)
        except WireError:
            continue
        if isinstance(change, Delta):
            found.append((change.tile.samples_to, record.log_time))
    log.close()
    return found


def _freshness(
    sent_at: Floats,
    arrivals: list[tuple[float, Model]],
    deltas: list[tuple[int, int]],
    rate: float,
    *,
    same_digest: bool,
) -> Freshness:
    """Times of every message past the warm-up, by the first delta and the first model that contain it."""
    contained = [_contained(model) for _, model in arrivals]
    covered = [end for end, _ in deltas]
    first = int(WARM_UP_SHARE * len(sent_at))
    parts = np.empty((len(sent_at) - first, 4))
    for message in range(first, len(sent_at)):
        at, model = arrivals[bisect.bisect_right(contained, message)]
        made = deltas[bisect.bisect_right(covered, message)][1] / 1000.0
        begun = float(sent_at[message])
        parts[message - first] = at - begun, made - begun, model.created / 1000.0 - made, at - model.created / 1000.0
    parts *= 1000.0
    whole, to_delta, to_model, to_reader = parts.T
    return Freshness(whole, to_delta, to_model, to_reader, rate, len(arrivals), same_digest, arrivals[-1][1])
