"""What strangers may cost: letters, held records and lines of a log have bounds, whatever is sent."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka import KafkaError

from deltaplane import limits
from deltaplane.definition import StreamDefinition
from deltaplane.delta import Source, SourceState
from deltaplane.records import Query
from deltaplane.sample import Samples
from deltaplane.statistics import Statistics
from deltaplane.wire import read_dead_letter, write_query, write_sample, write_sample_batch
from deltaplane_services.kafka import clients, worker
from deltaplane_services.kafka.clients import _ErrorLog
from deltaplane_services.kafka.worker import Worker, _Source
from deltaplane_services.processors.records import (
    QUERIES,
    REASON_CHARACTERS,
    ROW_BYTES,
    SAMPLES,
    Record,
    dead_letter,
)
from deltaplane_services.processors.worker import WorkerProcessor
from deltaplane_services.topic_plans import SMALL_RECORD_BYTES

LONG = "x" * limits.LABEL_BYTES


def definition(classes: int = 2) -> StreamDefinition:
    names = [f"{number:04}{LONG}"[: limits.LABEL_BYTES] for number in range(classes)]
    return StreamDefinition.from_tables(
        {
            "name": "s",
            "features": {"names": [f"{number:04}{LONG}"[: limits.FEATURE_NAME_BYTES] for number in range(3)]},
            "grid": {"steps": [1.0] * 3},
            "classes": {"names": names},
            "window": {"length": 100},
        }
    )


def letters_of(stream: StreamDefinition, value: bytes, key: bytes | None = None) -> list[bytes]:
    processor = WorkerProcessor(stream, Source("here", 0), "w")
    processor.restore(SourceState(Source("here", 0), Statistics(stream.dimension)))
    output = processor.process([Record(SAMPLES, 0, 0, 0, key, value)], [])
    return [record.value or b"" for record in output.first]


@pytest.mark.parametrize("label", ["no such class", "\x1b" * limits.LABEL_BYTES, LONG * 100, "", "'\"" * 100])
@pytest.mark.parametrize("sample_id", ["i", "\x00" * limits.ID_BYTES, "i" * 10**6, "漢" * 1000])
def test_a_reason_is_short_whatever_it_repeats(label: str, sample_id: str) -> None:
    stream = definition(classes=64)
    (letter,) = letters_of(stream, write_sample(sample_id, 0, label, (1.0, 2.0, 1e300), stream.data_fingerprint))
    read = read_dead_letter(letter)
    assert len(read.reason) <= REASON_CHARACTERS + 1
    assert len(letter) < 6 * REASON_CHARACTERS + ROW_BYTES


def test_letters_of_the_rows_of_one_batch_weigh_little_more_than_their_number() -> None:
    stream, rows = definition(), 5000
    zeros = np.zeros(rows, dtype=np.int64)
    bad = Samples(
        [f"row-{row}" for row in range(rows)],
        zeros,
        ("no such class",),
        zeros.astype(np.int32),
        np.zeros((rows, 3)),
        zeros,
        zeros,
        zeros,
    )
    letters = letters_of(stream, write_sample_batch(bad, stream.data_fingerprint), key=bytes(10**6))
    assert len(letters) == rows
    assert max(map(len, letters)) < 6 * REASON_CHARACTERS + 2 * ROW_BYTES


def test_a_letter_fits_its_topic_whatever_is_refused() -> None:
    record = Record(QUERIES, 0, 0, 0, bytes(9 * 2**20), bytes(9 * 2**20))
    letter = dead_letter(record, "bad record", "漢" * 10**6, limits.DEAD_LETTER_BYTES)
    assert len(letter.value or b"") + len(letter.key or b"") < SMALL_RECORD_BYTES // 10
    query = write_query(Query("q" * 10**6, np.zeros(3), bytes(16)))
    letter = dead_letter(Record(QUERIES, 0, 0, 0, None, query), "bad record", "r", limits.DEAD_LETTER_BYTES)
    assert len(letter.value or b"") < 2 * limits.DEAD_LETTER_BYTES


def test_a_source_that_is_rebuilt_holds_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HELD_BYTES", 1000)
    assigned: list[int] = []
    one = Worker.__new__(Worker)
    monkeypatch.setattr(one, "_read_on", lambda: assigned.append(1), raising=False)
    processor = SimpleNamespace(serving=False)
    source = _Source(cast("Any", processor), next_tile=0, rebuild_to=10)
    for offset in range(15):
        one._hold_back(source, [Record(SAMPLES, 0, offset, 0, None, bytes(300))])
        assert source.held_back == (offset >= 13), "what lies before is put into the window, and not held"
    assert assigned == [1]
    processor.serving = True
    one._hold_back(source, [])
    assert not source.held_back
    assert assigned == [1, 1]


def test_an_error_that_comes_again_and_again_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, now = _ErrorLog("site"), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            now[0] += 0.01
            for what in ("SSL handshake failed", "SASL authentication error"):
                after = f" (after {number}ms in state SSL_HANDSHAKE, {number} identical error(s) suppressed)"
                log(KafkaError(KafkaError._SSL, what + after))
        assert len(caplog.records) == 2
        now[0] += clients.SILENT_SECONDS
        log(KafkaError(KafkaError._SSL, "SSL handshake failed (after 7ms in state SSL_HANDSHAKE)"))
        assert len(caplog.records) == 3, "and again after a while, since it still is so"
        for number in range(10 * clients.MOST_REMEMBERED):
            log(KafkaError(KafkaError._SSL, f"never the same {number}"))
        assert len(log._said) <= clients.MOST_REMEMBERED
