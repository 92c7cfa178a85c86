"""The lag: how many records of each log are still to be read, as a reader knows it, and as an intake shows it."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deltaplane_services.kafka.log import LogReader
from kafka.clients import create_topic, wait_until
from kafka.made_shop import MadeShop
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS
from kafka.test_pipeline_intake import stream_of
from kafka.test_pipeline_metrics import ask, free_ports
from kafka.test_pipeline_restart import trim


def send(broker: str, topic: str, counts: dict[int, int], value: bytes = b"x") -> None:
    """Some records for each partition, and return once they are there."""
    out = Producer({"bootstrap.servers": broker})
    for partition, count in counts.items():
        for _ in range(count):
            out.produce(topic, value, partition=partition)
    out.flush()


@pytest.fixture
def reader(kafka: RunningKafka) -> Iterator[LogReader]:
    with closing(LogReader({"bootstrap.servers": kafka.bootstrap}, "")) as made:
        yield made


def test_the_lag_of_each_log_is_what_has_not_been_given_out_whatever_was_deleted_before(
    kafka: RunningKafka, stream_name: str, reader: LogReader
) -> None:
    topic, kept = f"{stream_name}-events", {0: 40, 1: 7}
    create_topic(kafka.bootstrap, topic, partitions=3)
    send(kafka.bootstrap, topic, {0: 60, 1: 7})
    trim(kafka.bootstrap, topic, {0: 20})
    reader.follow([(topic, 0, 20), (topic, 1, 0), (topic, 2, 0)])
    assert sum(reader.lags().values()) == 0, "nothing is known yet"

    came: Counter[int] = Counter()
    until = time.monotonic() + PATIENCE_SECONDS
    while sum(came.values()) < 47:
        came.update(record.partition for record in reader.poll(5, 0.1))
        assert time.monotonic() < until, came
        # A log of which something has come is known to its end.
        known = {at: lag for (_, at), lag in reader.lags().items() if came[at]}
        assert known == {at: kept[at] - count for at, count in came.items()}
    wait_until(lambda: not reader.poll(5, 0.1) and reader.has_ended(topic, 2), "the end of the empty one is known")
    assert {at: lag for (_, at), lag in reader.lags().items() if at < 2} == {0: 0, 1: 0}

    send(kafka.bootstrap, topic, {1: 30})
    wait_until(lambda: len(reader.poll(1, 0.1)) == 1, "one more has come")
    assert reader.lags()[topic, 1] == 29


def test_a_log_from_which_nothing_was_taken_has_the_lag_of_all_that_it_still_has(
    kafka: RunningKafka, stream_name: str, reader: LogReader
) -> None:
    """Whoever holds the records of one partition polls no more; the lag of the others is not 0."""
    topic = f"{stream_name}-events"
    create_topic(kafka.bootstrap, topic, partitions=3)
    send(kafka.bootstrap, topic, {0: 30, 1: 60, 2: 50})
    trim(kafka.bootstrap, topic, {1: 20})
    reader.follow([(topic, 0, 0), (topic, 1, 20), (topic, 2, 45)])
    taken: list[int] = []

    def one_has_come() -> bool:
        taken.extend(record.partition for record in reader.poll(1, 0.1))
        return bool(taken)

    wait_until(one_has_come, "one has come")
    expected = {at: count - taken.count(at) for at, count in {0: 30, 1: 40, 2: 5}.items()}
    wait_until(lambda: {at: lag for (_, at), lag in reader.lags().items()} == expected, f"the lags are {expected}")


def lags(port: int) -> dict[str, int]:
    """Topic to the lag of all its partitions, as the metrics of a service say."""
    found: Counter[str] = Counter()
    for line in ask(port, "/metrics")[1].splitlines():
        if said := re.fullmatch(r'deltaplane_consumer_lag_records\{.*topic="(.+?)".*\} (\S+)', line):
            found[said[1]] += int(float(said[2]))
    return dict(found)


def test_what_an_intake_holds_while_a_registry_is_silent_is_still_to_be_read(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    shop, (port,) = MadeShop(kafka.bootstrap, stream_name, seed=3), free_ports(1)
    intake = {**shop.intake(), "format": "confluent-avro"}
    del intake["time_unit"]
    intake["labels"] = {**intake["labels"], "format": "json"}
    # More than are taken at once, so that some are held and others are not.
    counts = {0: 900, 1: 500, 2: 100}
    send(kafka.bootstrap, shop.payments, counts, b"\0\0\0\0\x09\2\2")
    with stream_of(tmp_path, stream_name, kafka.bootstrap, intake, registry="http://127.0.0.1:1") as stream:
        stream.start("intake", "--metrics-address", f"127.0.0.1:{port}").wait_for("waiting for it")
        wait_until(lambda: lags(port).get(shop.payments) == 1500, "all are still to be read")
        assert lags(port).get(shop.chargebacks, 0) == 0
