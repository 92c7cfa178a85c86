"""Offsets inside a batch that its sender made up: the broker numbers the records of every topic that others write."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaplane.reference import Reference
from deltaplane.stream.sample import Retirement
from deltaplane.wire import read_retirement, write_retirement, write_sample
from deltaplane_services.kafka.topic_plans import INPUT_CODEC
from kafka.clients import create_topic, read_topic
from kafka.raw_batches import CODECS, batch, batch_of, packed, produce, record
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream

FORGED = {
    "jumping": [0, 1_000_000, 2],
    "equal": [0, 0, 0],
    "descending": [2, 1, 0],
    "negative": [-10, 1, 2],
    "beyond": [5, 6, 7],
    "farthest": [0, 1, 2**31 - 1],
}
"""What may stand where 0, 1, 2 should."""


@pytest.mark.parametrize("topic_codec", ["zstd", "lz4", "gzip", "snappy"])
def test_a_topic_with_a_codec_numbers_every_record_whatever_codec_its_sender_claims(
    kafka: RunningKafka, stream_name: str, topic_codec: str
) -> None:
    create_topic(kafka.bootstrap, stream_name, config={"compression.type": topic_codec})
    expected = 0
    for codec in CODECS:
        error, offset = produce(kafka.bootstrap, stream_name, batch([b"a", b"b", b"c"], [0, 1, 2], codec))
        assert (error, offset) == (0, expected)
        expected += 3
        for deltas in FORGED.values():
            error, offset = produce(kafka.bootstrap, stream_name, batch([b"a", b"b", b"c"], deltas, codec))
            # Of another codec the records are packed and numbered anew; a batch of its own, which would stay as it is,
            # this version of the broker refuses.
            assert error == 0 or codec == topic_codec
            expected += 3 if error == 0 else 0
    assert [message.offset() for message in read_topic(kafka.bootstrap, stream_name)] == list(range(expected))


@pytest.mark.parametrize("topic_codec", ["producer", "uncompressed"])
def test_a_topic_without_one_hands_on_what_a_sender_made_up(
    kafka: RunningKafka, stream_name: str, topic_codec: str
) -> None:
    # This is why the input topics have one. Where it fails, a broker has learned to look, and they need none.
    create_topic(kafka.bootstrap, stream_name, config={"compression.type": topic_codec})
    assert produce(kafka.bootstrap, stream_name, batch([b"a", b"b", b"c"], [0, 1_000_000, 2])) == (0, 0)
    assert [message.offset() for message in read_topic(kafka.bootstrap, stream_name)] == [0, 1_000_000, 2]


THREE = b"".join(record(b"%d" % number, number) for number in range(3))
SPLIT = len(THREE) // 2
ODD = {
    "two members of gzip": ("gzip", packed(THREE[:SPLIT], "gzip") + packed(THREE[SPLIT:], "gzip"), 3),
    "bytes behind a frame of lz4": ("lz4", packed(THREE, "lz4") + b"garbage!", 3),
    "two frames of lz4": ("lz4", packed(THREE, "lz4") * 2, 3),
    "a length below zero": ("none", record(b"a", 0, key_length=-5), 1),
    "a length below zero in lz4": ("lz4", packed(record(b"a", 0, key_length=-5), "lz4"), 1),
}
"""Batches that a broker takes, and at which librdkafka goes silent or errs for ever where they reach it as they are."""


@pytest.mark.parametrize("kind", ODD)
def test_a_batch_that_clients_cannot_read_is_made_one_that_they_can(
    kafka: RunningKafka, stream_name: str, kind: str
) -> None:
    create_topic(kafka.bootstrap, stream_name, config={"compression.type": INPUT_CODEC})
    codec, content, count = ODD[kind]
    for values in ([b"before"], None, [b"after"]):
        sent = batch_of(count, content, codec) if values is None else batch(values, [0])
        error, _ = produce(kafka.bootstrap, stream_name, sent)
        assert error == 0
    found = read_topic(kafka.bootstrap, stream_name)
    assert [found[0].value(), found[-1].value()] == [b"before", b"after"]
    assert [message.offset() for message in found] == list(range(count + 2))


def test_forged_offsets_leave_every_row_counted_once_and_the_audit_equal(
    kafka: RunningKafka, stream_name: str, tmp_path: Path
) -> None:
    tables = {"window": {"length": "all"}, "input": {"label": "label", "id": "id", "time": "time"}, "partitions": 1}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as stream:
        definition, reference = stream.definition, Reference(stream.definition)
        worker, _ = stream.start("worker"), stream.start("merger")
        forged = 0
        for number, (kind, deltas) in enumerate({**FORGED, "many": [0] * 300}.items()):
            honest = Rows(50, seed=number, ids_from=50 * number)
            stream.run("produce", honest.write(tmp_path / f"{kind}.csv"))
            honest.tell(reference)
            stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), f"before {kind}")
            rows = Rows(len(deltas), seed=100 + number, ids_from=10_000 * (number + 1))
            values = [
                write_sample(
                    rows.ids[row],
                    int(rows.times[row]),
                    rows.labels[row],
                    tuple(rows.features[row].tolist()),
                    definition.data_fingerprint,
                )
                for row in range(len(deltas))
            ]
            error, _ = produce(kafka.bootstrap, f"{stream_name}.samples", batch(values, deltas))
            assert error == 0
            # Packed as the topic wants it, it is refused, or numbered anew; then its rows are those from before.
            produce(kafka.bootstrap, f"{stream_name}.samples", batch(values, deltas, "zstd"))
            rows.tell(reference)
            forged += len(deltas)
        digest = reference.statistics().digest(definition.data_fingerprint)
        model = stream.wait_for_digest(digest, "behind all of it")
        assert model.totals["applied"] == forged + 50 * (len(FORGED) + 1)

        # Retirements alike: each is counted once, by this worker and by the next.
        retired = [f"row-{number}" for number in range(6)]
        values = [write_retirement(Retirement(i, "", 0), definition.data_fingerprint) for i in retired]
        for begin, deltas in ((0, [0, 0, 0]), (3, [0, 1_000_000, 2])):
            error, _ = produce(kafka.bootstrap, f"{stream_name}.retirements", batch(values[begin : begin + 3], deltas))
            assert error == 0
        for sample_id in retired:
            reference.retire(sample_id)
        digest = reference.statistics().digest(definition.data_fingerprint)
        model = stream.wait_for_digest(digest, "retired")
        assert model.totals["retirements retired"] == len(retired)
        log = read_topic(kafka.bootstrap, f"{stream_name}.retirements")
        assert [read_retirement(one.value(), 3, definition.data_fingerprint, 0).id for one in log] == retired
        assert stream.run("audit").stdout.endswith("equal\n")
        worker.kill()
        stream.start("worker").wait_for("claimed local/0")
        more = Rows(20, seed=99, ids_from=900_000)
        stream.run("produce", more.write(tmp_path / "more.csv"))
        more.tell(reference)
        model = stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "by the next worker")
        assert model.totals["retirements retired"] == len(retired)
        assert stream.run("audit").stdout.endswith("equal\n")
