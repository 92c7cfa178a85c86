"""Producers that are not ours, on a real broker: whose rows are learned and unlearned, and whose are refused."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.placement import Partitioner, partition_of
from deltaplane.stream.sample import Retirement
from deltaplane.wire import read_dead_letter, write_retirement, write_sample
from deltaplane_services.client import SampleProducer
from kafka import distribution
from kafka.clients import PATIENCE_SECONDS, create_topic, read_topic, wait_until
from kafka.selection import RunningKafka, why_no_processes
from kafka.services import Stream
from kafka.test_pipeline_metrics import ask, free_ports

FIRST_TIME = 1_700_000_000_000
IDS = [f"person-{number}" for number in range(40)]
ODD_IDS = ["é", "日本-7", "😀", "a", "ab", "abc", "abcd", "x" * 256, "space in it", "0" * 33]
JAVA = Path(__file__).with_name("Placing.java")


def sample(definition: StreamDefinition, sample_id: str, label: str = "yes", age: float = 3.0) -> bytes:
    return write_sample(sample_id, FIRST_TIME, label, (1.0, 2.0, age), definition.data_fingerprint)


def samples(definition: StreamDefinition) -> dict[str, bytes]:
    return {sample_id: sample(definition, sample_id, "yes" if at % 3 else "no") for at, sample_id in enumerate(IDS)}


def publish(broker: str, topic: str, values: Mapping[str, bytes], partitioner: str | None) -> dict[str, int]:
    """Publish by librdkafka, by its own default where no partitioner is named; the partition of each key."""
    producer = Producer({"bootstrap.servers": broker, **({} if partitioner is None else {"partitioner": partitioner})})
    placed: dict[str, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        key, partition = message.key(), message.partition()
        assert error is None, error
        assert isinstance(key, bytes)
        assert partition is not None
        placed[key.decode()] = partition

    for key, value in values.items():
        producer.produce(topic, value, key.encode(), on_delivery=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert placed.keys() == values.keys()
    return placed


def publish_by_java(broker: str, topic: str, values: Mapping[str, bytes]) -> None:
    """Publish by Kafka's own producer for Java, by its default."""
    if reason := why_no_processes():
        pytest.skip(reason)
    kafka = distribution.prepare()
    class_path = ":".join(str(jar) for jar in kafka.jars)
    lines = "".join(f"{key}\t{value.hex()}\n" for key, value in values.items())
    command = [kafka.java, "-Xmx128m", "-cp", class_path, str(JAVA), broker, topic]
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr


def rows(model: Model) -> int:
    return sum(model.counts.values())


def letters_of(broker: str, stream: Stream) -> list[DeadLetter]:
    records = read_topic(broker, f"{stream.definition.name}.dead-letters")
    return [read_dead_letter(record.value()) for record in records]


@pytest.mark.parametrize("partitions", [2, 5])
def test_ids_lie_where_the_clients_of_others_put_their_keys(
    partitions: int, kafka: RunningKafka, stream_name: str
) -> None:
    values = dict.fromkeys([*IDS, *ODD_IDS], b"any")
    clients: dict[str, Partitioner] = {"murmur2_random": "murmur2", "murmur2": "murmur2", "consistent": "crc32"}
    create_topic(kafka.bootstrap, stream_name, partitions=partitions)
    for partitioner, rule in clients.items():
        placed = publish(kafka.bootstrap, stream_name, values, partitioner)
        assert placed == {key: partition_of(key, partitions, rule) for key in values}, partitioner
    before = len(read_topic(kafka.bootstrap, stream_name))
    publish_by_java(kafka.bootstrap, stream_name, dict.fromkeys(values, b"java"))
    by_java = [record for record in read_topic(kafka.bootstrap, stream_name) if record.value() == b"java"]
    assert len(by_java) == len(values)
    assert before == 3 * len(values)
    for record in by_java:
        key = record.key()
        assert isinstance(key, bytes)
        assert record.partition() == partition_of(key.decode(), partitions)


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_rows_of_a_producer_by_kafkas_default_are_unlearned_with_receipts_and_the_audit_is_equal(
    client: str, kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with Stream.made(tmp_path, stream_name, broker) as stream:
        for command in ("worker", "merger"):
            stream.start(command)
        topic = f"{stream_name}.samples"
        if client == "java":
            publish_by_java(broker, topic, samples(stream.definition))
        else:
            publish(broker, topic, samples(stream.definition), "murmur2_random")
        stream.wait_for_model(lambda model: rows(model) == len(IDS), "all rows are learned")
        told = json.loads(stream.run("retire", *IDS[:10], "--json").stdout)
        assert [(one["id"], one["outcome"], one["out"]) for one in told] == [(one, "retired", True) for one in IDS[:10]]
        assert all(one["model_version"] for one in told)
        model = stream.wait_for_model(lambda model: rows(model) == len(IDS) - 10, "ten rows are unlearned")
        assert model.totals["retirements retired"] == 10
        assert stream.run("verify-receipt", *IDS[:10]).stdout.count("verified: the log gives the same") == 10
        assert stream.run("audit").stdout.endswith("equal\n")
        assert not letters_of(broker, stream)


def test_what_another_producer_places_wrong_is_refused_and_counted_and_never_said_to_be_out(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker, (port,) = kafka.bootstrap, free_ports(1)
    with Stream.made(tmp_path, stream_name, broker) as stream:
        definition = stream.definition
        stream.start("worker")
        stream.start("merger", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
        placed = publish(broker, f"{stream_name}.samples", samples(definition), None)
        wrong = [key for key, partition in placed.items() if partition != definition.partition_of(key)]
        right = [key for key in IDS if key not in wrong]
        assert len(wrong) > 5
        assert len(right) > 5
        model = stream.wait_for_model(
            lambda model: rows(model) + model.totals.get("refused wrong partition", 0) == len(IDS), "all are answered"
        )
        assert rows(model) == len(right)
        letters = letters_of(broker, stream)
        assert {letter.kind for letter in letters} == {"wrong partition"}
        assert sorted(letter.key or b"" for letter in letters) == sorted(key.encode() for key in wrong)
        for letter in letters:
            key = (letter.key or b"").decode()
            assert f"sample {key!r}: it lies in partition {placed[key]}" in letter.reason
            assert f"belongs in {definition.partition_of(key)} of 2 (partitioner murmur2" in letter.reason

        # A retirement that is placed wrong, too, never acts; one that is placed right finds no row, and says so.
        asked = {right[0]: write_retirement(Retirement(right[0], "asked", 0), definition.data_fingerprint)}
        elsewhere = 1 - definition.partition_of(right[0])
        raw = Producer({"bootstrap.servers": broker})
        raw.produce(f"{stream_name}.retirements", asked[right[0]], right[0].encode(), partition=elsewhere)
        assert raw.flush(PATIENCE_SECONDS) == 0
        wait_until(lambda: len(letters_of(broker, stream)) == len(wrong) + 1, "the retirement is refused")
        told = stream.run("retire", wrong[0], right[0], code=3).stdout
        assert f"{wrong[0]}: waiting: no live row has this id in source local/" in told
        assert f"{right[0]}: retired, model " in told
        proved = stream.run("verify-receipt", wrong[0], code=3).stdout
        assert "verified only that nothing was taken out: no live row has this id" in proved
        model = stream.wait_for_model(lambda model: rows(model) == len(right) - 1, "one row is out")
        assert model.totals["refused wrong partition"] == len(wrong) + 1
        metric = rf'deltaplane_rejected_total\{{.*reason="wrong_partition".*\}} {len(wrong) + 1}\.0'
        wait_until(lambda: re.search(metric, ask(port, "/metrics")[1]) is not None, "it is in the metrics")

        # A correction by a producer that places right is the only row of its id.
        with SampleProducer(stream.settings) as producer:
            producer.send(wrong[1], FIRST_TIME, "no", [9.0, 9.0, 9.0])
        stream.wait_for_model(lambda model: rows(model) == len(right), "the correction is the row")
        assert "replaced" not in (stream.model() or model).totals
        assert stream.run("audit").stdout.endswith("equal\n")


def test_a_stream_of_an_earlier_version_goes_on_with_the_line_that_it_is_told_to_add(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with Stream.made(tmp_path, stream_name, broker, partitioner="crc32", service={"checkpoint_seconds": 0.3}) as stream:
        services = [stream.start(command) for command in ("worker", "merger")]
        placed = publish(broker, f"{stream_name}.samples", samples(stream.definition), None)
        assert placed == {key: stream.definition.partition_of(key) for key in IDS}
        # Rows that lay wrong were admitted, and still are.
        astray = {f"astray-{number}": sample(stream.definition, f"astray-{number}") for number in range(20)}
        placed = publish(broker, f"{stream_name}.samples", astray, "murmur2_random")
        wrong = [key for key, partition in placed.items() if partition != stream.definition.partition_of(key)]
        before = stream.wait_for_model(lambda model: rows(model) == len(IDS) + 20, "all rows are learned")
        assert before.totals["samples misplaced"] == len(wrong) > 0
        told = stream.run("retire", wrong[0], code=3).stdout
        assert "this stream does not check places (partitioner crc32), so a row may lie in another partition" in told
        for service in services:
            service.terminate()

        text = stream.definition_file.read_text("utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("partitioner")]
        assert len(lines) == len(text.splitlines()) - 1
        stream.definition_file.write_text("\n".join(lines) + "\n", "utf-8")
        for command in ("worker", "merger"):
            refused = stream.run(command, code=2)
            assert 'add the line partitioner = "crc32" at the top of the definition' in refused.stderr + refused.stdout
        for arguments in (("model", "show"), ("audit",), ("retire", "row-1")):
            assert 'partitioner = "crc32"' in stream.run(*arguments, code=2).stderr

        stream.definition_file.write_text(text, "utf-8")
        for command in ("worker", "merger"):
            stream.start(command)
        stream.run("retire", IDS[0])
        after = stream.wait_for_model(lambda model: rows(model) == len(IDS) + 19, "the stream goes on")
        assert after.totals["retirements retired"] == 1
        assert stream.run("audit").stdout.endswith("equal\n")
