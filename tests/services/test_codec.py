"""The codec seam: processors know values alone, so that another form of input is one class."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from deltaplane.errors import WireError
from deltaplane.log.delta import Delta, Source
from deltaplane.log.records import Query, Unanswered
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_services.processors.acceptance import nothing_of
from deltaplane_services.processors.codec import Codec, Undecodable
from deltaplane_services.processors.messages import DELTAS, QUERIES, RETIREMENTS, SAMPLES, Output, Record
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import MODEL
from strategies_streams import definition_of

Values = list[bytes | None]

NOW = 1_000_000
STREAM = definition_of("all", features=2)
ROWS = [(f"row-{at}", "ab"[at % 2], (float(at), -float(at))) for at in range(20)]


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
    assert Codec(STREAM).change(Record(DELTAS, 0, 0, NOW, delta.key, delta.value)) == delta.decoded


def test_what_a_codec_cannot_read_is_a_dead_letter_and_costs_nothing_else() -> None:
    good = json.dumps({"id": "a", "label": "a", "features": [1.0, 2.0]}).encode()
    _, output = worked(JsonCodec(STREAM), [b"{", good, b"{}"], [])
    assert [letter.decoded.reason.partition(":")[0] for letter in output.first] == ["no sample in JSON"] * 2  # type: ignore[attr-defined]
    (delta,) = output.then
    assert isinstance(delta.decoded, Delta)
    assert delta.decoded.counts["applied"] == 1
    assert delta.decoded.counts["refused bad record"] == 2


def test_a_query_in_json_is_answered_and_one_that_is_none_is_told_why() -> None:
    scorer = ScorerProcessor(STREAM, JsonCodec(STREAM))
    scorer.see_model(MODEL)
    values = [json.dumps({"id": "q", "features": [1.0, 2.0]}).encode(), b"?"]
    output = scorer.process([Record(QUERIES, 0, offset, NOW, None, value) for offset, value in enumerate(values)])
    assert [record.decoded.id for record in output.then] == ["q", "unread"]  # type: ignore[attr-defined]
    assert isinstance(output.then[1].decoded, Unanswered)
    assert output.then[1].decoded.reason.startswith("no query in JSON")
    assert isinstance(Codec(STREAM).query(Record(QUERIES, 0, 0, NOW, None, values[0])), Undecodable)
