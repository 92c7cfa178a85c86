"""The commands of the command line, for tests that look at all of them."""

from __future__ import annotations

from typing import Any

__all__ = ["commands_below"]


def commands_below(group: Any, prefix: str = "") -> dict[str, Any]:
    """Every command of the command line by its name."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= commands_below(command, f"{prefix}{name} ")
        else:
            found[f"{prefix}{name}"] = command
    return found
