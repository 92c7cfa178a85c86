"""Plain tables as TOML, which the standard library reads and does not write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["as_toml", "inline_toml"]


def as_toml(tables: Mapping[str, Any]) -> str:
    """Keys of the top first, then a section for each table."""
    top = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    sections = {key: value for key, value in tables.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {_value(value)}" for key, value in top.items()]
    for name, section in sections.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in section.items())]
    return "\n".join(lines) + "\n"


def inline_toml(table: Mapping[str, Any]) -> str:
    """A table on one line; its keys are letters, digits and underscores."""
    return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in table.items()) + " }"


def _value(value: Any) -> str:
    """A value in TOML; strings, numbers and booleans are written as in JSON, which allows one character more."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(str(key))} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return "[\n" + "".join(f"  {_value(item)},\n" for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
