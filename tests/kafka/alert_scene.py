"""Services of a stream whose alerts are provoked, the rows that come, and the Prometheus that watches.

The rules are those of ``deploy/alerts.yml`` with all their times divided by :data:`FACTOR`.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dashboards.server import Prometheus
from deltaplane.log.delta import Claim, Source
from deltaplane.wire import write_claim
from deltaplane_services.client import SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import DELTAS, Outgoing, source_key
from kafka.cluster import KafkaCluster
from kafka.rows import FIRST_TIME
from kafka.services import ServiceProcess, Stream
from kafka.test_topics import alter, config_of

FACTOR = 30
PACE = "500ms"
"""How often Prometheus asks, and evaluates."""

BATCH_ROWS = 375
BATCHES_PER_SECOND = 4
CLAIM_SECONDS = 1.0


@dataclass(frozen=True)
class Weather:
    """What the rows are like that come now. ``singles``: samples of one record each, by the batch.

    ``shift`` is added to every feature.
    """

    positives: float = 0.3
    noise: float = 0.02
    singles: int = 0
    shift: float = 0.0


CALM = Weather()


class Feed:
    """Publishes rows of two classes in a thread, some batches a second, as the weather is; seeded."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.weather = CALM
        self._random = np.random.default_rng(seed)
        self._rows = 0
        self._stream = stream
        self._end = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """Stop, and raise what went wrong."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            with SampleProducer(self._stream.settings, check=False) as producer:
                while not self._end.wait(1.0 / BATCHES_PER_SECOND):
                    weather = self.weather
                    producer.send_batch(*self._some(BATCH_ROWS, weather))
                    ids, times, labels, features = self._some(weather.singles, weather)
                    for row in range(weather.singles):
                        producer.send(ids[row], int(times[row]), labels[row], features[row].tolist())
        except Exception as fault:  # noqa: BLE001 - told to the thread that waits.
            self._fault = fault

    def _some(self, count: int, weather: Weather) -> tuple[list[str], Any, list[str], Any]:
        first, self._rows = self._rows, self._rows + count
        positive = self._random.random(count) < weather.positives
        features = self._random.normal(size=(count, 3)) + positive[:, None] * [3.0, 1.0, -1.0] + weather.shift
        shown = np.where(self._random.random(count) < weather.noise, ~positive, positive)
        ids = [f"row-{number}" for number in range(first, self._rows)]
        times = FIRST_TIME + 1000 * np.arange(first, self._rows, dtype=np.int64)
        return ids, times, ["yes" if one else "no" for one in shown], features


class Scene:
    """The services of the stream by their ports, the rows that come, and the Prometheus that watches."""

    def __init__(self, stream: Stream, feed: Feed, prometheus: Prometheus, central: KafkaCluster | None = None) -> None:
        self.stream = stream
        self.feed = feed
        self.prometheus = prometheus
        self.central = central
        self.services: dict[int, ServiceProcess] = {}
        self.name = stream.definition.name

    def start(self, role: str, port: int, **environment: str) -> None:
        self.services[port] = self.stream.start(role, DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}", **environment)

    def port_of(self, role: str) -> int:
        return next(port for port, service in self.services.items() if role in service.name)

    def calm(self) -> None:
        """Return once rows come as they should, all services are ready, and the recent scores are of such rows."""
        self.feed.weather = CALM
        self.feed.begin()
        for so in (
            f"sum(deltaplane_ready) == {len(self.services)}",
            'max(deltaplane_prequential_samples{span="recent"}) >= 5000',
            'max(deltaplane_gmean_ratio{span="recent"}) > 0.85',
        ):
            self.prometheus.wait_for(f"calm, when {so}", lambda so=so: self.prometheus.value(so) is not None)  # type: ignore[misc]

    @contextlib.contextmanager
    def foreign_claims(self) -> Iterator[None]:
        """Every source is claimed, again and again, by one who does nothing with it."""
        client, end = publisher(self.stream.settings, "central"), threading.Event()
        definition = self.stream.definition

        def claim() -> None:
            for number in itertools.count():
                for partition in range(definition.partitions):
                    source = Source(self.stream.settings.site, partition)
                    record = write_claim(Claim(source, f"stranger.{number}", definition.stream_fingerprint))
                    client.publish([Outgoing(DELTAS, partition, source_key(source), record)])
                client.flush()
                if end.wait(CLAIM_SECONDS):
                    return

        thread = threading.Thread(target=claim, name="stranger", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    @contextlib.contextmanager
    def altered(self, topic: str, setting: str, value: str) -> Iterator[str]:
        """A topic of the central cluster, by its full name, with another setting than it has."""
        broker, name = self.stream.settings.cluster("central").broker, f"{self.name}.{topic}"
        right = config_of(broker, name)[setting]
        alter(broker, name, {setting: value})
        try:
            yield name
        finally:
            alter(broker, name, {setting: right})

    def silent(self, *names: str) -> None:
        """Return once none of these fires."""
        self.prometheus.wait_for(f"silence of {names}", lambda: not any(map(self.prometheus.alerts, names)))

    def fires(self, name: str, **labels: str) -> None:
        """Return once this alert fires with these labels; what it says must be said in full."""

        def found() -> list[dict[str, Any]]:
            return [alert for alert in self.prometheus.alerts(name) if labels.items() <= alert["labels"].items()]

        self.prometheus.wait_for(f"{name} to fire", lambda: bool(found()))
        for alert in found():
            assert alert["annotations"]["summary"]
            assert "<no value>" not in alert["annotations"]["summary"]
