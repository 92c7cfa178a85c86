"""``deltaplane definition show``: the facts that a producer in another language needs. It asks no broker."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deltaplane_services.cli.shared_options import DefinitionFile
from deltaplane_services.system.printable import echo, json_text

__all__ = ["definition_app", "show"]

definition_app = typer.Typer(help="Look at a stream's definition.", no_args_is_help=True)


@definition_app.callback()
def _definition() -> None:
    """Do nothing; without a callback Typer would merge a group that has one command with that command."""


@definition_app.command("show")
def show(
    definition: DefinitionFile,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with the text that is hashed.")] = False,
) -> None:
    """What a producer in another language needs: fingerprints, features in order, headers, topics and their keys.

    How the fingerprint is made is written in schemas/README.md.
    """
    from deltaplane_services.definition_file.parsed_file import DefinitionFile
    from deltaplane_services.operations.definition_facts import facts_of

    facts = facts_of(DefinitionFile.read(definition).definition)
    if as_json:
        typer.echo(json_text(facts))
        return
    for key, value in facts.items():
        if key != "data_fingerprint_text":
            _show(key.replace("_", " "), value)


def _show(name: str, value: Any) -> None:
    if isinstance(value, dict):
        echo(name)
        for inner, one in value.items():
            echo(f"  {inner:<20} {', '.join(map(str, one)) if isinstance(one, list) else one}")
    else:
        echo(f"{name:<22} {', '.join(value) if isinstance(value, list) else value}")
