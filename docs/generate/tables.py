"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a line for each row."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """A text as it may stand in a cell: in one line, and with no bar that would end it."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """A text as code."""
    return f"`{text}`"


def markdown(docstring: str) -> str:
    """A docstring's markup as Markdown: roles and double backticks become code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", docstring)
    return text.replace("``", "`")
