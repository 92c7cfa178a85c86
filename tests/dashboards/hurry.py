"""The project's own alert rules with all their times divided, so that a test sees in seconds what takes minutes.

Nothing else is touched: not an expression, not a bound of records, shares or ratios. Times are ``for:``, the ranges in
brackets, and a number that something in seconds is compared with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ruamel.yaml import YAML

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of each unit of Prometheus's durations that the rules use."""

_DURATION = r"(?:\d+(?:ms|[smhd]))+"
RANGE = re.compile(rf"\[({_DURATION})\]")
BOUND_IN_SECONDS = re.compile(r"(_seconds\)* *[<>]=? *)(\d+)(?!\S)")


def milliseconds(duration: str) -> int:
    """A duration such as ``5m`` or ``1h30m``. Raises AssertionError for what is none."""
    assert re.fullmatch(_DURATION, duration), f"expected a duration such as 5m, got {duration!r}"
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", duration))


def hurried_expression(expression: str, factor: int) -> str:
    """An expression with its ranges and its bounds in seconds divided."""
    shorter = RANGE.sub(lambda found: f"[{milliseconds(found[1]) // factor}ms]", expression)
    return BOUND_IN_SECONDS.sub(lambda found: f"{found[1]}{int(found[2]) / factor:g}", shorter)


def hurried(rules: Path, factor: int, directory: Path, others: Mapping[str, int] | None = None) -> Path:
    """Write the rules of a file with every time divided by ``factor``, and return the new file.

    ``others``: alert to a factor of its own.
    """
    content = YAML(typ="safe", pure=True).load(rules)
    for group in content["groups"]:
        for rule in group["rules"]:
            its_own = (others or {}).get(rule.get("alert"), factor)
            rule["expr"] = hurried_expression(rule["expr"], its_own)
            if "for" in rule:
                rule["for"] = f"{milliseconds(rule['for']) // its_own}ms"
    file = directory / rules.name
    # JSON is YAML, too, and no line of it is folded.
    file.write_text(json.dumps(content, indent=1), "utf-8")
    return file
