"""Batches at which clients go silent: passed over with a letter by everyone who reads, and nothing else is lost."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltaplane.log.records import Unanswered
from deltaplane.reference import Reference
from deltaplane.wire import read_answer, read_dead_letter
from deltaplane_services.client import LiveModel
from deltaplane_services.kafka import silence
from kafka import prepared
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.raw_batches import batch_of, packed, produce, record
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_foreign_logs import digest_of
from kafka.test_pipeline_answers import Scorer, answers, ask, class_of, model_of, publish, query
from kafka.test_topics import alter
from kafka.test_topics_made_anew import send

ODD = {
    "a length below zero": ("none", record(b"a", 0, key_length=-5), 1),
    "two members of gzip": ("gzip", packed(record(b"a", 0), "gzip") + packed(record(b"b", 1), "gzip"), 2),
    "bytes behind a frame of lz4": ("lz4", packed(record(b"a", 0) + record(b"b", 1), "lz4") + b"garbage!", 2),
}
"""Batches as they reach clients where the topic has no codec, so that its broker does not look into them."""

SILENT = "a length below zero"
"""The one of them at which a client of today's librdkafka goes silent. Of the others it tells, or reads a part."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The client of this process and the services that it starts believe in silence after seconds."""
    monkeypatch.setenv(prepared.HURRY, "yes")
    before = prepared.hurry()
    yield
    vars(silence).update(before)


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


def silent_batches(scorer: Scorer) -> dict[str, float]:
    """Batches that a scorer has passed over, by topic."""
    with urllib.request.urlopen(f"http://{scorer.address}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("deltaplane_silent_batches_total{")]
    return {line.split('topic="')[1].split('"')[0]: float(line.split()[-1]) for line in found}


@pytest.mark.parametrize("kind", ODD)
def test_a_query_at_which_clients_go_silent_gets_a_letter_and_those_behind_it_get_their_answers(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, kind: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        alter(kafka.bootstrap, f"{stream_name}.queries", {"compression.type": "producer"})
        publish(stream, model_of(stream, 1))
        scorer = Scorer(stream)
        ask(stream, {"before": query(stream, "before")})
        wait_until(lambda: class_of(stream, "before") == "yes", "an answer")
        codec, content, count = ODD[kind]
        error, begin = produce(kafka.bootstrap, f"{stream_name}.queries", batch_of(count, content, codec))
        assert error == 0
        ask(stream, {f"behind {at}": query(stream, f"behind {at}") for at in range(10)})
        if kind == SILENT:
            scorer.wait_until_it_says("the log goes on to")
        wait_until(lambda: all(class_of(stream, f"behind {at}") for at in range(10)), "answers behind the batch")
        scorer.wait_until_ready("the batch is passed over")
        told = read_answer(answers(stream)[f"{stream_name}.queries-0-{begin}".encode()].value())
        assert isinstance(told, Unanswered)
        assert (told.kind, told.offset) == ("bad record", begin)
        letters = [read_dead_letter(one.value()) for one in read_topic(kafka.bootstrap, f"{stream_name}.dead-letters")]
        assert [(one.topic, one.offset) for one in letters] == [("queries", begin)]
        assert silent_batches(scorer) == {"models": 0.0, "queries": float(kind == SILENT)}
        scorer.process.kill()
        scorer = Scorer(stream)
        ask(stream, {"later": query(stream, "later")})
        wait_until(lambda: class_of(stream, "later") == "yes", "what was committed lies behind the batch")


def test_deltas_and_models_behind_batches_at_which_clients_go_silent_arrive(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    service = {"checkpoint_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=service, window={"length": "all"}) as stream:
        reference = Reference(stream.definition)
        stream.start("worker")
        merger, scorer = stream.start("merger"), Scorer(stream)
        send(stream, 100).tell(reference)
        stream.wait_for_digest(digest_of(reference), "before the batches")
        with LiveModel(stream.settings) as live:
            version = live.wait(PATIENCE_SECONDS).version
            # A compacted topic, as that of models is, wants keys.
            keyed = record(b"", 0, key=b"a", value_length=-5)
            for topic, (codec, content, count) in (
                ("deltas", ODD[SILENT]),
                ("models", ("none", keyed, 1)),
            ):
                alter(kafka.bootstrap, f"{stream_name}.{topic}", {"compression.type": "producer"})
                assert produce(kafka.bootstrap, f"{stream_name}.{topic}", batch_of(count, content, codec))[0] == 0
            rows = send(stream, 100, ids_from=500)
            rows.tell(reference)
            dead = f"{stream_name}.dead-letters"
            wait_until(lambda: len(read_topic(kafka.bootstrap, dead)) == 1, "a letter for the batch of deltas")
            stream.wait_for_digest(digest_of(reference), "deltas behind the batch")
            wait_until(
                lambda: live.model is not None and live.model.version > version, "models behind the batch, in a client"
            )
            wait_until(lambda: silent_batches(scorer).get("models") == 1.0, "models behind the batch, in a scorer")
        merger.kill()
        # It meets both batches, one after the other.
        stream.start("merger").wait_for("no client reads")
        send(stream, 50, ids_from=900).tell(reference)
        stream.wait_for_digest(digest_of(reference), "with another merger")
        assert stream.run("audit").stdout.endswith("equal\n")
        letters = [read_dead_letter(one.value()) for one in read_topic(kafka.bootstrap, f"{stream_name}.dead-letters")]
        assert {one.topic for one in letters} == {"deltas"}
