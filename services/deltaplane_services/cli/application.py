"""The command line. It reads options, calls what does the work, and turns errors into a message and exit code 2."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane import __version__
from deltaplane.errors import DeltaplaneError
from deltaplane_services.cli.access_commands import topics_acls
from deltaplane_services.cli.ask_commands import register as register_ask
from deltaplane_services.cli.bootstrap_commands import bootstrap_app
from deltaplane_services.cli.compare_commands import compare
from deltaplane_services.cli.copy_commands import register as register_copy
from deltaplane_services.cli.definition_commands import definition_app
from deltaplane_services.cli.follow_command import bootstrap_follow
from deltaplane_services.cli.grid_commands import grid_app
from deltaplane_services.cli.inspect_command import inspect
from deltaplane_services.cli.kafka_commands import register
from deltaplane_services.cli.letter_commands import letters_app
from deltaplane_services.cli.replay_command import EXIT_CODES, replay
from deltaplane_services.cli.retire_commands import register as register_retire
from deltaplane_services.cli.serve_command import serve
from deltaplane_services.cli.shared_options import process
from deltaplane_services.cli.source_commands import source_app
from deltaplane_services.cli.top_commands import live
from deltaplane_services.cli.topic_commands import topics_app
from deltaplane_services.system.output_files import NO_ROOM
from deltaplane_services.system.printable import plain

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["app", "main", "top"]

app = typer.Typer(
    name="deltaplane",
    help="Exact, un-learnable, sliding-window classification of streams.",
    no_args_is_help=True,
    # Every command takes these from here.
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deltaplane {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exact, un-learnable, sliding-window classification of streams."""


def _add_plugins(words: Sequence[str]) -> None:
    """Add what other packages bring, unless the words of the command line name a command of our own.

    Loading them takes longer than all else at start, and a service is started often, and waited for.
    """
    named = next((word for word in words if not word.startswith("-")), None)
    known = {found.name or getattr(found.callback, "__name__", "") for found in app.registered_commands}
    known.update(found.name for found in app.registered_groups if found.name)
    if named in known:
        return
    from importlib.metadata import entry_points

    for plugin in entry_points(group="deltaplane.commands"):
        if plugin.name not in known:
            _add_plugin(plugin)


def _add_plugin(found: EntryPoint) -> None:
    """Add a command group of another package; one that cannot be loaded says so when it is called."""
    try:
        app.add_typer(found.load(), name=found.name)
    except ImportError as fault:
        reason = _why_not_there(found, fault)

        def refuse() -> None:
            raise DeltaplaneError(reason)

        extra = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(found.name, help="Not installed.", context_settings=extra)(refuse)


def _why_not_there(found: EntryPoint, fault: ImportError) -> str:
    package, missing = found.module.partition(".")[0], (fault.name or "").partition(".")[0]
    if missing == package:
        return f"{found.name} is not in the installed package: in a checkout, pip install -e '.[{found.name}]'"
    return f"{found.name} needs {missing or fault}: in a checkout, pip install -e '.[{found.name}]'"


app.command(epilog=EXIT_CODES)(replay)
register(app)
register_ask(app)
topics_app.command("acls")(topics_acls)
app.command()(compare)
app.command()(inspect)
app.command("top")(live)
app.command()(serve)
register_copy(app)
register_retire(app)
app.add_typer(source_app, name="source")
bootstrap_app.command("follow")(bootstrap_follow)
app.add_typer(bootstrap_app, name="bootstrap")
app.add_typer(letters_app, name="dead-letters")
app.add_typer(grid_app, name="grid")
app.add_typer(definition_app, name="definition")


def main() -> None:
    """Run the command line; a failure that Deltaplane knows is a message and exit code 2, never a traceback."""
    _add_plugins(sys.argv[1:])
    try:
        try:
            app()
        finally:
            process.close()
            # A full disk or a closed pipe is found out here, and not when Python exits.
            sys.stdout.flush()
    except DeltaplaneError as fault:
        typer.secho(plain(f"deltaplane: {fault}", keep="\n"), fg=typer.colors.RED, err=True)
        sys.exit(2)
    except OSError as fault:
        if fault.filename is not None or fault.errno not in {*NO_ROOM, errno.EPIPE}:
            raise
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open for what is left of this process.
        if fault.errno != errno.EPIPE:
            typer.secho(f"deltaplane: standard output cannot be written: {fault.strerror}", fg="red", err=True)
        sys.exit(1 if fault.errno == errno.EPIPE else 2)


if __name__ == "__main__":
    main()
