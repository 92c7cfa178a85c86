"""The scorer: one answer to every query, under a key that the asker can form, with the asker's own headers."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter, Prediction, Query, Unanswered
from deltaplane.solve.calibration import MEMORIES, Calibration
from deltaplane.solve.score_histograms import BINS
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_answer, read_dead_letter, write_query
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.kafka.scorer_loop import headers_of
from deltaplane_services.processors.messages import PREDICTIONS, QUERIES, UNREADABLE, Headers, Outgoing, Record
from deltaplane_services.processors.scorer_processor import WITH, ScorerProcessor
from golden.wire_examples import MODEL, PLANE
from strategies_streams import definition_of

STREAM = definition_of("all", features=2)
DATA = STREAM.data_fingerprint


def query(row: tuple[float, ...], query_id: str = "q", fingerprint: bytes = DATA) -> bytes:
    return write_query(Query(query_id, np.array(row), fingerprint))


def asked(record: Record, definition: StreamDefinition = STREAM) -> tuple[Outgoing, DeadLetter | None]:
    """The answer to one query, and its dead letter."""
    scorer = ScorerProcessor(definition)
    scorer.see_model(MODEL)
    output = scorer.process([record])
    assert len(output.then) == 1
    assert [one.topic for one in output.then] == [PREDICTIONS]
    letters = [read_dead_letter(one.value) for one in output.first]
    assert len(letters) <= 1
    return output.then[0], letters[0] if letters else None


@pytest.mark.parametrize(
    ("value", "found_id", "kind", "words"),
    [
        (None, "its-key", "bad record", "a null value"),
        (b"{}", "its-key", "bad record", "expected query in Avro"),
        (query((1.0, 2.0))[:-3], "its-key", "bad record", "do not decode"),
        (query((1.0, 2.0, 3.0)), "q", "bad record", "expected 2 features, got 3"),
        (query((1.0, 2.0), fingerprint=b"\0" * 16), "q", "other definition", "give every process the same definition"),
        (query((float("nan"), 2.0)), "q", "bad value", "feature 'f0' is not a number"),
        (query((1.0, float("-inf"))), "q", "bad value", "feature 'f1' is infinite"),
        (query((1.0, 2.0**30)), "q", "bad value", "outside the grid's range"),
        (query((1.0, 2.0), "é" * 129), "é" * 64, "bad id", "an id of at most 256 bytes, got 258"),
    ],
)
def test_a_query_that_cannot_be_answered_is_told_why_beside_its_dead_letter(
    value: bytes | None, found_id: str, kind: str, words: str
) -> None:
    outgoing, letter = asked(Record(QUERIES, 3, 17, 0, b"its-key", value, headers=(("correlation-id", b"abc"),)))
    answer = read_answer(outgoing.value)
    assert isinstance(answer, Unanswered)
    assert letter is not None
    assert (answer.id, answer.kind, answer.reason) == (found_id, kind, letter.reason)
    assert words in answer.reason
    assert (answer.topic, answer.partition, answer.offset, answer.model_version) == ("queries", 3, 17, MODEL.version)
    assert answer.key == b"its-key"
    assert letter.kind == kind
    assert outgoing.key == b"stream.queries-3-17"
    assert outgoing.headers == (("correlation-id", b"abc"),)


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe", b"k" * 5000])
def test_whatever_the_key_of_a_query_that_does_not_decode_it_gets_an_answer(key: bytes | None) -> None:
    answer = read_answer(asked(Record(QUERIES, 0, 0, 0, key, b"?"))[0].value)
    assert isinstance(answer, Unanswered)
    assert len(answer.id.encode()) <= limits.ID_BYTES
    assert answer.key == (None if key is None else key[: limits.ID_BYTES])


def test_a_query_without_an_id_is_answered_under_the_key_of_its_place() -> None:
    outgoing, letter = asked(Record(QUERIES, 1, 5, 0, None, query((1.0, 2.0), "")))
    answer = read_answer(outgoing.value)
    assert isinstance(answer, Prediction)
    assert letter is None
    assert (answer.id, outgoing.key) == ("", b"stream.queries-1-5")


def test_answers_of_two_streams_never_have_one_key() -> None:
    other = replace(STREAM, name="other")
    value = write_query(Query("q", np.array([1.0, 2.0]), other.data_fingerprint))
    record = Record(QUERIES, 0, 0, 0, None, value)
    assert asked(record)[0].key != asked(record, other)[0].key


def test_a_missing_value_is_filled_in_where_the_definition_says_so() -> None:
    filled = replace(STREAM, missing="offset")
    value = write_query(Query("q", np.array([np.nan, 2.0]), filled.data_fingerprint))
    answer = read_answer(asked(Record(QUERIES, 0, 0, 0, None, value), filled)[0].value)
    zero = write_query(Query("q", np.array([0.0, 2.0]), filled.data_fingerprint))
    assert isinstance(answer, Prediction)
    assert answer == read_answer(asked(Record(QUERIES, 0, 0, 0, None, zero), filled)[0].value)


def test_headers_come_back_as_they_were_and_those_that_are_too_many_are_counted() -> None:
    headers = tuple((f"h{at}", bytes([at])) for at in range(limits.HEADERS + 3))
    back = asked(Record(QUERIES, 0, 0, 0, None, query((1.0, 2.0)), headers=headers))[0].headers
    assert back == (*headers[: limits.HEADERS], ("deltaplane-headers-left-out", b"3"))


def test_a_header_that_is_too_large_is_left_out_and_counted_and_the_others_come_back() -> None:
    large, empty = ("large", bytes(limits.HEADERS_BYTES)), ("empty", None)
    headers = (large, empty, ("same", b"1"), ("same", b"2"))
    back = asked(Record(QUERIES, 0, 0, 0, None, query((1.0, 2.0)), headers=headers))[0].headers
    assert back == (empty, ("same", b"1"), ("same", b"2"), ("deltaplane-headers-left-out", b"1"))


@pytest.mark.parametrize("keep_messages", [True, False])
def test_the_embedded_broker_carries_headers(keep_messages: bool) -> None:  # noqa: FBT001
    broker = EmbeddedBroker(1, keep_messages=keep_messages)
    broker.append(Outgoing(QUERIES, 0, None, b"", headers=(("name", b"value"),)), 0)
    assert broker.fetch(QUERIES, 0, 0)[0].headers == (("name", b"value"),)


@pytest.mark.parametrize(
    "fault", [SystemError("a result with an exception set"), UnicodeDecodeError("utf-8", b"", 0, 1, "")]
)
def test_headers_whose_names_are_no_text_cost_a_query_its_headers_and_not_its_answer(fault: Exception) -> None:
    class Odd:
        def headers(self) -> list[tuple[str, bytes]]:
            raise fault

    assert headers_of(cast("Message", Odd())) == ((UNREADABLE, None),)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(1, 9)), max_size=20))
def test_however_often_a_scorer_dies_before_it_commits_every_query_has_one_answer(
    turns: list[tuple[int, bool, int]],
) -> None:
    values = [query((float(at), 2.0**30 if at % 3 else 2.0), f"q{at}") for at in range(12)]
    records = [Record(QUERIES, 0, at, 0, None, value) for at, value in enumerate(values)]
    committed, table = 0, dict[bytes | None, bytes | None]()
    for count, dies, version in [*turns, *[(4, False, 10)] * 3]:
        scorer = ScorerProcessor(STREAM)
        scorer.see_model(replace(MODEL, version=version))
        output = scorer.process(records[committed : committed + count])
        table |= {one.key: one.value for one in output.then}
        if not dies:
            committed = min(committed + count, len(records))
    assert list(table) == [f"stream.queries-0-{at}".encode() for at in range(12)]
    told = [read_answer(value) for value in table.values()]
    assert [isinstance(one, Unanswered) for one in told] == [at % 3 > 0 for at in range(12)]


ASKS = (("correlation-id", b"abc"), (WITH, b"probabilities, reasons"))
CALIBRATED = replace(
    MODEL,
    plane=replace(PLANE, units=np.array([[0.0, 1.0]]), means=np.array([0.5, -1.0])),
    calibration=Calibration({"UP": np.ones((len(MEMORIES), 2, BINS))}),
)


def answered(model: Model, headers: Headers) -> Prediction | Unanswered:
    scorer = ScorerProcessor(STREAM)
    scorer.see_model(model)
    output = scorer.process([Record(QUERIES, 0, 0, 0, None, query((1.0, 2.0)), headers=headers)])
    assert output.then[0].headers == headers
    return read_answer(output.then[0].value)


def test_a_query_that_asks_for_them_gets_probabilities_and_reasons() -> None:
    plain = answered(CALIBRATED, ASKS[:1])
    full = answered(CALIBRATED, ASKS)
    assert isinstance(plain, Prediction)
    assert isinstance(full, Prediction)
    assert replace(full, probabilities={}, reasons=()) == plain
    assert full.probabilities == pytest.approx({"DOWN": 0.5, "UP": 0.5})
    assert [column for column, _ in full.reasons] == ["f0", "f1"]
    sign = 1.0 if full.predicted == "UP" else -1.0
    assert dict(full.reasons) == pytest.approx({"f0": sign * 0.1 * 0.5, "f1": sign * -2.5e-7 * 3.0})
    only = answered(CALIBRATED, ((WITH, b"reasons"),))
    assert only == replace(full, probabilities={})


def test_a_model_that_has_neither_answers_as_ever() -> None:
    assert answered(MODEL, ASKS) == answered(MODEL, ())


def test_a_query_that_asks_for_something_else_is_told_what_there_is() -> None:
    told = answered(CALIBRATED, ((WITH, b"probability"),))
    assert isinstance(told, Unanswered)
    assert told.kind == "bad header"
    assert "expected probabilities, reasons, or both with a comma, got 'probability'" in told.reason
