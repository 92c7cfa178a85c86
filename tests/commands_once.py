"""Typer makes all commands of a program anew for each command line, in a tenth of the time of all tests that give one.

Here they are made once for each program, and again if it has got another command.
"""

from __future__ import annotations

import functools
from typing import Any

import typer.main
import typer.testing


def install() -> None:
    """Have this process make the commands of a program once."""
    make = typer.main.get_command

    @functools.cache
    def made(program: typer.Typer, _commands: int, _groups: int) -> Any:
        return make(program)

    def get_command(program: typer.Typer) -> Any:
        return made(program, len(program.registered_commands), len(program.registered_groups))

    vars(typer.main)["get_command"] = get_command
    vars(typer.testing)["_get_command"] = get_command
