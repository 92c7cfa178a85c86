"""Damaged, foreign and hostile bytes: each is read as a value or refused by name, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, LimitExceeded, WireError
from deltaplane.log.records import DeadLetter
from deltaplane.wire import read_prediction, write_dead_letter
from deltaplane.wire.frame import HEADER_BYTES
from golden.wire_examples import DATA, EXAMPLES, STREAM, Example, header, with_fields, zigzag

Bytes = bytes | None
READERS: dict[str, Callable[[Bytes], Any]] = {
    "sample or sample_batch": EXAMPLES["sample"].read,
    "retirement": EXAMPLES["retirement"].read,
    "claim or delta or source_order or delta_labelled or delta_tallied or delta_binned or claim_anchored": EXAMPLES[
        "claim"
    ].read,
    "checkpoint or checkpoint_labelled or checkpoint_anchored": EXAMPLES["checkpoint"].read,
    "model or model_aimed or model_calibrated": EXAMPLES["model"].read,
    "query": EXAMPLES["query"].read,
    "prediction or prediction_in_full": EXAMPLES["prediction"].read,
    "receipt": EXAMPLES["receipt"].read,
    "dead_letter": EXAMPLES["dead_letter"].read,
    "partial": EXAMPLES["partial"].read,
}
"""Every reader, by the records that it takes."""


# Any other bytes -----------------------------------------------------------------------------------------------------


def read_or_refuse(example: Example, data: bytes) -> None:
    """Read bytes that may be anything: a value, or a refusal by name; whatever else is raised fails the test."""
    try:
        example.read(data)
    except (WireError, DefinitionMismatch) as refusal:
        assert str(refusal)  # noqa: PT017 - that nothing else is raised is the point.


def damaged_places(golden: bytes) -> list[int]:
    """Every place but those deep in a run of equal bytes: in the midst of a thousand zeros all are alike."""
    return [at for at in range(len(golden)) if len(set(golden[max(0, at - 8) : at + 9])) > 1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_that_was_cut_short_is_refused(name: str) -> None:
    golden = EXAMPLES[name].golden()
    for length in range(len(golden)):
        with pytest.raises(WireError):
            EXAMPLES[name].read(golden[:length])


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_with_one_wrong_byte_is_read_or_refused(name: str) -> None:
    golden = EXAMPLES[name].golden()
    for at in damaged_places(golden):
        for wrong in {golden[at] ^ 1 << bit for bit in range(8)} | {0x00, 0x7F, 0x80, 0xFF}:
            read_or_refuse(EXAMPLES[name], golden[:at] + bytes([wrong]) + golden[at + 1 :])


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_a_message_that_was_torn_apart_is_read_or_refused(name: str, data: st.DataObject) -> None:
    golden = EXAMPLES[name].golden()
    start = data.draw(st.integers(HEADER_BYTES, len(golden)))
    stop = data.draw(st.integers(start, len(golden)))
    read_or_refuse(EXAMPLES[name], golden[:start] + data.draw(st.binary(max_size=30)) + golden[stop:])


@pytest.mark.parametrize("name", EXAMPLES)
def test_bytes_after_the_record_are_refused(name: str) -> None:
    for extra in (b"\0", b"\0" * 1000, EXAMPLES[name].golden()):
        with pytest.raises(WireError, match=r"bytes were appended to the record|do not decode"):
            EXAMPLES[name].read(EXAMPLES[name].golden() + extra)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, r"got a null value \(a tombstone\); publish the record itself"),
        (b"", "got an empty value; publish the record itself"),
        (b"\xc3\x01", "got 2 bytes beginning c301"),
        (b'{"id": "1"}' * 5, r"in Avro single-object encoding, got JSON \(55 bytes\); send Avro"),
        (b"\xc3\x01" + bytes(100), "got 102 bytes beginning c3010000000000000000, the mark of a schema that this"),
    ],
)
def test_what_is_no_record_is_refused(reader: str, data: Bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        READERS[reader](data)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_record_on_the_wrong_topic_is_named(reader: str, name: str) -> None:
    example = EXAMPLES[name]
    # What is inside of a Labelled, an Anchored, a Tallied or an Aimed has a topic, too.
    inner, _, company = name.partition("_")
    inner = inner if company == example.schema and f"_{company}" in reader else example.schema
    if {example.schema, name} & set(reader.split(" or ")):
        READERS[reader](example.golden())
    elif name.removeprefix("named_") in reader.split(" or "):
        with pytest.raises(WireError, match=rf"{name}: expected (sample_batch or sample|query), since.*no \[columns\]"):
            READERS[reader](example.golden())
    else:
        with pytest.raises(WireError, match=f"got {inner}; it was published to the wrong topic"):
            READERS[reader](example.golden())


# Memory --------------------------------------------------------------------------------------------------------------

HUGE = [2**31 - 1, 2**40, 2**62, 2**63 - 1, -1, -(2**31), -(2**62), -(2**63)]
BEFORE_ARRAY = {
    "sample": DATA + zigzag(0) * 3,
    "query": DATA + zigzag(0),
    "prediction": zigzag(0) * 2,
}
BEFORE_TEXT = {
    "sample": DATA,
    "query": DATA,
    "claim": STREAM,
    "retirement": DATA,
    "prediction": b"",
    "dead_letter": b"",
}
BEFORE_BYTES = {"sample_batch": DATA + zigzag(1), "dead_letter": zigzag(0) * 7 + zigzag(1)}


def peak_bytes(example: Example, data: bytes) -> int:
    """The most memory held at once while a message is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            example.read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", HUGE)
@pytest.mark.parametrize(("name", "before"), [*BEFORE_ARRAY.items(), *BEFORE_TEXT.items(), *BEFORE_BYTES.items()])
def test_a_length_beyond_the_message_is_refused_before_anything_is_allocated(
    name: str, before: bytes, length: int
) -> None:
    data = header(name) + before + zigzag(length) + b"\1" * 64
    assert peak_bytes(EXAMPLES[name], data) < 10**6


@pytest.mark.parametrize("rows", [0, -1, limits.BATCH_ROWS + 1, 2**31 - 1, -(2**31)])
def test_a_number_of_rows_beyond_the_limit_is_refused_before_anything_is_allocated(rows: int) -> None:
    data = with_fields("sample_batch", rows=rows)
    assert peak_bytes(EXAMPLES["sample_batch"], data) < 10**6


def test_a_number_of_rows_beyond_the_columns_is_refused_before_anything_is_allocated() -> None:
    data = with_fields("sample_batch", rows=limits.BATCH_ROWS)
    assert peak_bytes(EXAMPLES["sample_batch"], data) < 10**6


def test_a_message_takes_a_bounded_multiple_of_its_length() -> None:
    # The densest record there is: scores of two empty labels and a zero count, three bytes each.
    golden = EXAMPLES["delta"].golden()
    scores = golden.index(zigzag(2) + zigzag(4) + b"DOWN" + zigzag(2) + b"UP")
    data = golden[:scores] + zigzag(30_000) + zigzag(0) * 90_000 + zigzag(0) + zigzag(0)
    assert peak_bytes(EXAMPLES["delta"], data) < 150 * len(data)


def test_a_message_that_is_too_long_is_neither_written_nor_read() -> None:
    with pytest.raises(WireError, match="expected at most 67,108,864 bytes, got 67,108,865; send smaller batches"):
        read_prediction(bytes(limits.MESSAGE_BYTES + 1))
    letter = DeadLetter("samples", 0, 0, None, "", "", None, bytes(limits.MESSAGE_BYTES), 0)
    with pytest.raises(LimitExceeded, match="expected at most 67,108,864 bytes, got 67,1"):
        write_dead_letter(letter)
