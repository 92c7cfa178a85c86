"""What is wrong with one source keeps no other from being served: it is set aside, said, and tried again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltaplane.reference import Reference
from deltaplane_services.client import SampleProducer
from kafka.clients import wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream
from kafka.test_pipeline_metrics import ask, free_ports
from kafka.test_pipeline_restart import trim


@dataclass
class Scene:
    """A stream of two partitions with a window, a merger, and one worker that has both."""

    stream: Stream
    broker: str
    port: int
    worker: ServiceProcess
    sent: int = 0

    def start_worker(self) -> None:
        self.worker = self.stream.start("worker", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{self.port}")

    def send(self, count: int) -> Rows:
        rows = Rows(count, seed=self.sent, ids_from=self.sent)
        self.sent += count
        with SampleProducer(self.stream.settings) as producer:
            for row in range(count):
                producer.send(rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row])
        return rows

    def read_to(self, partition: int) -> int:
        """Samples of a source that the newest model contains."""
        model = self.stream.model()
        positions = () if model is None else model.positions
        return next((at.samples for at in positions if at.source.partition == partition), 0)

    def ready(self) -> tuple[int, str]:
        return ask(self.port, "/readyz")

    def aside(self) -> dict[str, float]:
        """Partition to what the metric says of it."""
        lines = [one for one in ask(self.port, "/metrics")[1].splitlines() if "_source_set_aside{" in one]
        return {one.partition('partition="')[2][0]: float(one.split()[-1]) for one in lines}


@pytest.fixture
def scene(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Scene]:
    service = {"checkpoint_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=service, window={"length": 100}) as stream:
        (port,) = free_ports(1)
        worker = stream.start("worker", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
        opened = Scene(stream, kafka.bootstrap, port, worker)
        stream.start("merger")
        opened.send(400)
        wait_until(lambda: opened.read_to(0) + opened.read_to(1) == 400, "all rows are learned")
        yield opened


def test_a_source_that_retention_has_robbed_of_live_rows_is_set_aside_and_healed_by_what_the_message_says(
    scene: Scene,
) -> None:
    before = scene.read_to(0), scene.read_to(1)
    scene.worker.kill()
    trim(scene.broker, f"{scene.stream.definition.name}.samples", {0: before[0] - 10})
    scene.start_worker()

    scene.worker.wait_for(r"source local/0 is set aside, the others go on")
    scene.send(100)
    wait_until(lambda: scene.read_to(1) > before[1], "the healthy partition goes on learning")

    assert scene.read_to(0) == before[0]
    code, words = scene.ready()
    assert code == 503
    assert "serving partitions [1]" in words
    assert "source local/0 is set aside" in words
    assert "retention has deleted live rows" in words
    assert scene.aside() == {"0": 1.0, "1": 0.0}
    assert "Traceback" not in scene.worker.log

    cure = [line for line in words.replace(", then ", "\n").splitlines() if "deltaplane source" in line]
    commands = [line.partition("deltaplane ")[2].split(";")[0].split() for line in cure]
    assert commands == [["source", "remove", "local/0"], ["source", "admit", "local/0"]]
    for command in commands:
        scene.stream.run(*command)

    wait_until(lambda: scene.ready()[0] == 200, "the source is served again")
    rows = scene.send(300)
    wait_until(lambda: sum(scene.aside().values()) == 0 and scene.read_to(0) > before[0] + 100, "and learns")
    reference = Reference(scene.stream.definition)
    rows.tell(reference)
    digest = reference.statistics().digest(scene.stream.definition.data_fingerprint)
    scene.stream.wait_for_digest(digest, "all rows of both windows are of the last batch")
    assert scene.stream.run("audit").stdout.endswith("equal\n")


def test_a_source_that_is_removed_is_left_alone_and_the_worker_goes_on_with_the_others(scene: Scene) -> None:
    before = scene.read_to(0), scene.read_to(1)
    scene.stream.run("source", "remove", "local/0")
    scene.send(100)
    wait_until(lambda: scene.read_to(1) > before[1], "the other partition goes on learning")

    wait_until(lambda: "removed from the stream: [0]" in scene.ready()[1], "the worker says so")
    assert scene.ready()[0] == 200, "what an operator has ordered is no fault"
    assert scene.aside() == {"0": 0.0, "1": 0.0}

    scene.stream.run("source", "admit", "local/0")
    scene.send(300)
    total = 400 + 100 + 300
    wait_until(lambda: scene.read_to(0) + scene.read_to(1) == total, "the source begins anew with all that its log has")
    assert scene.ready() == (200, "worker: serving partitions [0, 1]\n")
    assert scene.stream.run("audit").stdout.endswith("equal\n")
    assert "Traceback" not in scene.worker.log


def test_a_worker_that_starts_while_a_source_is_removed_serves_the_others(scene: Scene) -> None:
    scene.stream.run("source", "remove", "local/1")
    scene.worker.kill()
    scene.start_worker()
    before = scene.read_to(0)
    scene.send(100)
    wait_until(lambda: scene.read_to(0) > before, "the other partition goes on learning")
    wait_until(lambda: scene.ready() == (200, "worker: serving partitions [0]; removed from the stream: [1]\n"), "said")
    assert scene.worker.running
