"""A message that names a flag names one that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from deltaplane_services.cli.application import app

ROOT = Path(__file__).resolve().parents[2]
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
OF_OTHERS = {
    *("--help", "--bootstrap-server", "--add", "--allow-principal", "--command-config", "--operation", "--alter"),
    *("--entity-type", "--entity-name", "--add-config", "--topic", "--delete", "--replication-factor", "--create"),
    *("--principal", "--partitions"),
    *("--include_imports", "--descriptor_set_out"),
}
"""Flags that every command has, and those of Kafka's own tools and of protoc."""


def flags_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from flags_of(inner)


def texts_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    yield from (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_every_flag_that_a_message_names_is_a_flag_of_a_command() -> None:
    known = {*flags_of(typer.main.get_command(app)), *OF_OTHERS}
    named = {
        flag: path.relative_to(ROOT)
        for package in ("pipeline/deltaplane", "services/deltaplane_services")
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in texts_of(path)
        for flag in FLAG.findall(text)
    }
    assert {"--no-header", "--encoding", "--decimal", "--ignore"} <= set(named), "messages name flags at all"
    assert {flag: where for flag, where in named.items() if flag not in known} == {}
