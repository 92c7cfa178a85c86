"""``deltaplane retire`` and ``verify-receipt``: unlearn samples, and prove what receipts say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import AsJson, Reason, SiteOptions, check
from deltaplane_services.operations.retirement_words import (
    RETIRE_EXIT_CODES,
    VERIFY_EXIT_CODES,
    ExitCode,
    exit_code_of,
    exit_code_of_one_id,
    first_that_applies,
    receipt_as_json,
    what_became,
)
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane.stream.definition import StreamDefinition
    from deltaplane_services.definition_file.settings import ServiceSettings
    from deltaplane_services.operations.verify_receipt import Verified

__all__ = ["register", "retire", "verify_receipt"]


def register(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command(epilog=RETIRE_EXIT_CODES)(retire)
    app.command("verify-receipt", epilog=VERIFY_EXIT_CODES)(verify_receipt)


@with_groups
def retire(
    stream: SiteOptions,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the samples to unlearn.")] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="COLUMN=VALUE instead of ids: all rows of this subject. The definition declares the column"
            ' (kind = "subject"). Reads the samples.'
        ),
    ] = None,
    reason: Reason = "asked for",
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for receipts and for a model without the samples.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Unlearn samples, and wait for receipts and for the first model without them.

    Only rows of the site are found; retire at each site that may have the id.
    """
    from deltaplane.errors import DefinitionError
    from deltaplane_services.operations.retire import retire as run_retire

    settings = stream.settings()
    if bool(ids) == (where is not None):
        raise DefinitionError("retire: expected ids, or --where COLUMN=VALUE")
    if where is not None:
        _retire_subject(settings, where, reason, wait, as_json=as_json)
        return
    check(settings, "retirer")
    answers = run_retire(settings, ids or [], reason, wait)
    for answer in () if as_json else answers:
        done = answer.exit_code is ExitCode.OUT
        echo(answer.line(settings.definition, wait), None if done else typer.colors.YELLOW, err=answer.receipt is None)
        # If the tile took out nothing of this id, its digests may differ because of other rows.
        if answer.receipt is not None and exit_code_of(answer.receipt) is ExitCode.OUT:
            echo(f"  digest before {answer.receipt.digest_before}")
            echo(f"  digest after  {answer.receipt.digest_after}")
    if as_json:
        typer.echo(json_text([answer.as_json(settings.definition) for answer in answers]))
    _end(answer.exit_code for answer in answers)


def _retire_subject(settings: ServiceSettings, where: str, reason: str, wait: float, *, as_json: bool) -> None:
    from deltaplane_services.kafka.access import READ
    from deltaplane_services.kafka.start import check_topics
    from deltaplane_services.operations.retire_subject import Subject, retire_subject
    from deltaplane_services.processors.messages import SAMPLES

    subject = Subject.parse(where, settings.definition)
    check(settings, "retirer")
    check_topics(settings, "site", {SAMPLES: READ}, "auditor")
    found = retire_subject(settings, subject, reason, wait)
    if as_json:
        typer.echo(json_text([answer.as_json(settings.definition) for answer in found.answers]))
    else:
        done = found.exit_code is ExitCode.OUT
        echo(found.line(subject), typer.colors.GREEN if done else typer.colors.YELLOW)
    if found.without_names:
        records = f"{found.without_names:,} records of samples have no rows by name: nobody knows whose they are"
        echo(f"deltaplane: {records}", typer.colors.YELLOW, err=True)
    _end([found.exit_code])


@with_groups
def verify_receipt(
    ids: Annotated[list[str], typer.Argument(help="Ids of samples that were retired.")],
    stream: SiteOptions,
    as_json: AsJson = False,
) -> None:
    """Replay the tiles that answered retirements of these ids, and hold outcomes and digests against the receipts."""
    from deltaplane_services.operations.verify_receipt import verify_receipts

    settings = stream.settings()
    check(settings, "auditor")
    codes, told = [], []
    for found in verify_receipts(settings, ids):
        equal = all(one.equal for one in found)
        codes.append(exit_code_of_one_id(one.receipt for one in found) if equal else ExitCode.NOT_YET)
        told += [_as_json(one, settings.definition) for one in found]
        for one in () if as_json else found:
            _tell(one, settings.definition)
    if as_json:
        typer.echo(json_text(told))
    _end(codes)


def _tell(one: Verified, definition: StreamDefinition) -> None:
    """Say what a receipt says, and whether the log gives the same."""
    receipt = one.receipt
    where = f"source {receipt.source}, tile {receipt.sequence}, retirement at offset {receipt.offset}"
    echo(f"{receipt.id}: {receipt.outcome}; {where}")
    echo(f"  digest before {receipt.digest_before}")
    echo(f"  digest after  {receipt.digest_after}")
    if one.found is not None:
        echo(f"  NOT VERIFIED: the log gives {one.found}", typer.colors.RED)
    for wrong in one.since:
        echo(f"  NOT VERIFIED: model {one.model_version}: {wrong}", typer.colors.RED)
    if not one.equal:
        return
    out = exit_code_of(receipt) is ExitCode.OUT
    contained = "no model contains it yet" if one.model_version is None else f"model {one.model_version} contains it"
    same = f"verified: the log gives the same; {contained}" if out else "verified only that nothing was taken out"
    upto = "" if out else f", with samples read up to offset {receipt.samples_to}"
    echo(f"  {same}: {what_became(receipt, definition)}{upto}", typer.colors.GREEN if out else typer.colors.YELLOW)


def _as_json(one: Verified, definition: StreamDefinition) -> dict[str, object]:
    found = None if one.found is None else receipt_as_json(one.found, definition)
    known = {"verified": one.equal, "model_version": one.model_version, "samples_to": one.receipt.samples_to}
    # A receipt proves nothing if the log gives another one, or if the model no longer follows from the log.
    out: dict[str, object] = {}
    if one.since:
        out = {"out": None, "meaning": "the model is not what the log gives", "model_faults": list(one.since)}
    if one.found is not None:
        out |= {"out": None, "meaning": "the log gives something else", "log_gives": found}
    return {**receipt_as_json(one.receipt, definition), **known, **out}


def _end(codes: Iterable[ExitCode]) -> None:
    if code := first_that_applies(codes):
        raise typer.Exit(int(code))
