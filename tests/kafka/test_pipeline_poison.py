"""Whatever lies on the topics, no service stops and no good row is lost: what cannot be used becomes a dead letter."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile
from deltaplane.log.records import Checkpoint, DeadLetter, Prediction, Query, Unanswered
from deltaplane.reference import Reference
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.placement import partition_of
from deltaplane.stream.sample import Retirement
from deltaplane.wire import (
    read_answer,
    read_dead_letter,
    write_checkpoint,
    write_claim,
    write_delta,
    write_model,
    write_query,
    write_retirement,
    write_sample,
    write_sample_batch,
)
from golden.wire_examples import by_content
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.rows import FIRST_TIME, Rows
from kafka.selection import RunningKafka
from kafka.services import Stream

FIVE_MEGABYTES = 5 * 2**20
POISON = next(one for number in range(20) if partition_of(one := f"poison-{number}", 2) == 0)
"""An id that belongs in partition 0, where all of it goes."""

OTHER = bytes(16)
"""The fingerprint of no definition."""

ELSEWHERE = next(one for number in range(20) if partition_of(one := f"poison-{number}", 2) == 1)

Poison = Mapping[str, tuple[bytes | None, str]]
"""What it is: its bytes, and the kind of its dead letter."""


def mixed_batch() -> Rows:
    """Three rows that belong in partition 0, of which the one in the middle is about to be spoiled."""
    rows = Rows(3, seed=9)
    rows.ids = [one for number in range(5000, 5020) if partition_of(one := f"row-{number}", 2) == 0][:3]
    return rows


def poison_for_samples(definition: StreamDefinition, now: int) -> Poison:
    def sample(
        label: str = "yes",
        features: tuple[float, ...] = (1.0, 2.0, 3.0),
        sample_id: str = POISON,
        event_time: int = FIRST_TIME,
        fingerprint: bytes = definition.data_fingerprint,
    ) -> bytes:
        return write_sample(sample_id, event_time, label, features, fingerprint)

    batch = mixed_batch()
    batch.features[1, 2] = np.nan
    return {
        "random bytes": (secrets.token_bytes(200), "bad record"),
        "no bytes": (b"", "bad record"),
        "null value": (None, "bad record"),
        "a message of a schema registry": (b"\0\0\0\0\7" + sample(), "bad record"),
        "wrong schema": (write_retirement(Retirement("x", "", 0), definition.data_fingerprint), "bad record"),
        "wrong fingerprint": (sample(fingerprint=OTHER), "other definition"),
        "wrong dimension": (sample(features=(1.0, 2.0)), "bad record"),
        "cut short": (sample()[:-3], "bad record"),
        "too long": (sample() + b"\0", "bad record"),
        "not a number": (sample(features=(1.0, float("nan"), 3.0)), "bad value"),
        "infinite": (sample(features=(1.0, 2.0, float("-inf"))), "bad value"),
        "out of range": (sample(features=(1e9, 2.0, 3.0)), "bad value"),
        "unknown class": (sample(label="perhaps"), "unknown class"),
        "no label": (sample(label=""), "bad label"),
        "no id": (sample(sample_id=""), "bad id"),
        "another partition's id": (sample(sample_id=ELSEWHERE), "wrong partition"),
        "bogus date": (sample(event_time=now + 3 * 86_400_000), "bogus time"),
        "bogus date beyond calendars": (sample(event_time=2**62), "bogus time"),
        "5 MB of random bytes": (secrets.token_bytes(FIVE_MEGABYTES), "bad record"),
        "5 MB of an id": (sample(sample_id="x" * FIVE_MEGABYTES), "bad id"),
        "a batch with one bad row": (write_sample_batch(batch.samples(), definition.data_fingerprint), "bad value"),
    }


def poison_for_retirements(definition: StreamDefinition) -> Poison:
    fingerprint = definition.data_fingerprint
    valid = write_retirement(Retirement("x", "", 0), fingerprint)
    return {
        "random bytes": (secrets.token_bytes(200), "bad record"),
        "null value": (None, "bad record"),
        "wrong schema": (write_sample("x", 0, "yes", (1.0, 2.0, 3.0), fingerprint), "bad record"),
        "wrong fingerprint": (write_retirement(Retirement("x", "", 0), OTHER), "other definition"),
        "wrong dimension": (by_content("x", "yes", (1.0, 2.0), fingerprint), "bad record"),
        # An empty id is refused by the writer; this is one as a stranger would write it.
        "no id": (valid.replace(b"\2x", b"\0", 1), "bad record"),
        "5 MB of random bytes": (secrets.token_bytes(FIVE_MEGABYTES), "bad record"),
        "another partition's id": (write_retirement(Retirement(ELSEWHERE, "", 0), fingerprint), "wrong partition"),
    }


def poison_for_queries(definition: StreamDefinition) -> Poison:
    def query(features: tuple[float, ...], sample_id: str = "q", fingerprint: bytes = b"") -> bytes:
        return write_query(Query(sample_id, np.array(features), fingerprint or definition.data_fingerprint))

    good = (1.0, 2.0, 3.0)
    return {
        "random bytes": (secrets.token_bytes(200), "bad record"),
        "null value": (None, "bad record"),
        "wrong schema": (write_sample("x", 0, "yes", good, definition.data_fingerprint), "bad record"),
        "wrong fingerprint": (query(good, fingerprint=OTHER), "other definition"),
        "wrong dimension": (query((1.0, 2.0)), "bad record"),
        "not a number": (query((1.0, float("nan"), 3.0)), "bad value"),
        "out of range": (query((1.0, 1e12, 3.0)), "bad value"),
        "5 MB of random bytes": (secrets.token_bytes(FIVE_MEGABYTES), "bad record"),
        "5 MB of an id": (query(good, "x" * FIVE_MEGABYTES), "bad id"),
    }


def poison_for_deltas(definition: StreamDefinition) -> Poison:
    source, fingerprint = Source("nowhere", 0), definition.stream_fingerprint
    claim = Claim(source, "somebody", OTHER)
    tile, nothing = Tile(0, 0, 0, 0, 0), Statistics(definition.dimension)
    foreign = Delta(source, "somebody", fingerprint, tile, Rebuild(), Statistics(2))
    return {
        "random bytes": (secrets.token_bytes(200), "bad record"),
        "null value": (None, "bad record"),
        "wrong schema": (write_sample("x", 0, "yes", (1.0,) * 3, definition.data_fingerprint), "bad record"),
        "wrong fingerprint": (write_claim(claim), "other definition"),
        "wrong fingerprint of a delta": (
            write_delta(replace(foreign, change=nothing, stream_fingerprint=OTHER)),
            "other definition",
        ),
        "wrong dimension": (write_delta(foreign), "bad record"),
        "5 MB of random bytes": (secrets.token_bytes(FIVE_MEGABYTES), "bad record"),
    }


class Poisoner:
    """Publishes bytes as they are, and knows where they went."""

    def __init__(self, broker: str, prefix: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 2 * FIVE_MEGABYTES})
        self._prefix = prefix
        self.expected: dict[tuple[str, int, int], str] = {}
        """Kind of the dead letter by topic, partition and offset."""

    def publish(self, topic: str, value: bytes | None, kind: str | None, key: bytes = b"poison") -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if kind is not None:
                self.expected[topic, partition, offset] = kind

        self._producer.produce(f"{self._prefix}.{topic}", value, key=key, partition=0, on_delivery=delivered)
        assert self._producer.flush(PATIENCE_SECONDS) == 0


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    tables = {"window": {"length": "7d"}, "input": {"label": "label", "id": "id", "time": "time"}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as opened:
        yield opened


def letters_of(broker: str, stream: Stream) -> list[DeadLetter]:
    records = read_topic(broker, f"{stream.definition.name}.dead-letters")
    return [read_dead_letter(record.value()) for record in records]


def test_poison_on_every_topic_is_dead_lettered_once_and_nothing_else_happens(
    kafka: RunningKafka, stream: Stream, tmp_path: Path
) -> None:
    definition, broker = stream.definition, kafka.bootstrap
    for topic in ("deltas", "retirements", "queries"):
        admit_five_megabytes(broker, f"{definition.name}.{topic}")
    services = [stream.start(command) for command in ("worker", "merger", "scorer")]
    pids = [service.process.pid for service in services]
    reference, poisoner = Reference(definition), Poisoner(broker, definition.name)
    first, second = Rows(700, seed=5), Rows(500, seed=6, ids_from=700)

    stream.run("produce", first.write(tmp_path / "first.csv"))
    first.tell(reference)
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "before any poison")
    all_poison = {
        "samples": poison_for_samples(definition, time.time_ns() // 1_000_000),
        "retirements": poison_for_retirements(definition),
        "queries": poison_for_queries(definition),
        "deltas": poison_for_deltas(definition),
    }
    for topic, poison in all_poison.items():
        for value, kind in poison.values():
            poisoner.publish(topic, value, kind)
    poison_state(stream, poisoner)
    good = write_query(Query("good", np.array([1.0, 2.0, 3.0]), definition.data_fingerprint))
    poisoner.publish("queries", good, None)
    stream.run("produce", second.write(tmp_path / "second.csv"))

    for row in (0, 2):  # The rest of the batch with one bad row.
        reference.add(0, mixed_batch().samples(np.array([row])))
    second.tell(reference)
    digest = reference.statistics().digest(definition.data_fingerprint)
    stream.wait_for_digest(digest, "after poison")
    asked = len(all_poison["queries"]) + 1
    wait_until(lambda: len(answers(broker, stream)) == asked, "every query has an answer")
    told = answers(broker, stream)
    assert [one.id for one in told if isinstance(one, Prediction)] == ["good"]
    kinds = [kind for _, kind in all_poison["queries"].values()]
    assert Counter(one.kind for one in told if isinstance(one, Unanswered)) == Counter(kinds)
    wait_until(lambda: len(letters_of(broker, stream)) >= len(poisoner.expected), "all dead letters have come")

    letters = letters_of(broker, stream)
    found = {(letter.topic, letter.partition, letter.offset): letter.kind for letter in letters}
    assert found == poisoner.expected
    assert max(Counter((one.topic, one.partition, one.offset, one.row) for one in letters).values()) == 1
    assert all(letter.reason for letter in letters)
    of_row = [letter for letter in letters if letter.row == 1]
    assert len(of_row) == 1, "a row of a batch is named by its place"
    assert mixed_batch().ids[1] in of_row[0].reason
    large = [letter for letter in letters if letter.size >= FIVE_MEGABYTES]
    assert len(large) == sum("5 MB" in name for poison in all_poison.values() for name in poison)
    assert [service.process.pid for service in services if service.running] == pids, "no service has ended"

    # A service that starts now meets the poison among the models and checkpoints.
    for service in services:
        service.terminate()
    poison_state(stream, poisoner)
    restarted = [stream.start(command) for command in ("worker", "merger", "scorer")]
    restarted[1].wait_for("elected; going on")
    third = Rows(300, seed=7, ids_from=1200)
    stream.run("produce", third.write(tmp_path / "third.csv"))
    third.tell(reference)
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "started again over poison")
    assert stream.run("audit").stdout.endswith("equal\n")
    assert len(letters_of(broker, stream)) == len(letters), "what was dead-lettered is not dead-lettered again"


def poison_state(stream: Stream, poisoner: Poisoner) -> None:
    """What the services read of each other: models and checkpoints that are none, or of another definition."""
    definition = stream.definition
    model = stream.model()
    assert model is not None
    state = SourceState(Source("local", 0), Statistics(definition.dimension), sequence=10**6)
    narrow = replace(state, statistics=Statistics(2))
    for topic, values in {
        "models": (
            write_model(replace(model, stream_fingerprint=OTHER, version=model.version + 10**6)),
            write_model(replace(model, version=1)),
            # Under the right fingerprint, and still of no use.
            write_model(replace(model, version=2**63 - 1)),
            write_model(replace(model, version=model.version + 10**6, plane=_narrow(model.plane), blend=None)),
        ),
        "checkpoints": (
            write_checkpoint(Checkpoint(state, 10**6, OTHER)),
            write_checkpoint(Checkpoint(narrow, 10**6, definition.stream_fingerprint)),
            # From deltas that nobody has written.
            write_checkpoint(Checkpoint(state, 2**61, definition.stream_fingerprint)),
            write_checkpoint(Checkpoint(replace(state, sequence=2**63 - 1), 0, definition.stream_fingerprint)),
        ),
    }.items():
        for value in (*values, secrets.token_bytes(100), b"", None, secrets.token_bytes(2**20)):
            poisoner.publish(topic, value, None)


def _narrow(plane: Plane | None) -> Plane:
    """A plane over one feature less."""
    assert plane is not None
    return replace(plane, weights=plane.weights[:, :-1])


def answers(broker: str, stream: Stream) -> list[Prediction | Unanswered]:
    records = read_topic(broker, f"{stream.definition.name}.predictions")
    return [read_answer(record.value()) for record in records]


def admit_five_megabytes(broker: str, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", str(2 * FIVE_MEGABYTES), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)
