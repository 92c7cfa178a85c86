"""What is said of a retirement: that a row is out only where it is, and for everything else an exit code of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from deltaplane.log.delta import Source
from deltaplane.log.records import Receipt
from deltaplane.window.outcomes import RetirementOutcome
from deltaplane_services.cli.application import app
from deltaplane_services.operations.retire import Answer
from deltaplane_services.operations.retirement_words import (
    ExitCode,
    exit_code_of,
    exit_code_of_one_id,
    first_that_applies,
    receipt_as_json,
    what_became,
)
from strategies_streams import definition_of

STREAM = definition_of("all", partitions=2)
RECEIPT = Receipt(
    stream_fingerprint=STREAM.stream_fingerprint,
    id="person-7",
    outcome="retired",
    source=Source("here", 1),
    offset=4,
    writer="w",
    sequence=9,
    samples_to=50,
    retirements_to=5,
    digest_before="aa",
    digest_after="bb",
)
READS_AS_OUT = ("is without", "is out", "left every window")


def receipt(outcome: str) -> Receipt:
    return replace(RECEIPT, outcome=outcome)


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        ("retired", 0, "person-7: retired, model 3 is without it; its row is out of every window"),
        (
            "expired",
            0,
            "person-7: expired, model 3 is without it; its row had left every window before; there was nothing",
        ),
        ("waiting", 3, "person-7: waiting: no live row has this id in source here/1; nothing was taken out"),
        ("unknown", 4, "person-7: unknown: no row was found to take out"),
        ("duplicate", 5, "person-7: duplicate: this id had been retired before, and this retirement took nothing out"),
        ("withdrawn", 4, "this version knows no such outcome ('withdrawn')"),
    ],
)
def test_each_outcome_has_words_and_an_exit_code_and_only_what_is_gone_reads_as_out(
    outcome: str, code: int, words: str
) -> None:
    answer = Answer("person-7", receipt(outcome), 3)
    line = answer.line(STREAM, 30.0)
    assert words in line
    assert answer.exit_code == code == exit_code_of(receipt(outcome))
    out = any(sign in line for sign in READS_AS_OUT)
    assert out == (code == 0)
    json = answer.as_json(STREAM)
    assert (json["out"], json["exit_code"], json["model_version"]) == (code == 0, code, 3)
    assert json["meaning"] == what_became(receipt(outcome), STREAM)


def test_every_outcome_has_an_exit_code_that_tells_it_from_success_unless_the_row_is_gone() -> None:
    codes = {outcome: exit_code_of(receipt(outcome)) for outcome in RetirementOutcome}
    gone = {RetirementOutcome.RETIRED, RetirementOutcome.EXPIRED}
    assert {outcome for outcome, code in codes.items() if code is ExitCode.OUT} == gone
    others = [codes[outcome] for outcome in RetirementOutcome if outcome not in gone]
    assert len(set(others)) == len(others)
    assert not {1, 2} & set(others)


def test_what_waits_says_that_the_sample_has_not_come_and_in_an_older_stream_that_it_may_lie_elsewhere() -> None:
    assert what_became(receipt("waiting"), STREAM).endswith("the retirement waits for a sample that has not come")
    older = replace(STREAM, partitioner="crc32")
    assert what_became(receipt("waiting"), older).endswith("so a row may lie in another partition")
    assert "another partition" not in what_became(receipt("waiting"), replace(older, partitions=1))


def test_without_a_receipt_or_a_model_nothing_is_called_out() -> None:
    nothing, no_model = Answer("person-7", None, None), Answer("person-7", RECEIPT, None)
    assert nothing.exit_code == no_model.exit_code == ExitCode.NOT_YET
    assert nothing.line(STREAM, 2.5) == (
        "person-7: no receipt within 2.5 s, so nothing is known to be out; is a worker running?"
    )
    assert "retired, but no model without it came within 2.5 s, is a merger running?" in no_model.line(STREAM, 2.5)
    assert nothing.as_json(STREAM) == {"id": "person-7", "model_version": None, "exit_code": 1}


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["retired"], ExitCode.OUT),
        (["retired", "duplicate"], ExitCode.OUT),
        (["waiting", "retired"], ExitCode.OUT),
        (["waiting", "duplicate"], ExitCode.WAITING),
        (["duplicate"], ExitCode.DUPLICATE),
        (["unknown", "duplicate", "duplicate"], ExitCode.UNKNOWN),
    ],
)
def test_of_one_id_the_last_receipt_counts_that_is_no_repeat(outcomes: list[str], code: ExitCode) -> None:
    assert exit_code_of_one_id(map(receipt, outcomes)) is code


def test_of_several_answers_the_first_code_that_is_not_0_applies() -> None:
    assert first_that_applies([ExitCode.OUT, ExitCode.DUPLICATE, ExitCode.WAITING]) is ExitCode.WAITING
    assert first_that_applies([ExitCode.WAITING, ExitCode.NOT_YET]) is ExitCode.NOT_YET
    assert first_that_applies([ExitCode.OUT]) is ExitCode.OUT
    assert first_that_applies([]) is ExitCode.OUT


def test_a_receipt_for_scripts_says_whether_the_row_is_out() -> None:
    assert receipt_as_json(RECEIPT, STREAM)["out"] is True
    assert receipt_as_json(receipt("waiting"), STREAM)["out"] is False


@pytest.mark.parametrize("command", ["retire", "verify-receipt"])
def test_the_help_of_a_command_names_every_exit_code(command: str) -> None:
    said = CliRunner().invoke(app, [command, "--help"], terminal_width=200).stdout
    codes = said[said.index("Exit codes") :]
    assert [code for code in range(6) if f" {code} " in codes or f" {code}:" in codes] == list(range(6))
