"""What strangers may cost: letters, held records and lines of a log have bounds, whatever is sent."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka import KafkaError

from deltaplane import limits
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState
from deltaplane.log.records import DeadLetter, Query
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_dead_letter, write_query, write_sample, write_sample_batch
from deltaplane_services.kafka import clients
from deltaplane_services.kafka.assigned_source import AssignedSource
from deltaplane_services.kafka.clients import _ErrorLog
from deltaplane_services.kafka.topic_plans import SMALL_RECORD_BYTES
from deltaplane_services.processors.messages import QUERIES, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.refused_records import dead_letter
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.produce.refused_rows import Refusals
from strategies_streams import Row, definition_of, samples_of

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


def worker_of(stream: StreamDefinition) -> WorkerProcessor:
    processor = WorkerProcessor(stream, Source("here", 0), "w")
    processor.restore(SourceState(Source("here", 0), Statistics(stream.dimension)))
    return processor


def letters_of(stream: StreamDefinition, value: bytes, key: bytes | None = None) -> list[bytes]:
    output = worker_of(stream).process([Record(SAMPLES, 0, 0, 0, key, value)], [])
    return [record.value or b"" for record in output.first]


@pytest.mark.parametrize("label", ["no such class", "\x1b" * limits.LABEL_BYTES, LONG * 100, "", "'\"" * 100])
@pytest.mark.parametrize("sample_id", ["i", "\x00" * limits.ID_BYTES, "i" * 10**6, "漢" * 1000])
def test_a_reason_is_short_whatever_it_repeats(label: str, sample_id: str) -> None:
    stream = definition(classes=64)
    (letter,) = letters_of(stream, write_sample(sample_id, 0, label, (1.0, 2.0, 1e300), stream.data_fingerprint))
    read = read_dead_letter(letter)
    assert len(read.reason) <= limits.REASON_CHARACTERS + 1
    assert len(letter) < 6 * limits.REASON_CHARACTERS + limits.ROW_BYTES


def test_letters_of_the_rows_of_one_batch_weigh_little_more_than_their_number() -> None:
    stream, rows = definition(), 5000
    ids, codes = [f"row-{row}" for row in range(rows)], np.zeros(rows, dtype=np.int32)
    bad = Samples.of_record(ids, 0, ("no such class",), codes, np.zeros((rows, 3)))
    letters = letters_of(stream, write_sample_batch(bad, stream.data_fingerprint), key=bytes(10**6))
    assert len(letters) == limits.LETTER_ROWS + 1
    assert max(map(len, letters)) < 6 * limits.REASON_CHARACTERS + 2 * limits.ROW_BYTES
    *single, last = map(read_dead_letter, letters)
    assert [letter.row for letter in single] == list(range(limits.LETTER_ROWS))
    assert (last.row, last.kind, last.rest) == (None, "more rows", {"unknown class": 4000})
    assert last.reason == "4,000 more rows of this batch: 4,000 unknown class; the first 1,000 have a letter each"
    assert sum(letter.rows for letter in map(read_dead_letter, letters)) == rows


def test_which_rows_of_a_batch_have_a_letter_of_their_own_does_not_depend_on_how_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "LETTER_ROWS", 3)
    stream = definition()
    kinds = ["id", "", "id", "", "", "id", "", ""]
    rows = len(kinds)
    labels = np.array([0, 1, 1, 1, 0, 1, 1, 0], dtype=np.int32)
    ids = [f"{kind}{row}" if kind else "" for row, kind in enumerate(kinds)]
    samples = Samples.of_record(ids, 0, (stream.classes.names[0], "no such class"), labels, np.zeros((rows, 3)))
    value = write_sample_batch(samples, stream.data_fingerprint)
    records = [Record(SAMPLES, 0, offset, 10_000 * offset, b"k", value) for offset in range(3)]
    found = []
    for cuts in ([3], [1, 2], [1, 1, 1]):
        processor = worker_of(stream)
        begin, outputs = 0, []
        for cut in cuts:
            outputs.append(processor.process(records[begin : begin + cut], []))
            begin += cut
        found.append({letter.key: letter.value for output in outputs for letter in output.first})
        counts = sum((Counter(cast("Delta", output.then[0].message).counts) for output in outputs), Counter[str]())
        assert (counts["refused bad id"], counts["refused unknown class"]) == (15, 6)
    assert found[0] == found[1] == found[2]
    assert [key for key in found[0] if key and key.startswith(b"samples-0-1-")] == [
        b"samples-0-1-1",
        b"samples-0-1-2",
        b"samples-0-1-3",
        b"samples-0-1-more",
    ]
    assert read_dead_letter(found[0][b"samples-0-1-more"]).rest == {"bad id": 3, "unknown class": 1}


def test_rows_that_are_refused_late_do_not_overwrite_the_letter_of_those_refused_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "LETTER_ROWS", 1)
    stream = definition_of("10ms")
    processor = worker_of(stream)
    rows = [Row("now", time=100), *(Row(f"late {n}", time=1) for n in range(3)), *(Row("", time=1) for n in range(3))]
    value = write_sample_batch(samples_of([tuple(rows)]), stream.data_fingerprint)
    output = processor.process([Record(SAMPLES, 0, 7, 0, None, value)], [])
    letters = {letter.key: read_dead_letter(letter.value) for letter in output.first}
    assert {key: letter.rest for key, letter in letters.items()} == {
        b"samples-0-7-4": {},
        b"samples-0-7-more": {"bad id": 2},
        b"samples-0-7-1": {},
        b"samples-0-7-more-late": {"late": 2},
    }


def test_a_replay_counts_every_row_that_a_letter_stands_for() -> None:
    refusals = Refusals()
    letter = DeadLetter(SAMPLES, 0, 0, None, "more rows", "many", None, None, 9, {"bad id": 3, "unknown class": 2})
    refusals.add_dead_letter(letter, 0)
    refusals.add_dead_letter(replace(letter, kind="bad id", rest={}), 7)
    assert refusals.counts == {"bad id": 4, "unknown class": 2}
    assert refusals.total == 6


def test_a_letter_fits_its_topic_whatever_is_refused() -> None:
    record = Record(QUERIES, 0, 0, 0, bytes(9 * 2**20), bytes(9 * 2**20))
    letter = dead_letter(record, "bad record", "漢" * 10**6, limits.DEAD_LETTER_BYTES)
    assert len(letter.value or b"") + len(letter.key or b"") < SMALL_RECORD_BYTES // 10
    query = write_query(Query("q" * 10**6, np.zeros(3), bytes(16)))
    letter = dead_letter(Record(QUERIES, 0, 0, 0, None, query), "bad record", "r", limits.DEAD_LETTER_BYTES)
    assert len(letter.value or b"") < 2 * limits.DEAD_LETTER_BYTES


@pytest.mark.parametrize(("topic", "place"), [(SAMPLES, 0), (RETIREMENTS, 1)])
def test_a_source_that_is_rebuilt_holds_so_many_bytes_and_no_more(
    topic: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 2500)
    processor = SimpleNamespace(serving=False)
    source = AssignedSource(cast("Any", processor), next_tile=0, rebuild_to=(10, 10))
    for offset in range(15):
        came: list[list[Record]] = [[], []]
        came[place] = [Record(topic, 0, offset, 0, None, bytes(300))]
        # Each weighs 812 bytes; what lies before the place is put into the window, and not held.
        assert source.hold(*came) == (offset == 13)
        assert source.held_back == ({topic} if offset >= 13 else set())
    processor.serving = True
    assert source.hold([], [])
    assert not source.held_back
    assert not source.hold([], [])


def test_an_error_that_comes_again_and_again_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, now = _ErrorLog("site", {}), [0.0]
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
