"""Receipts: whose word counts, and that what they say can be proved from the log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deltaplane.log.delta import Source
from deltaplane.log.records import Receipt
from deltaplane.reference import Reference
from deltaplane.wire import read_receipt, write_receipt
from deltaplane_services.client import SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import RECEIPTS, Outgoing, receipt_key
from kafka.clients import read_topic
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream


def receipts_of(stream: Stream, broker: str, sample_id: str) -> list[Receipt]:
    records = read_topic(broker, f"{stream.definition.name}.{RECEIPTS}")
    return [one for record in records if (one := read_receipt(record.value())).id == sample_id]


@pytest.mark.parametrize("window", ["400", "300s", "all"])
def test_a_receipt_is_proved_from_the_log_and_a_forged_one_is_not(
    window: str, kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    rows, broker = Rows(1000, 8), kafka.bootstrap
    with Stream.made(tmp_path, stream_name, broker, window={"length": window}) as stream:
        stream.start("merger")
        worker, reference = stream.start("worker"), Reference(stream.definition)
        with SampleProducer(stream.settings) as producer:
            producer.send_batch(rows.ids, rows.times, rows.labels, rows.features)
        rows.tell(reference)
        told = stream.run("retire", "row-990", "row-3", "never-came", code=3).stdout
        assert "row-990: retired" in told
        worker.kill()
        stream.start("worker")
        stream.run("retire", "row-991", "row-990", code=5)
        for sample_id in ("row-990", "row-991", "row-3"):
            reference.retire(sample_id)
        reference.retire("never-came")
        stream.wait_for_digest(reference.statistics().digest(stream.definition.data_fingerprint), "retired")
        proved = stream.run("verify-receipt", "row-990", "row-991", "row-3", "never-came", code=3).stdout
        assert proved.count("verified: the log gives the same; model") == 3
        assert proved.count("verified only that nothing was taken out: no live row has this id") == 1
        assert proved.count("verified only that nothing was taken out: this id had been retired before") == 1
        stream.run("verify-receipt", "row-990", "row-991", "row-3")
        told = json.loads(stream.run("verify-receipt", "never-came", "--json", code=3).stdout)
        assert [(one["outcome"], one["verified"], one["out"]) for one in told] == [("waiting", True, False)]
        assert "row-990: duplicate" in proved
        assert "never-came: waiting" in proved
        # Of the id whose row is gone, the digest before and after differ; what was no more there changed nothing.
        first = receipts_of(stream, broker, "row-990")[0]
        assert first.digest_before != first.digest_after
        assert "holds no receipt of 'row-5'" in stream.run("verify-receipt", "row-5", code=2).stderr

        # A writer that has lost its source writes under a key of its own: what is true stays, and is found.
        partition = stream.definition.partition_of("row-991")
        true = receipts_of(stream, broker, "row-991")[-1]
        zombie = replace(true, writer="zombie", outcome="unknown", digest_after="0" * 64)
        forged = replace(true, outcome="expired")
        out = publisher(stream.settings, "site")
        key = receipt_key(partition, true.offset, "zombie", true.sequence)
        out.publish([Outgoing(RECEIPTS, partition, key, write_receipt(zombie))])
        out.flush()
        again = stream.run("verify-receipt", "row-991").stdout
        assert "row-991: retired" in again
        assert "unknown" not in again
        key = receipt_key(partition, true.offset, true.writer, true.sequence)
        out.publish([Outgoing(RECEIPTS, partition, key, write_receipt(forged))])
        out.flush()
        found = stream.run("verify-receipt", "row-991", code=1).stdout
        assert "NOT VERIFIED: the log gives" in found
        assert true.source == Source(stream.settings.site, partition)
