"""Lends a headless browser to the tests of this directory, and says loudly what was not run where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser import chromium

_NOT_RUN = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    path = chromium.find_chromium()
    assert path is not None, "tests without a browser have been skipped before"
    with chromium.running(path) as running:
        yield running


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test for want of a browser, and count it; or fail it, where a browser must not be wanting."""
    if "browser" in getattr(item, "fixturenames", ()) and chromium.find_chromium() is None:
        message = f"NO BROWSER, NOT RUN: there is no Chromium on the path, and {chromium.NAMED} names none"
        if chromium.required():
            pytest.fail(message, pytrace=False)
        item.config.stash[_NOT_RUN] = item.config.stash.get(_NOT_RUN, 0) + 1
        pytest.skip(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in capitals what was not run."""
    if count := config.stash.get(_NOT_RUN, 0):
        terminalreporter.section(f"{count} BROWSER TEST{'S' * (count != 1)} NOT RUN", sep="!", red=True, bold=True)
        terminalreporter.line("FOR WANT OF CHROMIUM (Debian and Ubuntu: apt-get install chromium).", red=True)
        terminalreporter.line(
            f"THAT REPORTS OPEN AND ARE DRAWN IS UNCHECKED. With {chromium.REQUIRED}=1 these tests fail instead.",
            red=True,
        )
