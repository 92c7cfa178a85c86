"""A reader by offset goes on where it was with another client, whatever its broker does meanwhile."""

from __future__ import annotations

from confluent_kafka import Producer

from deltaplane_services.kafka.log import LogReader
from kafka.clients import PATIENCE_SECONDS, create_topic, wait_until
from kafka.cluster import KafkaCluster


def test_a_new_client_goes_on_behind_the_last_record_of_the_old_one(
    second_kafka: KafkaCluster, stream_name: str
) -> None:
    create_topic(second_kafka.bootstrap, f"{stream_name}.deltas", partitions=2)
    producer = Producer({"bootstrap.servers": second_kafka.bootstrap})
    found: list[tuple[int, int, bytes | None]] = []

    def publish(value: bytes) -> None:
        producer.produce(f"{stream_name}.deltas", value, partition=1)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def has_come(value: bytes) -> bool:
        found.extend((record.partition, record.offset, record.value) for record in reader.poll(10, 0.2))
        return found[-1:] == [(1, len(found) - 1, value)]

    reader = LogReader({"bootstrap.servers": second_kafka.bootstrap}, stream_name)
    try:
        reader.follow([("deltas", 0, 0), ("deltas", 1, 0)])
        publish(b"to the first client")
        wait_until(lambda: has_come(b"to the first client"), "what came before")
        second_kafka.pause(1)
        for _ in range(2):  # The second of them takes over from one that has had nothing.
            reader._renew()
        second_kafka.resume(1)
        publish(b"to the third client")
        wait_until(lambda: has_come(b"to the third client"), "what came after, and nothing twice")
    finally:
        reader.close()
