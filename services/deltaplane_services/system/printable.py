"""Text from untrusted sources, made harmless before it is shown.

Labels, ids, site names, reasons and the contents of files come from people that nobody has vetted. A terminal takes
some characters for commands: it changes its title, its colours or what it has shown, or answers as if somebody typed. A
line break forges a line of a log, and a mark of direction reverses a text. So every character that cannot be printed is
shown as �, or in JSON as its escape.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from typing import Any

import typer

__all__ = ["STRANGE", "PlainFormatter", "echo", "json_text", "json_value", "plain"]

STRANGE = "\N{REPLACEMENT CHARACTER}"


def plain(text: str, keep: str = "") -> str:
    """The text with � for every character that cannot be printed and is not one of ``keep``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else STRANGE for char in text)


def echo(line: str, color: str | None = None, *, err: bool = False) -> None:
    """Print one line, made harmless by :func:`plain`."""
    typer.secho(plain(line), fg=color, err=err)


def json_value(value: Any) -> Any:
    """The value with None for numbers that JSON does not have (NaN, infinite), as readers of JSON expect."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value


def json_text(value: Any) -> str:
    """The value as indented JSON; characters that cannot be printed are written as escapes, letters as they are."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if text.isprintable() else re.sub(r"[^ -~\n]", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


class PlainFormatter(logging.Formatter):
    """A formatter that writes each message in one line, whatever is in it; only tracebacks have lines of their own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that the standard library has.
        """The line of a record."""
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback of a record."""
        return plain(super().formatException(ei), keep="\n")
