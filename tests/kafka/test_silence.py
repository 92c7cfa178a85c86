"""Batches at which clients go silent: passed over with a letter by everyone who reads, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaplane.reference import Reference
from deltaplane.wire import read_dead_letter
from kafka.clients import read_topic, wait_until
from kafka.raw_batches import batch_of, packed, produce, record
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_foreign_logs import digest_of
from kafka.test_topics import alter
from kafka.test_topics_made_anew import send

ODD = {
    "a length below zero": ("none", record(b"a", 0, key_length=-5), 1),
    "two members of gzip": ("gzip", packed(record(b"a", 0), "gzip") + packed(record(b"b", 1), "gzip"), 2),
    "bytes behind a frame of lz4": ("lz4", packed(record(b"a", 0) + record(b"b", 1), "lz4") + b"garbage!", 2),
}
"""Batches as they reach clients where the topic has no codec, so that its broker does not look into them."""


@pytest.mark.parametrize("kind", ODD)
def test_a_batch_at_which_clients_go_silent_costs_a_letter_and_no_row(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, kind: str
) -> None:
    service = {"checkpoint_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=service, window={"length": "all"}) as stream:
        alter(kafka.bootstrap, f"{stream_name}.samples", {"compression.type": "producer"})
        reference = Reference(stream.definition)
        worker = stream.start("worker")
        stream.start("merger")
        send(stream, 100).tell(reference)
        stream.wait_for_digest(digest_of(reference), "before the batch")
        codec, content, count = ODD[kind]
        error, begin = produce(kafka.bootstrap, f"{stream_name}.samples", batch_of(count, content, codec))
        assert error == 0
        rows: Rows = send(stream, 100, ids_from=500)
        rows.tell(reference)

        def letters() -> list[tuple[int, int, str]]:
            found = [
                read_dead_letter(one.value()) for one in read_topic(kafka.bootstrap, f"{stream_name}.dead-letters")
            ]
            return [(one.partition, one.offset, one.kind) for one in found]

        # The probes that prove the silence take half a minute.
        wait_until(lambda: len(letters()) == 1, "one letter")
        stream.wait_for_digest(digest_of(reference), "the rows behind the batch")
        assert letters() == [(0, begin, "bad record")]
        # Whoever rebuilds the window meets the same batch.
        worker.kill()
        stream.start("worker")
        send(stream, 50, ids_from=900).tell(reference)
        stream.wait_for_digest(digest_of(reference), "after a rebuild")
        assert stream.run("audit").stdout.endswith("equal\n")
        assert letters() == [(0, begin, "bad record")]
