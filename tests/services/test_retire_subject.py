"""A subject's rows are found in the log whatever crashes, and what is left is what there would be without them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from crashing_runner import CrashingRunner
from deltaplane.errors import DefinitionError
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import write_named_sample, write_retirement, write_sample
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.operations.retire_subject import RetiredSubject, Subject, SubjectRows
from deltaplane_services.operations.retirement_words import ExitCode
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing

DEFINITION = StreamDefinition.from_tables(
    {
        "name": "shop",
        "partitions": 3,
        "columns": {
            "rules": [
                {"column": "amount", "kind": "number", "missing": "fill"},
                {"column": "customer", "kind": "subject"},
            ]
        },
        "grid": {"steps": [2.0**-20]},
        "classes": {"names": ["no", "yes"]},
        "window": {"length": "all"},
        "solver": {"C": 1.0},
    }
)
assert DEFINITION.columns is not None
COLUMNS, DATA = DEFINITION.columns, DEFINITION.data_fingerprint


def sent(sample_id: str, row: dict[str, Any], label: str) -> Outgoing:
    value = write_named_sample(sample_id, 7, label, row, COLUMNS, DATA)
    return Outgoing(SAMPLES, DEFINITION.partition_of(sample_id), sample_id.encode(), value)


@pytest.mark.parametrize("seed", range(6))
def test_all_that_is_left_is_of_others_through_crashes_and_corrections(seed: int) -> None:
    random, now = Random(seed), 1
    runner = CrashingRunner(DEFINITION, 2, RunnerOptions(keep_log=True, records_per_poll=7, seed=seed))
    rows: dict[str, tuple[dict[str, Any], str]] = {}
    for _ in range(160):
        sample_id = f"row-{random.randrange(100)}"  # Some come again, corrected; then the last one counts.
        row = {"amount": round(random.gauss(0, 5), 3), "customer": f"c{random.randrange(4)}"}
        rows[sample_id] = (row, random.choice(["no", "yes"]))
        runner.broker.append(sent(sample_id, *rows[sample_id]), now)
        if random.random() < 0.1:
            runner.crash_worker(random.randrange(2), now)
        if random.random() < 0.3:
            runner.round(now)
    found = SubjectRows(DEFINITION, Subject.parse("customer = c2", DEFINITION))
    for partition in range(DEFINITION.partitions):
        found.take(runner.broker.fetch(SAMPLES, partition, 0))
    assert sorted(found.ids) == sorted(one for one, (row, _) in rows.items() if row["customer"] == "c2")
    for sample_id in found.ids:
        value = write_retirement(Retirement(sample_id, "asked for", 0, time=now), DATA)
        place = DEFINITION.partition_of(sample_id)
        runner.broker.append(Outgoing(RETIREMENTS, place, sample_id.encode(), value), now)
        if random.random() < 0.2:
            runner.crash_worker(random.randrange(2), now)
            runner.round(now)
    runner.drain(now)
    left = {one: told for one, told in rows.items() if told[0]["customer"] != "c2"}
    reference = Reference(DEFINITION)
    features = COLUMNS.encode_records([row for row, _ in left.values()]).features
    codes = np.array([int(label == "yes") for _, label in left.values()], dtype=np.int32)
    samples = Samples.of_record(list(left), 7, ("no", "yes"), codes, features, log_time=now)
    home = DEFINITION.partitions_of(list(left))
    for partition in range(DEFINITION.partitions):
        reference.add(partition, samples.chosen(np.flatnonzero(home == partition)))
    assert runner.merger.model is not None
    assert runner.merger.model.digest == reference.statistics().digest(DATA), f"seed {seed}"


def test_rows_without_names_and_records_that_are_none_are_counted_and_passed_over() -> None:
    runner = CrashingRunner(DEFINITION, 1, RunnerOptions(keep_log=True))
    for record in (
        Outgoing(SAMPLES, 0, None, write_sample("a", 1, "no", [1.0], DATA)),
        Outgoing(SAMPLES, 0, None, b"no record"),
        sent("b", {"amount": 1.0, "customer": 17}, "no")._replace(partition=0),
    ):
        runner.broker.append(record, 1)
    found = SubjectRows(DEFINITION, Subject("customer", "17"))
    found.take(runner.broker.fetch(SAMPLES, 0, 0))
    assert (found.ids, found.without_names) == (["b"], 2)


def test_where_nothing_is_found_nothing_is_said_to_be_out() -> None:
    nothing = RetiredSubject((), 0)
    assert nothing.exit_code is ExitCode.UNKNOWN
    assert "no row of it is in the log of samples" in nothing.line(Subject("customer", "c9"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("customer", "expected COLUMN=VALUE"),
        ("customer=", "expected COLUMN=VALUE"),
        ("amount=1", "column 'amount' is no subject of this stream, it has customer"),
    ],
)
def test_what_names_no_subject_is_refused(text: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Subject.parse(text, DEFINITION)
