"""Every command with its options, as the command line itself declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import typer

from deltaplane_services.cli import application
from generate.tables import code, table

# What a type of Python is called on a command line.
_VALUES = {"int": "whole number", "float": "number", "str": "text", "Path": "file"}


def command_pages() -> str:
    """A section for each command: what it does, and its options."""
    return "\n".join(_section(name, command) for name, command in sorted(_commands()))


def exit_codes() -> str:
    """The exit codes of the commands that say more than 0, 1 and 2, as their help has them."""
    rows = []
    for name, command in sorted(_commands()):
        found = re.findall(r"^ *(\d) ?(.*?)(?:\.)?$", command.epilog or "", re.MULTILINE)
        rows += [[code(f"deltaplane {name}"), number, words.lstrip(": ")] for number, words in found]
    return table(["Command", "Exit code", "Means"], rows)


def _commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name: our own, and those that other packages of the project bring."""
    top: Any = typer.main.get_command(application.app)
    yield from _below("", top)
    for plugin in entry_points(group="deltaplane.commands"):
        yield from _below(f"{plugin.name} ", typer.main.get_command(plugin.load()))


def _below(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _below(f"{prefix}{name} ", command)
        else:
            yield f"{prefix}{name}", command


def _section(name: str, command: Any) -> str:
    shown = [one for one in command.params if not one.hidden]
    arguments = [one for one in shown if not one.opts[0].startswith("-")]
    options = [one for one in shown if one.opts[0].startswith("-") and "--help" not in one.opts]
    usage = " ".join(["deltaplane", name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])])
    paragraphs = [re.sub(r"\s*\n(?!\n)\s*", " ", one).strip() for one in (command.help or "").split("\n\n")]
    paragraphs = [f"```text\n{one}\n```" if one.startswith("deltaplane ") else one for one in paragraphs]
    parts = [f"## {name}", *paragraphs[:1], f"```text\n{usage}\n```", *paragraphs[1:]]
    if arguments:
        parts.append(table(["Argument", ""], [[code(_usage(one)), one.help or ""] for one in arguments]))
    for panel in dict.fromkeys(one.rich_help_panel for one in options):
        rows = [_row(one) for one in options if one.rich_help_panel == panel]
        parts.append(table([panel or "Option", "Value", "", "Default"], rows))
    if command.epilog:
        parts.append(re.sub(r"\n\s*\n?", "\n\n", command.epilog.strip()))
    return "\n\n".join(parts) + "\n"


def _usage(argument: Any) -> str:
    return f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs == -1 else ''}"


def _row(option: Any) -> list[str]:
    kind = getattr(option.type_descriptor.annotation, "__name__", "")
    value = "" if option.is_flag else option.metavar or _VALUES.get(kind, "text")
    default = "required" if option.required else option.default
    shown = "" if default is None or default is False or option.is_flag else str(default)
    text = option.help or ""
    if option.envvar:
        text += f" Variable: `{option.envvar}`."
    return [", ".join(code(one) for one in (*option.opts, *option.secondary_opts)), value, text, shown]
