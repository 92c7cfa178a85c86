"""Rows by name through worker and scorer: the digest of the same rows as features, and a letter for each bad row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from column_rows import ENCODER, GOOD
from deltaplane import limits
from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics
from deltaplane.log.answers import answer
from deltaplane.log.delta import Delta, Source, SourceState
from deltaplane.log.records import DeadLetter, NamedQuery, Prediction, Query, Unanswered
from deltaplane.reference import Reference
from deltaplane.solve.solver import Plane, solve
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane.stream.sample import Samples
from deltaplane.wire import (
    read_answer,
    read_dead_letter,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
    write_query,
    write_sample,
    write_sample_batch,
)
from deltaplane_services.operations.refitting import RowsSeen
from deltaplane_services.processors.codec import Codec
from deltaplane_services.processors.messages import DEAD_LETTERS, DELTAS, QUERIES, SAMPLES, Output, Record
from deltaplane_services.processors.portions import in_portions
from deltaplane_services.processors.regroup import Regroup
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import MODEL

WIDTH = len(ENCODER.features)
DEFINITION = StreamDefinition(
    "stream",
    ENCODER.features,
    Grid(np.full(WIDTH, 2.0**-10), np.zeros(WIDTH)),
    NestedWindows((Window("all"),)),
    SolverOptions(),
    columns=ENCODER,
)
DATA = DEFINITION.data_fingerprint
LABELS = ("no", "yes")
ROWS = [
    {**GOOD, "amount": at, "country": ("DE", "FR", "PL", None)[at % 4], "online": at % 3 == 0, "balance": None}
    for at in range(40)
]
IDS = [f"id-{at}" for at in range(len(ROWS))]


def frame(rows: Sequence[int], features: Any = None) -> Samples:
    """Ids, times and labels of some of the rows."""
    codes = np.array([at % 2 for at in rows], dtype=np.int32)
    empty = np.empty((len(rows), 0)) if features is None else features
    return Samples.of_record([IDS[at] for at in rows], 7, LABELS, codes, empty)


def singles(rows: Sequence[int]) -> list[bytes]:
    return [write_named_sample(IDS[at], 7, LABELS[at % 2], ROWS[at], ENCODER, DATA) for at in rows]


def batch(rows: Sequence[int]) -> list[bytes]:
    table = {name: [ROWS[at].get(name) for at in rows] for name in ENCODER.columns}
    return [write_named_sample_batch(frame(rows), table, ENCODER, DATA)]


def features_of(rows: Sequence[int]) -> Any:
    return ENCODER.encode_records([ROWS[at] for at in rows]).features


def dense(rows: Sequence[int]) -> list[bytes]:
    return [
        write_sample(IDS[at], 7, LABELS[at % 2], row.tolist(), DATA)
        for at, row in zip(rows, features_of(rows), strict=True)
    ]


def dense_batch(rows: Sequence[int]) -> list[bytes]:
    return [write_sample_batch(frame(rows, features_of(rows)), DATA)]


def records(values: Sequence[bytes | None], topic: str = SAMPLES) -> list[Record]:
    return [Record(topic, 0, at, 10, None, value) for at, value in enumerate(values)]


def worker() -> WorkerProcessor:
    source = Source("local", 0)
    one = WorkerProcessor(DEFINITION, source, "w")
    one.claim()
    one.restore(SourceState(source, Statistics(DEFINITION.dimension)))
    return one


def letters(output: Output) -> list[DeadLetter]:
    return [read_dead_letter(one.value) for one in output.first if one.topic == DEAD_LETTERS]


def counted(output: Output) -> dict[str, int]:
    deltas = [one.message for one in output.then if one.topic == DELTAS]
    assert all(isinstance(one, Delta) for one in deltas)
    return dict(deltas[-1].counts) if isinstance(deltas[-1], Delta) else {}


def digest_of(values: Sequence[bytes | None]) -> str:
    one = worker()
    assert not letters(one.process(records(values), []))
    return one.partition.statistics.digest(DATA)


Form = Callable[[Sequence[int]], list[bytes]]


def reference() -> Reference:
    of_all = Reference(DEFINITION)
    of_all.add(0, replace(frame(range(40), features_of(range(40))), log_times=np.full(40, 10, dtype=np.int64)))
    return of_all


@pytest.mark.parametrize(
    "forms",
    [
        (singles,),
        (batch,),
        (dense, singles),
        (singles, dense, batch, dense_batch),
        (dense_batch, dense, singles, batch, singles),
    ],
)
def test_every_form_of_the_same_rows_has_the_digest_of_the_batch(forms: tuple[Form, ...]) -> None:
    values = [value for at in range(0, 40, 4) for value in forms[at // 4 % len(forms)](range(at, at + 4))]
    assert digest_of(values) == reference().statistics().digest(DATA)


def test_a_bad_row_has_a_letter_that_names_row_column_value_and_cure_and_costs_no_other_row() -> None:
    bad = {**ROWS[3], "amount": "a lot"}
    table = {name: [row.get(name) for row in (ROWS[0], bad, ROWS[2])] for name in ENCODER.columns}
    rows = [
        write_named_sample_batch(frame([0, 3, 2]), table, ENCODER, DATA),
        write_named_sample("late", 7, "yes", {**ROWS[4], "begun": "2026-02-30"}, ENCODER, DATA),
        *singles([4]),
        write_named_sample("long", 7, "yes", {**ROWS[4], "country": "x" * 300}, ENCODER, DATA),
        write_named_sample("gone", 7, "yes", {"amount": 3}, ENCODER, DATA),
        b"\xc3\x01",
        *batch([5, 6]),
    ]
    one = worker()
    output = one.process(records(rows), [])
    told = letters(output)
    assert [(letter.offset, letter.row, letter.kind) for letter in told] == [
        (0, 1, "bad value"),
        (1, 0, "bad value"),
        (3, 0, "bad value"),
        (4, 0, "bad value"),
        (5, None, "bad record"),
    ]
    assert [letter.reason.split("; ")[0] for letter in told[:4]] == [
        "sample 'id-3': column 'amount' is no number: 'a lot'",
        "sample 'late': column 'begun' names a day that does not exist: '2026-02-30'",
        f"sample 'long': column 'country' is a text of 300 bytes, and may have 200: '{'x' * 39}…",
        "sample 'gone': column 'kind' is missing",
    ]
    assert all("; " in letter.reason for letter in told[:4])
    counts = counted(output)
    assert (counts["refused bad value"], counts["refused bad record"], counts["applied"]) == (4, 1, 5)
    plain = worker()
    plain.process(records([*singles([0, 2, 4]), *batch([5, 6])]), [])
    assert one.partition.statistics.digest(DATA) == plain.partition.statistics.digest(DATA)


def test_what_a_poll_brings_is_taken_in_portions_each_with_a_delta_and_the_end_is_the_same() -> None:
    values = [value for at in range(0, 40, 4) for value in batch(range(at, at + 4))]
    with mock.patch.object(limits, "NAMED_FEATURES", 2 * 4 * WIDTH):
        portions = [len(samples) for samples, _ in in_portions(records(values), [], Codec(DEFINITION))]
        one = worker()
        output = one.process(records(values), [])
        again = worker()
        steps = list(again.steps(records(values), []))
    assert portions == [2] * 5
    assert [one.message.tile.samples_to for one in output.then if isinstance(one.message, Delta)] == [2, 4, 6, 8, 10]
    assert [len(step.then) for step in steps] == [1] * 5
    digest = reference().statistics().digest(DATA)
    assert one.partition.statistics.digest(DATA) == again.partition.statistics.digest(DATA) == digest
    # Rows whose decoding costs what they weigh are one portion, whatever there is of them.
    plain = replace(DEFINITION, columns=None)
    assert [len(samples) for samples, _ in in_portions(records(values), [], Codec(plain))] == [10]
    assert [len(samples) for samples, _ in in_portions(records(singles(range(40))), [], Codec(DEFINITION))] == [40]


def test_a_rebuild_takes_portions_too() -> None:
    values = [value for at in range(0, 40, 4) for value in batch(range(at, at + 4))]
    first = worker()
    for record in records(values[:8]):
        first.process([record], [])
    deltas = first.partition
    state = SourceState(Source("local", 0), deltas.statistics, sequence=8, samples_position=8)
    rebuild = replace(state.rebuild, slots_to=deltas.slots, watermark=deltas.watermark)
    with mock.patch.object(limits, "NAMED_FEATURES", 4 * WIDTH):
        second = WorkerProcessor(DEFINITION, Source("local", 0), "w2")
        second.claim()
        second.restore(replace(state, rebuild=rebuild))
        output = second.process(records(values), [])
    assert len(output.then) == 2
    assert second.partition.statistics.digest(DATA) == reference().statistics().digest(DATA)


# Queries -------------------------------------------------------------------------------------------------------------


def plane() -> Plane:
    return solve(reference().statistics().grams(), DEFINITION.grid, DEFINITION.solver, None)


def test_a_query_by_name_is_answered_as_the_same_row_of_features_and_as_a_live_model_answers() -> None:
    scorer = ScorerProcessor(DEFINITION)
    scorer.see_model(replace(MODEL, plane=plane(), blend=None))
    features = features_of(range(40))
    asked: list[bytes | None] = []
    for at, row in enumerate(ROWS):
        asked.append(write_named_query(NamedQuery(f"n{at}", row, DATA), ENCODER))
        asked.append(write_query(Query(f"d{at}", features[at], DATA)))
    output = scorer.process(records(asked, QUERIES))
    told = [read_answer(one.value) for one in output.then]
    assert not output.first
    by_name = [(one.predicted, one.decisions) for one in told[::2] if isinstance(one, Prediction)]
    by_features = [(one.predicted, one.decisions) for one in told[1::2] if isinstance(one, Prediction)]
    assert len(by_name) == 40
    assert by_name == by_features
    answers = answer(plane(), DEFINITION, *features_by_name(DEFINITION, ROWS))
    assert [(label, answers.decisions(at)) for at, label in enumerate(answers.classes)] == by_name


def test_a_query_by_name_that_cannot_be_read_is_told_why_and_costs_no_other() -> None:
    scorer = ScorerProcessor(DEFINITION)
    scorer.see_model(replace(MODEL, plane=plane(), blend=None))
    rows = [ROWS[0], {**ROWS[1], "amount": "a lot"}, ROWS[2], {**ROWS[3], "ended": "soon"}]
    output = scorer.process(
        records([write_named_query(NamedQuery(f"q{at}", row, DATA), ENCODER) for at, row in enumerate(rows)], QUERIES)
    )
    told = [read_answer(one.value) for one in output.then]
    refused = [one for one in told if isinstance(one, Unanswered)]
    assert [(one.id, one.kind) for one in refused] == [("q1", "bad value"), ("q3", "bad value")]
    assert refused[0].reason.startswith("query 'q1': column 'amount' is no number: 'a lot'; correct the value")
    assert refused[1].reason.startswith("query 'q3': column 'ended' is no time: neither ISO 8601 nor seconds")
    assert [letter.reason for letter in letters(output)] == [one.reason for one in refused]


def test_a_stream_without_columns_refuses_rows_by_name_and_says_so() -> None:
    plain = replace(DEFINITION, columns=None)
    source = Source("local", 0)
    one = WorkerProcessor(plain, source, "w")
    one.claim()
    one.restore(SourceState(source, Statistics(plain.dimension)))
    told = letters(one.process(records([*singles([0]), *batch([1])]), []))
    assert [letter.kind for letter in told] == ["bad record"] * 2
    assert all("has no [columns] to encode rows by name with" in letter.reason for letter in told)
    scorer = ScorerProcessor(plain)
    scorer.see_model(replace(MODEL, plane=plane(), blend=None))
    output = scorer.process(records([write_named_query(NamedQuery("q", ROWS[0], DATA), ENCODER)], QUERIES))
    (told_of,) = (read_answer(one.value) for one in output.then)
    assert isinstance(told_of, Unanswered)
    assert (told_of.id, told_of.kind) == ("q", "bad record")


# Logs that are read again --------------------------------------------------------------------------------------------


def test_a_copy_of_rows_by_name_has_their_digest_and_leaves_out_what_was_refused() -> None:
    other = replace(DEFINITION, name="other", partitions=1)
    group = Regroup(DEFINITION, other)
    values = [*singles(range(20)), *batch(range(20, 40)), *singles([0])]
    values.append(write_named_sample("bad", 7, "yes", {**ROWS[0], "amount": "a lot"}, ENCODER, DATA))
    copied = [one.value for record in records(values) for one in group.record(record)]
    assert group.counts["rows"] == 41
    assert group.counts["refused rows"] == 1
    one = worker()
    one.process(records(copied), [])
    assert one.partition.statistics.digest(DATA) == reference().statistics().digest(DATA)


def test_a_row_that_cannot_be_read_does_not_widen_a_grid() -> None:
    seen = RowsSeen(DEFINITION)
    bad = write_named_sample("bad", 7, "yes", {**ROWS[0], "amount": "a lot"}, ENCODER, DATA)
    seen.add_records(records([*batch(range(10)), bad]))
    assert (seen.fit, seen.refused) == (10, 0)
