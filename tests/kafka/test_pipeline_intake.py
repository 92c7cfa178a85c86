"""A shop's own topics in JSON, with names, keys and partitions that are not ours, become a model by the intake."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer

from deltaplane.log.records import Prediction
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_answer, read_dead_letter
from kafka.clients import create_topic, read_topic, wait_until
from kafka.cluster import KafkaCluster
from kafka.made_shop import INPUT, MadeShop
from kafka.selection import RunningKafka
from kafka.services import Stream
from services.intake_shop import COLUMNS, DAY, FEATURES, FIRST_TIME, chargeback


@pytest.fixture
def shop(kafka: RunningKafka, stream_name: str) -> MadeShop:
    return MadeShop(kafka.bootstrap, stream_name, seed=7)


@contextmanager
def stream_of(
    directory: Path, name: str, bootstrap: str, intake: Mapping[str, Any], *, registry: str | None = None, **more: Any
) -> Iterator[Stream]:
    """A stream of the shop's columns that an intake fills; ``more`` tables besides."""
    with Stream.made(
        directory,
        name,
        bootstrap,
        service={"state_directory": str(directory / "state"), **({} if registry is None else {"registry": registry})},
        columns=COLUMNS,
        features={},
        grid={"steps": [2.0**-20] * FEATURES},
        classes={"names": ["fraud", "ok"], "positive": "fraud"},
        intake=dict(intake),
        **more,
    ) as opened:
        yield opened


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str, shop: MadeShop) -> Iterator[Stream]:
    with stream_of(tmp_path, stream_name, kafka.bootstrap, shop.intake(), input=INPUT) as opened:
        yield opened


def replayed(stream: Stream, shop: MadeShop) -> str:
    """The digest of a replay of the joined table."""
    out = stream.directory / "replay.json"
    stream.run("replay", shop.table(stream.directory / "joined.csv"), "--json", out)
    return str(json.loads(out.read_text())["digest"])


def test_the_topics_of_a_shop_have_the_digest_of_a_replay_of_the_joined_table(
    kafka: RunningKafka, stream: Stream, shop: MadeShop
) -> None:
    for command in ("worker", "merger", "intake"):
        stream.start(command)
    shop.sell(400)
    shop.let_pass(31)
    stream.wait_for_digest(replayed(stream, shop), "labels and silence")
    shop.send(shop.chargebacks, "tx-1", chargeback("tx-1", "fraud"), FIRST_TIME + 90 * DAY)
    shop.rows["tx-1"]["verdict"] = "fraud"
    shop.flush()
    stream.wait_for_digest(replayed(stream, shop), "a label that came after silence corrects it")
    records = read_topic(kafka.bootstrap, f"{stream.definition.name}.dead-letters")
    refused = [(letter.topic, letter.kind) for letter in (read_dead_letter(one.value()) for one in records)]
    assert sorted(refused) == sorted((topic, "bad record") for topic in (shop.payments, shop.chargebacks))
    assert stream.run("audit").stdout.rstrip().endswith("equal")


def test_intakes_that_are_killed_with_and_without_their_stores_and_shared_out_anew_lose_and_double_nothing(
    stream: Stream, shop: MadeShop
) -> None:
    for command in ("worker", "merger"):
        stream.start(command)
    intakes = [stream.start("intake")]
    for life in range(4):
        shop.sell(300)
        shop.flush()
        intakes[-1].wait_for("took over partition")
        intakes.pop(0).kill()
        if life % 2:
            for file in (stream.directory / "state").glob("*"):
                file.unlink()
        intakes += [stream.start("intake", "--metrics-address", "127.0.0.1:0") for _ in range(1 + life % 2)]
    shop.sell(100)
    shop.let_pass(31)
    stream.wait_for_digest(replayed(stream, shop), "after kills, lost stores and rebalances")
    assert stream.run("audit").stdout.rstrip().endswith("equal")


def test_one_that_was_frozen_and_wakes_up_late_changes_nothing(stream: Stream, shop: MadeShop) -> None:
    for command in ("worker", "merger"):
        stream.start(command)
    first = stream.start("intake")
    shop.sell(300)
    shop.flush()
    first.wait_for("took over partition", 2)
    first.process.send_signal(signal.SIGSTOP)
    second = stream.start("intake", "--metrics-address", "127.0.0.1:0")
    shop.sell(300)
    second.wait_for("took over partition", 2)
    shop.let_pass(31)
    first.process.send_signal(signal.SIGCONT)
    stream.wait_for_digest(replayed(stream, shop), "after one was frozen for longer than its session")


def test_a_broker_that_is_killed_and_comes_back_costs_an_intake_nothing(
    second_kafka: KafkaCluster, tmp_path: Path, stream_name: str
) -> None:
    shop = MadeShop(second_kafka.bootstrap, stream_name, seed=11)
    with stream_of(tmp_path, stream_name, second_kafka.bootstrap, shop.intake(), input=INPUT) as stream:
        for command in ("worker", "merger", "intake"):
            stream.start(command)
        shop.sell(400)
        shop.flush()
        stream.processes[2].wait_for("took over partition", 2)
        second_kafka.kill(1)
        second_kafka.restart(1)
        shop.sell(200)
        shop.let_pass(31)
        stream.wait_for_digest(replayed(stream, shop), "after the broker was killed")
        stream.check_running()


def test_an_intake_says_what_is_missing_before_it_begins(stream: Stream, shop: MadeShop) -> None:
    text = stream.definition_file.read_text()
    stream.definition_file.write_text(text.replace(shop.payments, "no-such-topic"))
    assert "topic no-such-topic of [intake] is not there" in stream.run("intake", code=2).stderr
    stream.definition_file.write_text(text.split("[intake]")[0] + "\n[service]\n" + text.split("[service]")[1])
    assert "expected a table [intake] that names your topics" in stream.run("intake", code=2).stderr


def test_a_row_that_is_deleted_in_its_database_leaves_the_model_with_a_receipt_that_is_true(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    topic = f"{stream_name}-public.orders"
    create_topic(kafka.bootstrap, topic, partitions=2)
    orders = {"topic": topic, "format": "debezium-json", "id": "id", "label": "kind"}
    with stream_of(tmp_path, stream_name, kafka.bootstrap, orders) as stream:
        for command in ("worker", "merger", "intake"):
            stream.start(command)
        out = Producer({"bootstrap.servers": kafka.bootstrap})
        row = {"amount": 2.5, "country": "DE", "known": True}

        def change(operation: str, number: int, kind: str = "ok") -> None:
            now, before = {"id": number, **row, "kind": kind}, {"id": number}
            rows = {"before": before, "after": None} if operation == "d" else {"before": None, "after": now}
            key = json.dumps({"id": number})
            out.produce(topic, json.dumps({"op": operation, **rows, "source": {"table": "orders"}}), key=key)
            if operation == "d":
                out.produce(topic, None, key=key)

        for number in range(40):
            change("r", number)
        for number in range(20):
            change("u", number, "fraud")
        out.flush()
        stream.wait_for_digest(digest_of(stream.definition, row, range(20), range(20, 40)), "rows as they are now")
        for number in range(10, 30):
            change("d", number)
        out.flush()
        stream.wait_for_digest(digest_of(stream.definition, row, range(10), range(30, 40)), "rows that are there")
        said = stream.run("verify-receipt", "15", "29").stdout
        assert "15: retired" in said
        assert "29: retired" in said


def digest_of(definition: StreamDefinition, row: dict[str, Any], fraud: range, ok: range) -> str:
    """The digest of rows that are all the same, by the numbers that are their ids."""
    assert definition.columns is not None
    ids = [str(number) for number in (*fraud, *ok)]
    features = definition.columns.encode_records([row] * len(ids)).features
    codes = np.array([0] * len(fraud) + [1] * len(ok), dtype=np.int32)
    samples, reference = Samples.of_record(ids, FIRST_TIME, ("fraud", "ok"), codes, features), Reference(definition)
    for partition in range(definition.partitions):
        reference.add(partition, samples.chosen(np.flatnonzero(definition.partitions_of(ids) == partition)))
    return reference.statistics().digest(definition.data_fingerprint)


def test_refused_records_come_back_once_the_definition_is_mended_as_if_nothing_had_been_refused(
    kafka: RunningKafka, stream: Stream, shop: MadeShop
) -> None:
    good = stream.definition_file.read_text()
    bad = good.replace('"tx.sum.value"', '"tx.sum"')
    assert bad != good
    stream.definition_file.write_text(bad)
    for command in ("worker", "merger"):
        stream.start(command)
    intake = stream.start("intake")
    shop.sell(400)
    shop.flush()
    intake.wait_for("bad value")
    listed: list[dict[str, Any]] = []
    while len({one["name"] for one in listed}) < len(shop.rows):
        listed = json.loads(stream.run("dead-letters", "list", "--reason", "bad value", "--json").stdout)
    shown = json.loads(stream.run("dead-letters", "show", listed[0]["name"]).stdout)
    assert shown["topic"] == shop.payments
    assert json.loads(shown["value"])["tx"]["ref"] in shop.rows
    assert "column 'amount' is no number" in shown["reason"]
    assert stream.run("dead-letters", "list", "--reason", "bogus time").stdout == ""
    assert "there is none named 'x'" in stream.run("dead-letters", "show", "x", code=2).stderr
    intake.terminate()
    stream.definition_file.write_text(good)
    assert "records sent again" in stream.run("dead-letters", "replay", "--reason", "bad value", "--since", "1h").stdout
    stream.start("intake")
    shop.let_pass(31)
    stream.wait_for_digest(replayed(stream, shop), "all that had been refused")
    letter = read_topic(kafka.bootstrap, f"{stream.definition.name}.dead-letters")[0]
    assert dict(letter.headers() or ())["__connect.errors.topic"] == shop.payments.encode()
    sent = [one for one in read_topic(kafka.bootstrap, shop.payments) if one.value() != b"no json"]
    assert len(sent) > len(shop.rows), "once by the shop, and once from their letters"
    refs = [json.loads(one.value() or b"")["tx"]["ref"].encode() for one in sent]
    assert [one.headers() for one in sent] == [[("trace", ref), ("empty", None)] for ref in refs]


def test_events_are_queries_too_and_have_a_prediction_before_they_have_a_label(
    kafka: RunningKafka, stream: Stream, shop: MadeShop
) -> None:
    text = stream.definition_file.read_text()
    stream.definition_file.write_text(text.replace("[intake]\n", "[intake]\nqueries = true\n"))
    for command in ("worker", "merger", "scorer", "intake"):
        stream.start(command)
    shop.sell(300)
    shop.let_pass(31)
    stream.wait_for_digest(replayed(stream, shop), "there is a model")
    seen = len(shop.rows)
    shop.sell(30, label_share=0.0)
    shop.flush()
    new = {f"tx-{number}" for number in range(seen, seen + 30)}

    def answered() -> set[str]:
        found = read_topic(kafka.bootstrap, f"{stream.definition.name}.predictions")
        told = [read_answer(message.value()) for message in found]
        return {one.id for one in told if isinstance(one, Prediction) and one.id in new}

    wait_until(lambda: answered() == new, "each has a prediction")
    stream.check_running()
