"""Lends a headless browser to the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import not_run
from browser import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    path = chromium.find_chromium()
    assert path is not None, "tests without a browser have been skipped before"
    with chromium.running(path) as running:
        yield running


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test that wants a browser where there is none; which is no failure on continuous integration."""
    if "browser" in getattr(item, "fixturenames", ()) and chromium.find_chromium() is None:
        how = "Debian and Ubuntu: apt-get install chromium"
        reason = f"there is no Chromium on the path ({how}), and {chromium.NAMED} names none"
        not_run.give_up("BROWSER", reason, on_continuous_integration=False)
