"""Tests that cannot be run here: they are skipped, or fail where they were counted on, and the end of the run says so.

What is said is taken from the tests' own reports, so that it is the same however many processes run them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any, NoReturn

import pytest

_NOT_RUN = re.compile(r"NO ([A-Z]+), NOT RUN: (.*)")


def required(what: str, *, on_continuous_integration: bool = True) -> bool:
    """Return whether tests must fail rather than be skipped for want of this.

    On continuous integration (``CI``) they must, unless said otherwise, and everywhere with
    ``DELTAPLANE_REQUIRE_{WHAT}=1``.
    """
    names = [f"DELTAPLANE_REQUIRE_{what}", *(["CI"] if on_continuous_integration else [])]
    return any(os.environ.get(name, "").lower() not in {"", "0", "false", "no"} for name in names)


def give_up(what: str, reason: str, *, on_continuous_integration: bool = True) -> NoReturn:
    """Skip the test for want of this, or fail it, where it is :func:`required`."""
    message = f"NO {what}, NOT RUN: {reason}"
    if required(what, on_continuous_integration=on_continuous_integration):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in capitals what was not run."""
    counts: Counter[tuple[str, str]] = Counter()
    for outcome in ("skipped", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if found := _NOT_RUN.search(_reason(report)):
                counts[found[1], found[2]] += 1
    for what in sorted({what for what, _ in counts}):
        reasons = {reason: count for (of, reason), count in counts.items() if of == what}
        total = sum(reasons.values())
        terminalreporter.section(f"{total} {what} TEST{'S' * (total != 1)} NOT RUN", sep="!", red=True, bold=True)
        for reason, count in reasons.items():
            terminalreporter.line(f"{count} FOR WANT OF {what}: {reason}", red=True)
        terminalreporter.line(
            f"WHAT THEY CHECK IS UNCHECKED. With DELTAPLANE_REQUIRE_{what}=1 they fail instead.", red=True
        )


def _reason(report: Any) -> str:
    """The reason of a skip, the first line of a failure."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr).partition("\n")[0]
