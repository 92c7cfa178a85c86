"""A configuration that cannot work is one clear message and exit code 2, in bounded time: no traceback, no waiting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deltaplane_services.kafka.start import check_stream
from kafka.cluster import KafkaCluster, free_port
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

SERVICES = ("worker", "merger", "scorer")
QUESTIONS = (("model", "show"), ("model", "export"), ("model", "watch"), ("audit",), ("retire", "row-1"))
COMMANDS: Sequence[tuple[str, ...]] = (*((service,) for service in SERVICES), *QUESTIONS)
INPUT = {"label": "label", "id": "id", "time": "time"}


def start_all(stream: Stream, file: Path) -> list[ServiceProcess]:
    """Start every command at once, since each may take its time to give up."""
    started = [stream.start(*command) for command in COMMANDS]
    return [*started, stream.start("produce", str(file))]


def refusal(stream: Stream, process: ServiceProcess) -> str:
    """The one line by which a command ended with exit code 2."""
    assert process.wait() == 2, process.tail()
    stream.processes.remove(process)
    lines = process.log.strip().splitlines()
    assert "Traceback" not in process.log
    said = [line for line in lines if line.startswith("deltaplane: ")]
    assert said == lines[-1:], process.log
    return said[0].removeprefix("deltaplane: ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Rows(20, seed=1).write(tmp_path / "rows.csv")


def test_brokers_that_do_not_answer_are_named(tmp_path: Path, file: Path, stream_name: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with Stream.of(tmp_path, stream_name, address, input=INPUT) as stream:
        for process in start_all(stream, file):
            said = refusal(stream, process)
            assert address in said
            assert "check that it runs" in said


def test_topics_that_are_missing_are_named_with_the_command_that_makes_them(
    kafka: RunningKafka, tmp_path: Path, file: Path, stream_name: str
) -> None:
    with Stream.of(tmp_path, stream_name, kafka.bootstrap, input=INPUT) as stream:
        for process in start_all(stream, file):
            said = refusal(stream, process)
            assert f"topic {stream_name}." in said
            assert "deltaplane topics create" in said


@pytest.fixture
def live(kafka: RunningKafka, tmp_path: Path, file: Path, stream_name: str) -> Iterator[Stream]:
    """A stream with a model and no service."""
    with Stream.made(tmp_path / "live", stream_name, kafka.bootstrap, input=INPUT) as stream:
        services = [stream.start("worker"), stream.start("merger")]
        stream.run("produce", file)
        stream.wait_for_model(lambda model: model.plane is not None, "there is a plane")
        for service in services:
            service.terminate()
        yield stream


def test_another_definition_than_that_of_the_models_is_refused_by_both_fingerprints(
    kafka: RunningKafka, live: Stream, tmp_path: Path
) -> None:
    name = live.definition.name
    with Stream.of(tmp_path / "other", name, kafka.bootstrap, window={"length": 77}) as other:
        for process in [other.start(*command) for command in COMMANDS]:
            said = refusal(other, process)
            assert live.definition.stream_fingerprint.hex() in said
            assert other.definition.stream_fingerprint.hex() in said


def test_another_number_of_partitions_than_that_of_the_topics_is_refused(
    kafka: RunningKafka, live: Stream, tmp_path: Path
) -> None:
    name = live.definition.name
    with Stream.of(tmp_path / "other", name, kafka.bootstrap, partitions=3) as other:
        for process in [other.start(service) for service in SERVICES]:
            said = refusal(other, process)
            assert "has 2 partitions, expected 3" in said


def test_a_property_that_librdkafka_refuses_is_named_and_no_secret_with_it(live: Stream) -> None:
    given = ("--kafka", "security.protocol=NONSENSE", "--kafka", "sasl.password=very-secret")
    for process in [live.start(*command, *given) for command in COMMANDS]:
        said = refusal(live, process)
        assert "librdkafka refuses the properties" in said
        assert "very-secret" not in process.log


def test_a_command_begins_although_a_broker_of_three_has_just_died(
    kafka_three: KafkaCluster, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka_three.bootstrap) as stream:
        for node in kafka_three.nodes:
            kafka_three.kill(node)
            # Asked at once, when the others may not know it yet; whichever was asked first, one of them answers.
            for _ in range(3):
                check_stream(stream.settings, "worker")
            kafka_three.restart(node)
