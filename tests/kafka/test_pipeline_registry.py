"""An intake whose events are Avro of a real schema registry, and envelopes of Debezium in Avro."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import not_run
from kafka.clients import create_topic, read_topic, wait_until
from kafka.cluster import free_port
from kafka.errors import KafkaUnavailable
from kafka.made_shop import INPUT, MadeShop
from kafka.registry import RunningRegistry, running_registry
from kafka.selection import RunningKafka
from kafka.test_pipeline_intake import digest_of, replayed, stream_of
from kafka.test_pipeline_metrics import ask


def tx(*more: dict[str, Any]) -> dict[str, Any]:
    """The schema of a payment."""
    sum_of = {"type": "record", "name": "Sum", "fields": [{"name": "value", "type": "double"}]}
    fields: list[dict[str, Any]] = [
        {"name": "ref", "type": "string"},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "sum", "type": sum_of},
        {"name": "country", "type": ["null", "string"]},
        {"name": "known", "type": "boolean"},
    ]
    inner = {"type": "record", "name": "Tx", "fields": [*fields, *more]}
    return {"type": "record", "name": "Payment", "namespace": "shop", "fields": [{"name": "tx", "type": inner}]}


SCHEMAS = [tx(), tx({"name": "channel", "type": "string", "default": "web"})]
DEEP = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RunningRegistry]:
    try:
        with running_registry(tmp_path) as running:
            yield running
    except KafkaUnavailable as reason:
        not_run.give_up("KAFKA", str(reason))


class AvroShop(MadeShop):
    """A shop whose payments are Avro."""

    def __init__(self, bootstrap: str, name: str, registry: RunningRegistry) -> None:
        super().__init__(bootstrap, name, seed=13)
        self.version = 0
        self.client = SchemaRegistryClient({"url": registry.url})
        self.ids = self.register()
        self._writers = [AvroSerializer(self.client, json.dumps(schema)) for schema in SCHEMAS]
        for at, one in enumerate(self._writers):
            assert self._encoded(one, "warm up")[1:5] == self.ids[at].to_bytes(4), "the id of the schema"

    def register(self) -> list[int]:
        """The ids of the schemas of payments, which a registry gives in order."""
        client = self.client
        found = [client.register_schema(f"{self.payments}-value", Schema(json.dumps(one), "AVRO")) for one in SCHEMAS]
        client.register_schema("deep", Schema(json.dumps(DEEP), "AVRO"))
        return found

    def _encoded(self, writer: AvroSerializer, ref: str, row: dict[str, Any] | None = None) -> bytes:
        inner = {"ref": ref, "created": 0, "sum": {"value": 1.0}, "country": None, "known": True, "channel": "app"}
        value = writer({"tx": row or inner}, SerializationContext(self.payments, MessageField.VALUE))
        assert isinstance(value, bytes)
        return value

    def send(self, topic: str, ref: str, value: bytes | None, at: int) -> None:
        if topic == self.payments and value is not None and value.startswith(b"{"):
            row = {"channel": "app", **json.loads(value)["tx"]}
            value = self._encoded(self._writers[self.version], ref, row)
        super().send(topic, ref, value, at)


def silent_seconds(port: int) -> float:
    """How long the registry has been silent, as the metrics of an intake say."""
    lines = ask(port, "/metrics")[1].splitlines()
    (line,) = [line for line in lines if line.startswith("deltaplane_intake_registry_silent_seconds{")]
    return float(line.split()[-1])


def test_payments_in_avro_of_a_registry_are_a_model_whatever_else_comes_and_while_the_registry_is_away(
    kafka: RunningKafka,
    tmp_path: Path,
    stream_name: str,
    registry: RunningRegistry,
    request: pytest.FixtureRequest,
) -> None:
    shop = AvroShop(kafka.bootstrap, stream_name, registry)
    request.addfinalizer(lambda: shop.client.__exit__(None, None, None))  # type: ignore[no-untyped-call]
    intake = {**shop.intake(), "format": "confluent-avro", "time_unit": None}
    intake["labels"] = {**intake["labels"], "format": "json"}
    del intake["time_unit"]
    with stream_of(tmp_path, stream_name, kafka.bootstrap, intake, registry=registry.url, input=INPUT) as stream:
        for command in ("worker", "merger"):
            stream.start(command)
        port = free_port()
        service = stream.start("intake", "--metrics-address", f"127.0.0.1:{port}")
        shop.sell(150)
        poison = [b"", b"no framing", b"\0\0\0\x27\x0f\1\2", shop._encoded(shop._writers[0], "x")[:-2]]
        deep = (shop.ids[1] + 1).to_bytes(4)
        poison.append(b"\0" + deep + b"\2" * 500_000 + b"\0")
        for value in poison:
            shop.send(shop.payments, "bad", value, 0)
        shop.flush()
        letters: list[dict[str, Any]] = []
        while len(letters) < len(poison):
            letters = json.loads(stream.run("dead-letters", "list", "--json").stdout)
        reasons = " | ".join(one["reason"] for one in letters)
        for words in ("size is 0 bytes", "Invalid magic byte", "does not know its schema", "bytes that are none"):
            assert words in reasons
        assert "its record 'L' may lie within itself" in reasons

        registry.freeze()
        shop.version = 1
        shop.sell(150)
        shop.flush()
        service.wait_for("schema registry http.* waiting for it")
        wait_until(lambda: ask(port, "/readyz")[0] == 503, "it is not ready")
        assert "the schema registry does not answer" in ask(port, "/readyz")[1]
        assert silent_seconds(port) > 0
        registry.thaw()
        shop.let_pass(31)
        stream.wait_for_digest(replayed(stream, shop), "all payments, also those that came while it was away")
        assert silent_seconds(port) == 0
        assert ask(port, "/readyz")[0] == 200
        assert stream.run("audit").stdout.rstrip().endswith("equal")


def test_a_database_whose_changes_are_envelopes_in_avro(
    kafka: RunningKafka,
    tmp_path: Path,
    stream_name: str,
    registry: RunningRegistry,
    request: pytest.FixtureRequest,
) -> None:
    topic = f"{stream_name}-orders"
    create_topic(kafka.bootstrap, topic, partitions=2)
    fields: list[dict[str, Any]] = [{"name": "amount", "type": "double"}, {"name": "country", "type": "string"}]
    fields += [{"name": "known", "type": "boolean"}, {"name": "kind", "type": "string"}]
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, *fields]}
    envelope = {"type": "record", "name": "Envelope", "fields": [{"name": "before", "type": ["null", row]}]}
    envelope["fields"] += [{"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"}]  # type: ignore[operator]
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    client = SchemaRegistryClient({"url": registry.url})
    request.addfinalizer(lambda: client.__exit__(None, None, None))  # type: ignore[no-untyped-call]
    write_key, write = (AvroSerializer(client, json.dumps(one)) for one in (key, envelope))
    orders = {"topic": topic, "format": "debezium-confluent-avro", "id": "id", "label": "kind"}
    with stream_of(tmp_path, stream_name, kafka.bootstrap, orders, registry=registry.url) as stream:
        for command in ("worker", "merger", "intake"):
            stream.start(command)
        out = Producer({"bootstrap.servers": kafka.bootstrap})
        cells = {"amount": 2.5, "country": "DE", "known": True}
        for number in range(60):
            named = write_key({"id": number}, SerializationContext(topic, MessageField.KEY))
            now = {"id": number, **cells, "kind": "fraud" if number < 20 else "ok"}
            told = write({"before": None, "after": now, "op": "r"}, SerializationContext(topic, MessageField.VALUE))
            out.produce(topic, told, key=named)
        out.flush()
        stream.wait_for_digest(digest_of(stream.definition, cells, range(20), range(20, 60)), "all rows")
        for number in range(40, 60):
            # A tombstone alone says it, too.
            out.produce(topic, None, key=write_key({"id": number}, SerializationContext(topic, MessageField.KEY)))
        out.flush()
        stream.wait_for_digest(digest_of(stream.definition, cells, range(20), range(20, 40)), "rows that are there")
        assert not read_topic(kafka.bootstrap, f"{stream_name}.dead-letters")
        assert "45: retired" in stream.run("verify-receipt", "45").stdout
