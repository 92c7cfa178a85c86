"""Lends a real Prometheus to the tests of this directory, and says in capitals what was not run for want of one."""

from __future__ import annotations

import pytest

from dashboards import distribution

_NOT_RUN = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def prometheus_tools() -> distribution.Tools:
    """The programs; whoever asks for this fixture is not run, or fails, without them."""
    return distribution.tools()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test for want of Prometheus, and count it; or fail it, where Prometheus must not be wanting."""
    if "prometheus_tools" in getattr(item, "fixturenames", ()) and (reason := distribution.why_none()):
        item.config.stash[_NOT_RUN] = item.config.stash.get(_NOT_RUN, 0) + 1
        message = f"NO PROMETHEUS, NOT RUN: {reason}"
        if distribution.required():
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in capitals what was not run."""
    if not_run := config.stash.get(_NOT_RUN, 0):
        terminalreporter.section(f"{not_run} TESTS OF METRICS NOT RUN", sep="!", red=True, bold=True)
        terminalreporter.line(f"FOR WANT OF PROMETHEUS: {distribution.why_none()}", red=True)
        terminalreporter.line(f"With {distribution.REQUIRED}=1 they fail instead.", red=True)
