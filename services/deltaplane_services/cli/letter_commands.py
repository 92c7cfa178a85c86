"""``deltaplane dead-letters``: list refused records, show one, and send records again."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import AsJson, SiteOptions
from deltaplane_services.system.printable import echo, json_text

__all__ = ["letters_app", "letters_list", "letters_replay", "letters_show"]

letters_app = typer.Typer(help="Look at refused records, and send them again.", no_args_is_help=True)

_Reason = Annotated[str | None, typer.Option("--reason", help="Only letters of this kind, such as 'bad value'.")]
_Since = Annotated[str | None, typer.Option("--since", help="Only letters written in the last span, such as 2d or 3h.")]


@letters_app.command("list")
@with_groups
def letters_list(stream: SiteOptions, reason: _Reason = None, since: _Since = None, as_json: AsJson = False) -> None:
    """A line for each dead letter: its name, when it was written, its kind, and the reason."""
    from deltaplane_services.operations.dead_letters import kept_letters

    found = kept_letters(stream.settings(), reason, _moment(since))
    if as_json:
        typer.echo(json_text([one.as_json() for one in found]))
        return
    for one in found:
        written = datetime.fromtimestamp(one.log_time / 1000, UTC).isoformat(timespec="seconds")
        echo(f"{one.key}  {written}  {one.letter.kind}: {one.letter.reason}")


@letters_app.command("show")
@with_groups
def letters_show(
    name: Annotated[str, typer.Argument(help="The name of a letter, as dead-letters list prints it.")],
    stream: SiteOptions,
) -> None:
    """One dead letter as JSON, with the record that it stands for."""
    from deltaplane_services.operations.dead_letters import letter_named

    typer.echo(json_text(letter_named(stream.settings(), name).as_json()))


@letters_app.command("replay")
@with_groups
def letters_replay(stream: SiteOptions, reason: _Reason = None, since: _Since = None) -> None:
    """Send refused records again, as they were, to the topics that they came from; your own topics among them.

    Do it once what they were refused for has been mended. What is refused again has a new letter.
    """
    from deltaplane_services.operations.dead_letters import kept_letters, replay_letters

    settings = stream.settings()
    done = replay_letters(settings, list(kept_letters(settings, reason, _moment(since))))
    echo(f"{done.sent:,} records sent again")
    if done.not_whole:
        echo(
            f"{done.not_whole:,} letters hold no whole record (a row of a batch, or too large), or one of a topic that"
            " only services write: send rows again from their source",
            typer.colors.YELLOW,
            err=True,
        )


def _moment(since: str | None) -> int | None:
    """The time that lies ``since`` before now, in milliseconds since the epoch; None without ``since``."""
    from deltaplane.table_values import span

    return None if since is None else time.time_ns() // 1_000_000 - span(since, "--since")
