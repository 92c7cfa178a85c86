"""The wire: every record comes back as it was, and what cannot be is neither written nor read."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given

import deltaplane_schemas
import strategies
from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, Tile
from deltaplane.log.model import Model
from deltaplane.log.records import Checkpoint, DeadLetter, Prediction, Query, Receipt, Unanswered
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    read_answer,
    read_checkpoint,
    read_claim_or_delta,
    read_dead_letter,
    read_model,
    read_prediction,
    read_query,
    read_receipt,
    read_retirement,
    read_samples,
    read_unanswered,
    write_checkpoint,
    write_claim,
    write_dead_letter,
    write_delta,
    write_model,
    write_prediction,
    write_query,
    write_receipt,
    write_retirement,
    write_sample,
    write_sample_batch,
    write_unanswered,
)
from deltaplane.wire.frame import HEADER_BYTES, read_record, write_record
from golden.wire_examples import (
    BATCH,
    CHECKPOINT,
    CLAIM,
    DATA,
    DELTA,
    DIMENSION,
    EXAMPLES,
    FEATURES,
    LOG_TIME,
    MODEL,
    OFFSET,
    PLANE,
    RECEIPT,
    STREAM,
    header,
    same,
    with_fields,
    zigzag,
)

# Round trips ---------------------------------------------------------------------------------------------------------


@given(strategies.sample_batches(FEATURES, OFFSET, LOG_TIME))
def test_a_batch_comes_back_as_it_was(samples: Samples) -> None:
    assert same(read_samples(write_sample_batch(samples, DATA), FEATURES, DATA, OFFSET, LOG_TIME), samples)


@given(strategies.sample_batches(FEATURES, OFFSET, LOG_TIME))
def test_a_batch_of_float32_comes_back_rounded_once(samples: Samples) -> None:
    with np.errstate(over="ignore"):
        rounded = samples.features.astype(np.float32).astype(np.float64)
    if (np.isinf(rounded) & np.isfinite(samples.features)).any():
        with pytest.raises(WireError, match="beyond float32; write the batch as float64"):
            write_sample_batch(samples, DATA, "float32")
    else:
        message = write_sample_batch(samples, DATA, "float32")
        expected = dataclasses.replace(samples, features=rounded)
        assert same(read_samples(message, FEATURES, DATA, OFFSET, LOG_TIME), expected)


@given(strategies.sample_batches(FEATURES, OFFSET, LOG_TIME))
def test_a_batch_is_what_any_avro_library_makes_of_it(samples: Samples) -> None:
    message = write_sample_batch(samples, DATA)
    name, fields = read_record(message, ("sample_batch",))
    assert write_record(name, fields) == message


@given(strategies.sample_batches(FEATURES, OFFSET, LOG_TIME))
def test_a_sample_alone_is_read_like_a_batch_of_one(samples: Samples) -> None:
    label = samples.label_table[samples.label_codes[0]]
    one = Samples(
        ids=samples.ids[:1],
        event_times=samples.event_times[:1],
        label_table=(label,),
        label_codes=np.zeros(1, dtype=np.int32),
        features=samples.features[:1],
        offsets=samples.offsets[:1],
        rows=samples.rows[:1],
        log_times=samples.log_times[:1],
    )
    message = write_sample(one.ids[0], int(one.event_times[0]), label, one.features[0].tolist(), DATA)
    read = read_samples(message, FEATURES, DATA, OFFSET, LOG_TIME)
    assert same(read, one)
    assert same(read, read_samples(write_sample_batch(one, DATA), FEATURES, DATA, OFFSET, LOG_TIME))


@given(strategies.retirements(OFFSET))
def test_a_retirement_comes_back_as_it_was(retirement: Retirement) -> None:
    assert same(read_retirement(write_retirement(retirement, DATA), FEATURES, DATA, OFFSET), retirement)


@given(strategies.queries(FEATURES))
def test_a_query_comes_back_as_it_was(query: Query) -> None:
    assert same(read_query(write_query(query), FEATURES, query.data_fingerprint), query)


@given(strategies.claims())
def test_a_claim_comes_back_as_it_was(claim: Claim) -> None:
    assert read_claim_or_delta(write_claim(claim), DIMENSION) == claim


@given(strategies.deltas(DIMENSION))
def test_a_delta_comes_back_as_it_was(delta: Delta) -> None:
    assert read_claim_or_delta(write_delta(delta), DIMENSION) == delta


@given(strategies.checkpoints(DIMENSION))
def test_a_checkpoint_comes_back_as_it_was(checkpoint: Checkpoint) -> None:
    assert read_checkpoint(write_checkpoint(checkpoint), DIMENSION) == checkpoint


@given(strategies.models(FEATURES))
def test_a_model_comes_back_as_it_was(model: Model) -> None:
    assert same(read_model(write_model(model)), model)


@given(strategies.predictions())
def test_a_prediction_comes_back_as_it_was(prediction: Prediction) -> None:
    assert read_prediction(write_prediction(prediction)) == prediction
    assert read_answer(write_prediction(prediction)) == prediction


@given(strategies.unanswered())
def test_what_a_query_gets_that_has_no_answer_comes_back_as_it_was(unanswered: Unanswered) -> None:
    message = write_unanswered(unanswered)
    assert read_unanswered(message) == unanswered
    assert read_answer(message) == unanswered
    with pytest.raises(WireError, match="expected prediction or full_prediction, got unanswered"):
        read_prediction(message)


@given(strategies.unanswered())
def test_who_knows_predictions_alone_reads_an_answer_without_a_class(unanswered: Unanswered) -> None:
    body = io.BytesIO(write_unanswered(unanswered)[HEADER_BYTES:])
    fields: Any = fastavro.schemaless_reader(body, deltaplane_schemas.load("prediction"), None)
    assert (fields["id"], fields["class"], fields["decisions"]) == (unanswered.id, "", {})
    assert (fields["partition"], fields["offset"]) == (unanswered.partition, unanswered.offset)


@given(strategies.receipts())
def test_a_receipt_comes_back_as_it_was(receipt: Receipt) -> None:
    assert read_receipt(write_receipt(receipt)) == receipt


@given(strategies.dead_letters())
def test_a_dead_letter_comes_back_as_it_was(letter: DeadLetter) -> None:
    assert read_dead_letter(write_dead_letter(letter)) == letter


def test_a_sample_is_what_the_avro_specification_makes_of_it() -> None:
    by_hand = (
        *(header("sample"), DATA, zigzag(2), b"id", zigzag(-3), zigzag(3), "Ä.".encode()),
        *(zigzag(2), np.array([0.5, -2.0], dtype="<f8").tobytes(), zigzag(0)),
    )
    assert write_sample("id", -3, "Ä.", [0.5, -2.0], DATA) == b"".join(by_hand)


def test_a_signalling_not_a_number_is_read_as_any_other() -> None:
    signalling = np.array([0x7F80_0001] * 6, dtype="<u4").tobytes()
    samples = EXAMPLES["sample_batch"].read(with_fields("sample_batch", feature_type="float32", features=signalling))
    assert np.isnan(samples.features).all()


def test_a_batch_that_was_read_shares_no_memory_with_what_was_written() -> None:
    features = BATCH.features.copy()
    message = write_sample_batch(dataclasses.replace(BATCH, features=features), DATA)
    features[:] = 7.0
    assert same(read_samples(message, FEATURES, DATA, OFFSET, LOG_TIME), BATCH)


# Definitions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_samples(EXAMPLES["sample"].golden(), FEATURES, STREAM, 0, 0),
        lambda: read_samples(EXAMPLES["sample_batch"].golden(), FEATURES, STREAM, 0, 0),
        lambda: read_retirement(EXAMPLES["retirement"].golden(), FEATURES, STREAM, 0),
        lambda: read_query(EXAMPLES["query"].golden(), FEATURES, STREAM),
    ],
)
def test_a_record_of_another_definition_is_refused_by_both_fingerprints(read: Callable[[], Any]) -> None:
    with pytest.raises(DefinitionMismatch, match=f"expected data fingerprint {STREAM.hex()}, got {DATA.hex()}"):
        read()


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_samples(EXAMPLES["sample"].golden(), 3, DATA, 0, 0),
        lambda: read_samples(EXAMPLES["sample_batch"].golden(), 3, DATA, 0, 0),
        lambda: read_retirement(EXAMPLES["retirement_by_content"].golden(), 3, DATA, 0),
        lambda: read_query(EXAMPLES["query"].golden(), 3, DATA),
        lambda: read_claim_or_delta(EXAMPLES["delta"].golden(), 4),
        lambda: read_checkpoint(EXAMPLES["checkpoint"].golden(), 4),
    ],
)
def test_a_record_of_other_features_is_refused(read: Callable[[], Any]) -> None:
    with pytest.raises(WireError, match=r"expected 3 features, got 2|expected 72 bytes of features|dimension 4, got 3"):
        read()


# What a writer refuses -----------------------------------------------------------------------------------------------


def changed(**changes: Any) -> Samples:
    return dataclasses.replace(BATCH, **changes)


def rows_of(count: int) -> Samples:
    return Samples(
        ids=[""] * count,
        event_times=np.zeros(count, dtype=np.int64),
        label_table=("",),
        label_codes=np.zeros(count, dtype=np.int32),
        features=np.zeros((count, 1)),
        offsets=np.zeros(count, dtype=np.int64),
        rows=np.arange(count, dtype=np.int64),
        log_times=np.zeros(count, dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: write_sample("\ud800", 0, "a", [0.0], DATA), "sample: expected values that its schema can hold"),
        (lambda: write_sample("x", 0, "\udfff", [0.0], DATA), "sample: expected values"),
        (lambda: write_sample("x", 2**63, "a", [0.0], DATA), "sample: expected values"),
        (lambda: write_sample("x", -(2**63) - 1, "a", [0.0], DATA), "sample: expected values"),
        (lambda: write_sample("x", 0, "a", [0.0], DATA[:15]), "sample: expected values"),
        (lambda: write_sample_batch(changed(ids=["a", "\ud800", "c"]), DATA), "an id is not a Unicode text"),
        (
            lambda: write_sample_batch(changed(ids=["a", "b", "é" * 32_768]), DATA),
            "at most 256 bytes, got 65536 in row 2",
        ),
        (lambda: write_sample_batch(changed(label_table=("a", "\ud800")), DATA), "a label is not a Unicode text"),
        (lambda: write_sample_batch(changed(), DATA[:15]), "expected a fingerprint of 16 bytes, got 15"),
        (
            lambda: write_sample_batch(changed(label_codes=np.array([0, 2, 1], dtype=np.int32)), DATA),
            "expected label codes from 0 to 1, got 0 to 2",
        ),
        (
            lambda: write_sample_batch(changed(label_codes=np.array([0, -1, 1], dtype=np.int32)), DATA),
            "expected label codes from 0 to 1, got -1 to 1",
        ),
        (
            lambda: write_sample_batch(
                changed(label_table=tuple(map(str, range(2**16 + 1))), label_codes=np.full(3, 2**16, np.int32)), DATA
            ),
            "expected at most 65536 labels, got 65537; split the batch",
        ),
        (
            lambda: write_sample_batch(changed(features=np.array([[0, 0], [0, -1e39], [0, 0]])), DATA, "float32"),
            "feature 1 of row 1 is .*-1e[+]39.*, beyond float32; write the batch as float64",
        ),
        (lambda: write_sample_batch(rows_of(0), DATA), "expected 1 to 100000 rows, got 0"),
        (lambda: write_sample_batch(rows_of(limits.BATCH_ROWS + 1), DATA), "expected 1 to 100000 rows, got 100001"),
        (lambda: write_retirement(Retirement("", "", 0), DATA), "expected an id of 1 to 256 bytes, got 0"),
        (lambda: write_retirement(Retirement("é" * 129, "", 0), DATA), "expected an id of 1 to 256 bytes, got 258"),
        (lambda: write_retirement(Retirement("\ud800", "", 0), DATA), "retirement: expected values"),
        (lambda: write_retirement(Retirement("x", "", 0, time=2**63), DATA), "retirement: expected values"),
        (lambda: write_receipt(dataclasses.replace(RECEIPT, outcome="\ud800")), "receipt: expected values"),
        (lambda: write_claim(Claim(Source("\ud800", 0), "w", STREAM)), "claim: expected values"),
        (lambda: write_delta(dataclasses.replace(DELTA, counts={"late": 2**63})), "delta: expected values"),
    ],
)
def test_what_no_reader_could_take_is_not_written(write: Callable[[], bytes], words: str) -> None:
    with pytest.raises(WireError, match=words):
        write()


def test_as_many_labels_as_there_are_codes_for_fit_one_batch() -> None:
    table = tuple(map(str, range(2**16)))
    samples = changed(label_table=table, label_codes=np.array([2**16 - 1, 0, 2**15], dtype=np.int32))
    # Of so many labels only those come back that rows have: batches wait beside each other until a poll is decoded.
    met = changed(label_table=("0", "32768", "65535"), label_codes=np.array([2, 0, 1], dtype=np.int32))
    assert same(read_samples(write_sample_batch(samples, DATA), FEATURES, DATA, OFFSET, LOG_TIME), met)


def test_an_id_too_long_to_be_admitted_can_still_be_sent_and_is_refused_alone() -> None:
    samples = changed(ids=["a", "x" * 65_535, "c"])
    assert same(read_samples(write_sample_batch(samples, DATA), FEATURES, DATA, OFFSET, LOG_TIME), samples)


# What a reader refuses -----------------------------------------------------------------------------------------------

MOMENTS = {"window": 0, "class": "a", "entries": bytes(6 * 8)}
SCORE = {"truth": "a", "predicted": "b", "count": 1}
PLANE_FIELDS: dict[str, Any] = {
    "classes": ["DOWN", "UP"],
    "positive": "UP",
    "weights": PLANE.weights.tobytes(),
    "biases": PLANE.biases.tobytes(),
    "sigmas": PLANE.sigmas,
    "C": 1.0,
    "condition": 1.0,
    "counts": {},
}


@pytest.mark.parametrize(
    ("example", "changes", "words"),
    [
        ("sample_batch", {"labels": []}, "label code 1 points beyond the 0 labels sent"),
        ("sample_batch", {"label_codes": b"\0\0\1\0\2\0"}, "label code 2 points beyond the 2 labels sent"),
        ("sample_batch", {"label_codes": b"\0\0\1\0"}, "expected 6 bytes of label_codes .3 x <u2., got 4"),
        ("sample_batch", {"event_times": bytes(23)}, "expected 24 bytes of event_times"),
        ("sample_batch", {"features": bytes(47)}, "expected 48 bytes of features"),
        ("sample_batch", {"feature_type": "float32"}, "expected 24 bytes of features .6 x <f4., got 48"),
        ("sample_batch", {"id_lengths": bytes(6)}, "the id lengths add up to 0 bytes, got 48 bytes of ids"),
        ("sample_batch", {"id_lengths": b"\xff" * 6}, "the id lengths add up to 196605 bytes"),
        ("sample_batch", {"id_lengths": b"\3\0\5\0\x28\0"}, "an id is not UTF-8"),
        ("sample_batch", {"ids": b"a" + b"\xff" * 47}, "an id is not UTF-8"),
        ("retirement", {"id": ""}, "expected an id of 1 to 256 bytes, got 0"),
        ("retirement", {"id": "x" * 257}, "expected an id of 1 to 256 bytes, got 257"),
        ("claim", {"partition": -1}, "claim: expected a partition from 0 to 1023, got -1"),
        ("delta", {"partition": 1024}, "delta: expected a partition from 0 to 1023, got 1024"),
        ("delta", {"sequence": -1}, "expected sequence to be at least 0, got -1"),
        ("delta", {"samples_from": -1}, "expected samples_from to be at least 0, got -1"),
        ("delta", {"samples_to": 129}, "expected samples_to to be at least 130, got 129"),
        ("delta", {"retirements_to": 7}, "expected retirements_to to be at least 8, got 7"),
        ("delta", {"window_from": 99}, "expected window_from to be at least 100, got 99"),
        ("delta", {"slots_to": -1}, "expected slots_to to be at least 0"),
        ("delta", {"change": [{**MOMENTS, "window": -1}]}, "delta: expected a window from 0 to 15, got -1"),
        ("delta", {"change": [{**MOMENTS, "window": 16}]}, "delta: expected a window from 0 to 15, got 16"),
        ("delta", {"change": [MOMENTS, MOMENTS]}, "class 'a' of window 0 is there twice"),
        ("delta", {"change": [{**MOMENTS, "entries": bytes(47)}]}, "expected 96 or 48 bytes for dimension 3, got 47"),
        ("delta", {"scores": [{**SCORE, "count": -1}]}, "expected a score of at least 0, got -1 of 'b' for 'a'"),
        ("delta", {"scores": [SCORE, SCORE]}, "the score of 'b' for 'a' is there twice"),
        ("checkpoint", {"next_offset": -1}, "expected next_offset to be at least 0"),
        ("checkpoint", {"samples_position": -1}, "expected samples_position to be at least 0"),
        ("receipt", {"partition": -1}, "receipt: expected a partition"),
        ("model", {"plane_version": 19}, "expected version to be at least 19, got 18"),
        ("model", {"kind": "svm"}, "expected solver options of this version"),
        ("model", {"C": math.nan}, "expected solver options of this version"),
        ("model", {"weighting": "{"}, "expected solver options of this version"),
        ("model", {"weighting": '{"a": "b"}'}, "expected solver options of this version"),
        ("model", {"weighting": '{"a": ' + "[" * 100_000}, "expected solver options of this version"),
        ("model", {"plane": PLANE_FIELDS | {"classes": ["UP"]}}, "expected two or more different classes"),
        ("model", {"plane": PLANE_FIELDS | {"classes": ["UP", "DOWN"]}}, "in sorted order"),
        ("model", {"plane": PLANE_FIELDS | {"classes": ["UP", "UP"]}}, "different classes"),
        ("model", {"plane": PLANE_FIELDS | {"positive": "LEFT"}}, "expected two classes, 'LEFT' and another"),
        ("model", {"plane": PLANE_FIELDS | {"positive": None}}, "expected 2 planes as float64, got 8 bytes"),
        ("model", {"plane": PLANE_FIELDS | {"biases": b""}}, "expected 1 planes as float64, got 0 bytes"),
        ("model", {"plane": PLANE_FIELDS | {"weights": bytes(15)}}, "and 15 of weights"),
        ("model", {"plane": PLANE_FIELDS | {"biases": b"\xff" * 8}}, "expected finite weights and biases"),
    ],
)
def test_a_record_that_decodes_but_cannot_be_is_refused(example: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(WireError, match=words):
        EXAMPLES[example].read(with_fields(example, **changes))


def test_statistics_are_narrow_where_they_fit_and_wide_where_they_do_not() -> None:
    _, fields = read_record(EXAMPLES["checkpoint"].golden(), ("checkpoint",))
    sizes = {(part["window"], part["class"]): len(part["entries"]) for part in fields["statistics"]}
    assert sizes == {(0, "DOWN"): 6 * 8, (0, "UP"): 6 * 16, (1, "DOWN"): 6 * 8}


def test_a_state_that_has_seen_nothing_can_be_told() -> None:
    empty = dataclasses.replace(DELTA, tile=Tile(0, 0, 0, 0, 0), rebuild=Rebuild(), change=DELTA.change - DELTA.change)
    assert read_claim_or_delta(write_delta(empty), DIMENSION) == empty


def test_examples_are_what_the_tests_take_them_for() -> None:
    assert same(EXAMPLES["claim"].value, CLAIM)
    assert same(EXAMPLES["checkpoint"].value, CHECKPOINT)
    assert not same(MODEL, dataclasses.replace(MODEL, plane=dataclasses.replace(PLANE, biases=np.array([0.0]))))
    assert not same(BATCH, changed(features=BATCH.features + 0.0))


@pytest.mark.parametrize(
    "ids", [["a1", "b2"], ["a\0", "b\0"], ["é", "b1"], ["a", "bb"], ["", ""], ["x" * 256], ["\0", "a"]]
)
def test_ids_of_a_batch_come_back_whatever_their_lengths_and_characters(ids: list[str]) -> None:
    count = len(ids)
    numbers = np.arange(count, dtype=np.int64)
    samples = Samples(
        ids, numbers, ("x",), np.zeros(count, dtype=np.int32), np.ones((count, 1)), numbers, numbers, numbers
    )
    read = read_samples(write_sample_batch(samples, DATA), 1, DATA, 0, 0)
    assert list(read.ids) == ids
    assert all(type(sample_id) is str for sample_id in read.ids)
