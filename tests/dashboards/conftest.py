"""Lends a real Prometheus to the tests of this directory."""

from __future__ import annotations

import pytest

import not_run
from dashboards import distribution


@pytest.fixture(scope="session")
def prometheus_tools() -> distribution.Tools:
    """The programs; whoever asks for this fixture is not run, or fails, without them."""
    return distribution.tools()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test that wants Prometheus where there is none."""
    if "prometheus_tools" in getattr(item, "fixturenames", ()) and (reason := distribution.why_none()):
        not_run.give_up("PROMETHEUS", reason)
