"""``deltaplane topics create``, ``check`` and ``trim``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import AsJson, Flags, SiteOptions, check, with_settings
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane_services.operations.topics import Finding
    from deltaplane_services.operations.trim import TrimPlan

__all__ = ["topics_app", "topics_check", "topics_create", "topics_trim"]

topics_app = typer.Typer(help="Make, check and trim a stream's topics.", no_args_is_help=True)


@topics_app.command("create")
@with_settings("topics create")
def topics_create(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Make the topics that are missing, and say what is wrong with all; exit code 1 if that may cost rows.

    If the cluster's policy refuses a setting, the topic is made without it, and the output says what to do by hand.
    """
    from deltaplane_services.operations.topics import create_topics

    settings = stream.settings(flags)
    report = create_topics(settings)
    for name in report.created:
        typer.echo(f"created {name}")
    _show_findings(report.findings)


@topics_app.command("check")
@with_settings("topics check")
def topics_check(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Say what is wrong with a stream's topics, and how to mend it; exit code 1 if that may cost rows."""
    from deltaplane_services.operations.topics import check_topics

    settings = stream.settings(flags)
    _show_findings(check_topics(settings))


def _show_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        words = str(finding) if finding.vital else f"(can be lived with) {finding}"
        echo(words, typer.colors.YELLOW, err=True)
    if any(finding.vital for finding in findings):
        raise typer.Exit(1)
    typer.echo("all topics are as they must be" if findings else "all topics are as they should be")


@topics_app.command("trim")
@with_groups
def topics_trim(
    stream: SiteOptions,
    margin_records: Annotated[int, typer.Option(min=0, help="Records that stay in front of what is needed.")] = 100,
    margin_share: Annotated[
        float, typer.Option(min=0.0, max=1000.0, help="Or this share of those needed, whichever is more.")
    ] = 1.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what could go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let go of samples and retirements that no window of this site needs any more, by the newest checkpoints.

    Exit code 1 if a source keeps its log for a reason that somebody should look at. A longer window can then no longer
    be filled from the log, and receipts of tiles before the margin no longer be verified.
    """
    from deltaplane.log.trimming import TrimMargin
    from deltaplane_services.operations.trim import apply_trims, plan_trim

    settings = stream.settings()
    check(settings, "trimmer")
    plan = plan_trim(settings, TrimMargin(margin_records, margin_share))
    begins = {} if dry_run else apply_trims(settings, plan.trims)
    if as_json:
        typer.echo(json_text(_as_json(plan, begins)))
    else:
        for trim in plan.trims:
            done = "could be" if dry_run else "are" if trim.place in begins else "need not be"
            echo(
                f"{trim.source} {trim.topic}: {trim.begin:,} to {trim.end:,}; {trim.records:,} {done} let go of, from"
                f" {trim.to:,} on they stay"
            )
        for untouched in plan.untouched:
            echo(f"{untouched.source}: keeps its log, {untouched.reason}", typer.colors.YELLOW, err=True)
        if not plan.trims and not plan.untouched:
            typer.echo(f"no source of site {settings.site} has a checkpoint yet: nothing can go")
    if plan.untouched:
        raise typer.Exit(1)


def _as_json(plan: TrimPlan, begins: dict[tuple[str, int], int]) -> dict[str, object]:
    return {
        "logs": [
            {
                "source": str(trim.source),
                "topic": trim.topic,
                "begin": trim.begin,
                "end": trim.end,
                "needed_from": trim.to,
                "records": trim.records,
                "let_go": trim.place in begins,
            }
            for trim in plan.trims
        ],
        "untouched": [{"source": str(one.source), "reason": one.reason} for one in plan.untouched],
    }
