"""``bench intake``: rows a second through one intake beside ``produce``, label to model, and memory over what waits."""

from __future__ import annotations

import csv
import http.client
import itertools
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deltaplane.arrays import Floats
from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.speed.made_shop import event_of, shop_rows, shop_tables
from deltaplane_benchmarks.speed.processes import cost_of
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.dead_letters import kept_letters
from deltaplane_services.operations.topics import create_topics
from deltaplane_services.processors.codec import read_published_samples
from deltaplane_services.processors.messages import SAMPLES
from deltaplane_services.replay.on_kafka import delete_topics

__all__ = ["Freshness", "Speed", "Waiting", "label_to_model", "speed", "waiting"]

_STALLED_SECONDS = 180.0
_Say = Callable[[str], None]


@dataclass(frozen=True)
class Speed:
    """Rows a second of an intake and of ``produce``, by the clock and by their own processor time."""

    rows: int
    intake_seconds: float
    intake_cpu_seconds: float
    produce_seconds: float
    produce_cpu_seconds: float
    same_digest: bool
    digest: str


@dataclass(frozen=True)
class Freshness:
    """Milliseconds from when each label was sent to the first model that a reader had with it, float64[n]."""

    milliseconds: Floats
    rows_per_second: float


@dataclass(frozen=True)
class Waiting:
    """Resident memory of an intake in megabytes when so many events wait, and megabytes of its store."""

    events: int
    megabytes: float
    store_megabytes: float
    seconds: float


class _Stream:
    """A stream of its own with topics of events and labels, and the processes that run on it."""

    def __init__(self, broker: str, directory: Path, *, late: bool) -> None:
        name = f"bench-intake-{secrets.token_hex(4)}"
        self.events, self.labels = f"{name}-events", f"{name}-labels"
        self.tables = shop_tables(name, str(directory / "state"), late=late)
        self._metrics: dict[str, int] = {}
        self.broker, self.directory = broker, directory
        self.definition_file = directory / "deltaplane.toml"
        self.definition_file.write_text(as_toml(self.tables), "utf-8")
        self.settings: ServiceSettings = resolve_settings({"broker": broker}, os.environ, self.tables)
        self._processes: list[subprocess.Popen[bytes]] = []

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker})
        config = {"retention.ms": "-1"}
        new = [
            NewTopic(one, num_partitions=3, replication_factor=1, config=config) for one in (self.events, self.labels)
        ]
        for made in admin.create_topics(new).values():
            made.result()
        for finding in create_topics(self.settings).findings:
            raise DeltaplaneError(f"kafka: {finding}")

    def drop_topics(self) -> None:
        delete_topics(self.settings)
        admin = AdminClient({"bootstrap.servers": self.broker})
        for gone in admin.delete_topics([self.events, self.labels]).values():
            gone.result()

    def line(self, *arguments: str | Path) -> list[str]:
        options = ["--definition", str(self.definition_file)]
        return [sys.executable, "-m", "deltaplane_services", *map(str, arguments), *options]

    def start(self, command: str, *, until: str) -> subprocess.Popen[bytes]:
        """A service, once it has said something."""
        log = self.directory / f"{command}.log"
        self._metrics[command] = _free_port()
        address = f"127.0.0.1:{self._metrics[command]}"
        environment = {**os.environ, "DELTAPLANE_BROKER": self.broker, "DELTAPLANE_METRICS_ADDRESS": address}
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603
                self.line(command), stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment
            )
        self._processes.append(process)
        began = time.monotonic()
        while not re.search(until, log.read_text("utf-8", "replace")):
            if process.poll() is not None or time.monotonic() - began > _STALLED_SECONDS:
                raise DeltaplaneError(f"bench: {command} was not ready:\n{log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.01)
        return process

    def check_none_refused(self) -> None:
        """Raise :class:`DeltaplaneError` if a row was refused: what waits for all rows would wait for it in vain."""
        for one in kept_letters(self.settings):
            raise DeltaplaneError(f"bench: a row that was made to be admitted was refused: {one.letter.reason}")

    def run(self, *arguments: str | Path) -> str:
        environment = {**os.environ, "DELTAPLANE_BROKER": self.broker}
        done = subprocess.run(self.line(*arguments), capture_output=True, text=True, env=environment, check=False)  # noqa: S603
        if done.returncode:
            raise DeltaplaneError(f"bench: {arguments[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def waiting(self) -> int:
        """Events that wait, as the intake's metrics say."""
        return self._metric(r"deltaplane_intake_waiting_events\{.*\}")

    def sent(self) -> int:
        """Samples that the intake has sent, as its metrics say."""
        return self._metric(r'deltaplane_intake_sent_total\{.*what="samples".*\}')

    def _metric(self, pattern: str) -> int:
        """The sum of a metric of the intake over all of its labels."""
        asked = http.client.HTTPConnection("127.0.0.1", self._metrics["intake"], timeout=30.0)
        with closing(asked):
            asked.request("GET", "/metrics")
            text = asked.getresponse().read().decode()
        return int(sum(map(float, re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))))

    def wait_for_waiting(self, count: int) -> None:
        """Return once so many events wait."""
        until = time.monotonic() + 10 * _STALLED_SECONDS
        while self.waiting() < count:
            if time.monotonic() > until:
                raise DeltaplaneError(f"bench: {self.waiting():,} of {count:,} events wait")
            time.sleep(0.1)

    def wait_for_sent(self, rows: int) -> None:
        """Return once so many samples were sent. Its metrics are asked: a reader of them all would need a processor."""
        until = time.monotonic() + _STALLED_SECONDS
        while (found := self.sent()) < rows:
            if time.monotonic() > until:
                self.check_none_refused()
                raise DeltaplaneError(f"bench: only {found:,} of {rows:,} rows came")
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)
        self._processes = []

    def wait_for_digest(self, digest: str) -> bool:
        """Whether a model has this digest in the end."""
        follower = ModelFollower(reader(self.settings, "central"), self.settings.definition)
        try:
            until = time.monotonic() + _STALLED_SECONDS
            while follower.model is None or follower.model.digest != digest:
                if time.monotonic() > until:
                    return False
                follower.poll(500, 0.05)
            return True
        finally:
            follower.close()


@contextmanager
def _stream(broker: str, *, late: bool) -> Iterator[_Stream]:
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="deltaplane-bench-")))
        stream = _Stream(broker, directory, late=late)
        undo.callback(stream.drop_topics)
        stream.make_topics()
        undo.callback(stream.stop)
        yield stream


def _send(broker: str, topic: str, records: Iterator[tuple[str, bytes]]) -> None:
    out = Producer({"bootstrap.servers": broker, "linger.ms": 20, "compression.type": "lz4"})
    for number, (key, value) in enumerate(records):
        out.produce(topic, value, key=key)
        if number % 5_000 == 0:
            out.flush()
    out.flush()


def speed(broker: str, rows: int, seed: int, say: _Say) -> Speed:
    """An intake and ``produce``, each alone with the broker, with the same rows; then their models."""
    with _stream(broker, late=False) as taken, _stream(broker, late=False) as sent:
        table = sent.directory / "rows.csv"
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(next(shop_rows(1, seed))))
            writer.writeheader()
            writer.writerows(shop_rows(rows, seed))
        say(f"{rows:,} events in JSON")
        _send(broker, taken.events, ((row["ref"], event_of(row)) for row in shop_rows(rows, seed)))
        say("through one intake")
        service = taken.start("intake", until="took over partition")
        began, before = time.perf_counter(), cost_of(service.pid).cpu_seconds
        taken.wait_for_sent(rows)
        intake_seconds, intake_cpu = time.perf_counter() - began, cost_of(service.pid).cpu_seconds - before
        taken.stop()
        say("by produce")
        times = os.times()
        said = sent.run("produce", table)
        after = os.times()
        found = re.search(r"published in ([0-9.]+) s", said)
        assert found is not None, said
        say("a replay, and the model of what the intake has sent")
        out = sent.directory / "replay.json"
        sent.run("replay", table, "--json", out)
        digest = str(json.loads(out.read_text("utf-8"))["digest"])
        taken.start("worker", until="claimed")
        taken.start("merger", until="elected")
        same = taken.wait_for_digest(digest)
    cpu = after.children_user + after.children_system - times.children_user - times.children_system
    return Speed(rows, intake_seconds, intake_cpu, float(found[1]), cpu, same, digest)


def label_to_model(broker: str, rate: float, seconds: float, seed: int, say: _Say) -> Freshness:
    """Events that wait, and their labels at a steady rate, followed to the models that contain them."""
    count = int(rate * seconds)
    with _stream(broker, late=True) as stream:
        rows = list(shop_rows(count, seed))
        _send(broker, stream.events, ((row["ref"], event_of(row)) for row in rows))
        stream.start("worker", until="claimed")
        stream.start("merger", until="elected")
        stream.start("intake", until="took over partition")
        stream.wait_for_waiting(count)
        say(f"{count:,} labels at {rate:,.0f} a second")
        follower = ModelFollower(reader(stream.settings, "central"), stream.settings.definition)
        out, sent_at = Producer({"bootstrap.servers": broker, "linger.ms": 5}), np.empty(count)
        arrivals: list[tuple[float, dict[int, int], int]] = []
        began, number, until = time.time(), 0, time.monotonic() + seconds + _STALLED_SECONDS
        while number < count or not arrivals or arrivals[-1][2] < count:
            due = min(count, int((time.time() - began) * rate))
            for at in range(number, due):
                sent_at[at] = time.time()
                out.produce(stream.labels, json.dumps({"of": rows[at]["ref"], "is": rows[at]["kind"]}), key=str(at))
            number = max(number, due)
            out.poll(0)
            for model in follower.poll(500, 0.002):
                positions = {one.source.partition: one.samples for one in model.positions}
                arrivals.append((time.time(), positions, sum(model.counts.values())))
            if time.monotonic() > until:
                stream.check_none_refused()
                live = arrivals[-1][2] if arrivals else 0
                raise DeltaplaneError(f"bench: of {count:,} labels {number:,} were sent, and {live:,} are in a model")
        out.flush()
        follower.close()
        places = _places(stream, count)
    first = count // 10
    ages = []
    for at in range(first, count):
        partition, offset = places[rows[at]["ref"]]
        come = next(when for when, positions, _ in arrivals if positions.get(partition, 0) > offset)
        ages.append((come - sent_at[at]) * 1000.0)
    return Freshness(np.array(ages), rate)


def _places(stream: _Stream, rows: int) -> dict[str, tuple[int, int]]:
    """Id to the partition and the offset of its sample."""
    log, found = reader(stream.settings, "site"), dict[str, tuple[int, int]]()
    with closing(log):
        for partition in range(stream.settings.definition.partitions):
            for record in log.read(SAMPLES, partition, 0, 2**62):
                samples = read_published_samples(record, stream.settings.definition)
                found |= dict.fromkeys(samples.ids, (partition, record.offset))
    assert len(found) == rows, "all were sent"
    return found


def waiting(broker: str, looks: Sequence[int], seed: int, say: _Say) -> Iterator[Waiting]:
    """An intake while more and more events wait for labels that never come."""
    with _stream(broker, late=True) as stream:
        service = stream.start("intake", until="took over partition")
        rows, sent, began = shop_rows(max(looks), seed), 0, time.perf_counter()
        for look in looks:
            say(f"{look:,} events that wait")
            _send(broker, stream.events, ((row["ref"], event_of(row)) for row in itertools.islice(rows, look - sent)))
            sent = look
            stream.wait_for_waiting(look)
            status = Path(f"/proc/{service.pid}/status").read_text("ascii")
            resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
            stored = sum(file.stat().st_size for file in (stream.directory / "state").glob("*")) / 2**20
            yield Waiting(look, resident, stored, time.perf_counter() - began)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
