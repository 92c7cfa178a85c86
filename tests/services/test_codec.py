"""The codec seam: processors know values alone, so that another form of input is one class."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from deltaplane.errors import WireError
from deltaplane.log.delta import Delta, Source, SourceOrder
from deltaplane.log.records import Query, Unanswered
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_services.processors.acceptance import nothing_of
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of, outgoing, readable
from deltaplane_services.processors.messages import (
    DELTAS,
    QUERIES,
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Output,
    Record,
    source_key,
    source_of_key,
)
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import MODEL
from strategies_streams import definition_of

Values = list[bytes | None]

NOW = 1_000_000
STREAM = definition_of("all", features=2)
ROWS: list[tuple[str, str, tuple[float, ...]]] = [
    (f"row-{at}", "ab"[at % 2], (float(at), -float(at))) for at in range(20)
]


class JsonCodec(Codec):
    """Samples, retirements and queries as JSON; what the services send stays Avro."""

    def samples(self, records: Iterable[Record]) -> Iterator[Samples | Undecodable]:
        return map(self.rows, records)

    def rows(self, record: Record) -> Samples | Undecodable:
        try:
            said = json.loads(record.value or b"")
            return _samples([(said["id"], said["label"], said["features"])], record.offset)
        except (ValueError, KeyError) as fault:
            return Undecodable(record, WireError(f"no sample in JSON: {fault}"))

    def retirement(self, record: Record) -> Retirement | Undecodable:
        said = json.loads(record.value or b"")
        return Retirement(said["id"], said["reason"], record.offset, time=0)

    def query(self, record: Record) -> Query | Undecodable:
        try:
            said = json.loads(record.value or b"")
            return Query(said["id"], np.array(said["features"]), self.definition.data_fingerprint)
        except (ValueError, KeyError) as fault:
            return Undecodable(record, WireError(f"no query in JSON: {fault}"), "unread")


def _samples(rows: list[tuple[str, str, tuple[float, ...]]], offset: int) -> Samples:
    count = len(rows)
    return Samples(
        ids=[row[0] for row in rows],
        event_times=np.full(count, NOW),
        label_table=("a", "b"),
        label_codes=np.array(["ab".index(row[1]) for row in rows], dtype=np.int32),
        features=np.array([row[2] for row in rows], dtype=np.float64),
        offsets=np.full(count, offset),
        rows=np.arange(count),
        log_times=np.full(count, NOW),
    )


def worked(
    codec: Codec, samples: list[bytes | None], retirements: list[bytes | None]
) -> tuple[WorkerProcessor, Output]:
    worker = WorkerProcessor(STREAM, Source("here", 0), "writer", codec=codec)
    worker.restore(nothing_of(STREAM, worker.source))
    logs = [
        [Record(topic, 0, offset, NOW, None, value) for offset, value in enumerate(values)]
        for topic, values in ((SAMPLES, samples), (RETIREMENTS, retirements))
    ]
    return worker, worker.process(*logs)


def test_samples_and_retirements_in_json_give_the_bits_that_they_give_in_avro_by_a_codec_alone() -> None:
    avro = Codec(STREAM)
    asked = Retirement("row-3", "gone", 0, time=0)
    plain = [avro.sample_batch(0, _samples([row], 0)).value for row in ROWS]
    as_json: Values = [json.dumps({"id": name, "label": label, "features": row}).encode() for name, label, row in ROWS]
    one, _ = worked(avro, plain, [avro.retirement_of(0, asked).value])
    other, output = worked(JsonCodec(STREAM), as_json, [json.dumps({"id": "row-3", "reason": "gone"}).encode()])
    digests = [worker.partition.statistics.digest(STREAM.data_fingerprint) for worker in (one, other)]
    assert digests[0] == digests[1]
    assert one.partition.statistics.counts() == {"a": 10, "b": 9}
    (delta,) = [record for record in output.then if record.topic == DELTAS]
    assert Codec(STREAM).change(Record(DELTAS, 0, 0, NOW, delta.key, delta.value)) == delta.message


def test_what_a_codec_cannot_read_is_a_dead_letter_and_costs_nothing_else() -> None:
    good = json.dumps({"id": "a", "label": "a", "features": [1.0, 2.0]}).encode()
    _, output = worked(JsonCodec(STREAM), [b"{", good, b"{}"], [])
    assert [letter.message.reason.partition(":")[0] for letter in output.first] == ["no sample in JSON"] * 2  # type: ignore[attr-defined]
    (delta,) = output.then
    assert isinstance(delta.message, Delta)
    assert delta.message.counts["applied"] == 1
    assert delta.message.counts["refused bad record"] == 2


def test_a_query_in_json_is_answered_and_one_that_is_none_is_told_why() -> None:
    scorer = ScorerProcessor(STREAM, JsonCodec(STREAM))
    scorer.see_model(MODEL)
    values = [json.dumps({"id": "q", "features": [1.0, 2.0]}).encode(), b"?"]
    output = scorer.process([Record(QUERIES, 0, offset, NOW, None, value) for offset, value in enumerate(values)])
    assert [record.message.id for record in output.then] == ["q", "unread"]  # type: ignore[attr-defined]
    assert isinstance(output.then[1].message, Unanswered)
    assert output.then[1].message.reason.startswith("no query in JSON")
    assert isinstance(Codec(STREAM).query(Record(QUERIES, 0, 0, NOW, None, values[0])), Undecodable)


def as_read(sent: Outgoing) -> Record:
    """The record as another process reads it."""
    return Record(sent.topic, sent.partition, 7, NOW, sent.key, sent.value, sent.headers)


def test_what_a_codec_writes_it_reads_and_a_record_holds_bytes_or_a_message_never_both() -> None:
    codec, here = codec_of(STREAM), Source("a/b", 3)
    one = codec.sample("row-1", 5, "b", (1.0, 2.0))
    batch = codec.sample_batch(0, _samples(ROWS, 0))
    for sent in (one, batch, batch.encoded):
        read = codec.rows(as_read(sent))
        assert isinstance(read, Samples)
        assert set(read.offsets.tolist()) == {7}
        assert (read.ids[0], len(read)) in {("row-1", 1), ("row-0", len(ROWS))}
    assert isinstance(batch.message, Samples)
    assert (one.message, batch.encoded.message, as_read(batch).message) == (None, None, None)
    order = SourceOrder(here, True, "gone", STREAM.stream_fingerprint)  # noqa: FBT003
    sent = outgoing(DELTAS, 0, source_key(here), order)
    assert (codec.change(as_read(sent)), source_of_key(sent.key)) == (order, here)
    query = codec.query(as_read(codec.query_of("q", {"f1": 2.0, "f0": 1.0})))
    assert isinstance(query, Query)
    assert (query.id, query.features.tolist()) == ("q", [1.0, 2.0])
    gone = Retirement("row-1", "asked for", 7, time=NOW)
    assert codec.retirement(as_read(codec.retirement_of(0, gone))) == gone
    for name in ("rows", "retirement", "change", "checkpoint", "query", "model", "prediction", "answer", "receipt"):
        bad = getattr(codec, name)(Record(SAMPLES, 0, 0, NOW, None, b"?"))
        assert isinstance(bad, Undecodable)
        with pytest.raises(WireError):
            readable(bad)
