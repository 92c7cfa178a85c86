"""A headless Chromium that opens a file and tells what happened: messages, requests, sizes, pictures.

Playwright drives it, and it is the system's: a browser of Playwright's own would be another download.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright import sync_api

NAMED = "DELTAPLANE_TEST_CHROMIUM"
SILENCE_SECONDS = 120
"""After this a browser is taken for dead. It says something every few milliseconds, so this decides no test."""

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND")


def find_chromium() -> str | None:
    """Return the browser's path: the one that is named in the environment, else the first on the path."""
    if named := os.environ.get(NAMED):
        return named
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@dataclass(frozen=True)
class Screen:
    """What a page is looked at on."""

    width: int
    height: int
    scheme: str = "light"
    mobile: bool = False


@dataclass
class Page:
    """One open page: what it has requested, and what it has complained of."""

    driven: sync_api.Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.driven.on("request", lambda request: self.requests.append(request.url))
        self.driven.on("console", lambda message: self.complaints.append(message.text))
        self.driven.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._protocol = self.driven.context.new_cdp_session(self.driven)

    def ask(self, script: str) -> Any:
        """Evaluate an expression in the page, and return its value, awaited if it is a promise."""
        return self.driven.evaluate(script)

    def show_on(self, screen: Screen) -> None:
        """Look at the page on another screen; two frames later it is laid out and drawn."""
        # Whether a screen is that of a phone, Playwright fixes when a page is made.
        self._protocol.send(
            "Emulation.setDeviceMetricsOverride",
            {"width": screen.width, "height": screen.height, "deviceScaleFactor": 1, "mobile": screen.mobile},
        )
        self.driven.emulate_media(color_scheme="dark" if screen.scheme == "dark" else "light")
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def press(self, key: str) -> None:
        """Press and release a key."""
        self.driven.keyboard.press(key)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place on the screen."""
        self.driven.mouse.move(x, y)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        return self.driven.screenshot(full_page=True)


class Browser:
    """The running browser."""

    def __init__(self, driven: sync_api.Browser) -> None:
        self._driven = driven
        self._context: sync_api.BrowserContext | None = None

    def open(self, path: Path, screen: Screen) -> Page:
        """Open a file in a page of its own, listening from before it is loaded to after it; the one before is gone."""
        if self._context is not None:
            self._context.close()
        # No viewport of Playwright's: the screen is set by the page, and again when it changes.
        context = self._context = self._driven.new_context(no_viewport=True)
        context.set_default_timeout(1000.0 * SILENCE_SECONDS)
        page = Page(context.new_page())
        page.show_on(screen)
        page.driven.goto(path.as_uri(), wait_until="load")
        return page


@contextmanager
def running(path: str) -> Iterator[Browser]:
    """A browser with a profile of its own, which is gone with it."""
    with sync_api.sync_playwright() as playwright:
        driven = playwright.chromium.launch(executable_path=path, args=list(_OPTIONS))
        try:
            yield Browser(driven)
        finally:
            driven.close()
