"""A headless Chromium that opens a file and tells what happened: messages, requests, sizes, pictures.

It is driven over its DevTools protocol by two pipes, so that nothing but Chromium itself has to be installed.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

NAMED = "DELTAPLANE_TEST_CHROMIUM"
SILENCE_SECONDS = 120
"""After this a browser is taken for dead. It says something every few milliseconds, so this decides no test."""

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


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

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        """Evaluate an expression in the page, and return its value."""
        answer = self.browser.call(
            "Runtime.evaluate", self.session, expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def show_on(self, screen: Screen) -> None:
        """Look at the page on another screen; two frames later it is laid out and drawn."""
        self.browser.call(
            "Emulation.setDeviceMetricsOverride",
            self.session,
            width=screen.width,
            height=screen.height,
            deviceScaleFactor=1,
            mobile=screen.mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": screen.scheme}
        self.browser.call("Emulation.setEmulatedMedia", self.session, features=[scheme])
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", self.session, type=kind, key=key)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place on the screen."""
        self.browser.call("Input.dispatchMouseEvent", self.session, type="mouseMoved", x=x, y=y)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        answer = self.browser.call("Page.captureScreenshot", self.session, format="png", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def note(self, event: dict[str, Any]) -> None:
        """Keep what a test wants to know of an event."""
        method, what = event["method"], event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(what["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(what["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(json.dumps(what["entry"]))


class Browser:
    """The running browser. Calls are answered in order; events that come between are given to the open page."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._to = cast("IO[bytes]", process.stdin)
        self._from = cast("IO[bytes]", process.stdout)
        self._process = process
        self._numbers = itertools.count(1)
        self._rest = b""
        self._page: Page | None = None

    def open(self, path: Path, screen: Screen) -> Page:
        """Open a file in a page of its own, listening from before it is loaded to after it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        page.requests.clear()
        page.show_on(screen)
        self.call("Page.navigate", session, url=path.as_uri())
        loaded = "new Promise(done => document.readyState === 'complete' ? done(1) : addEventListener('load', done))"
        while page.ask("location.href") == "about:blank":
            pass
        page.ask(f"{loaded}.then(() => 1)")
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            if self._page is not None and answer.get("sessionId") == self._page.session and "method" in answer:
                self._page.note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], SILENCE_SECONDS)
            assert ready, f"the browser has said nothing for {SILENCE_SECONDS} seconds"
            part = self._from.read1(2**16)  # type: ignore[attr-defined]
            assert part, f"the browser ended with code {self._process.wait()}"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextmanager
def running(path: str) -> Iterator[Browser]:
    """A browser with a profile of its own, which is gone with it."""
    with tempfile.TemporaryDirectory(prefix="deltaplane-browser-", ignore_cleanup_errors=True) as profile:
        # The protocol is spoken on file descriptors 3 and 4.
        command = ("sh", "-c", 'exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1', "sh", path)
        with subprocess.Popen(
            [*command, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            browser = Browser(process)
            try:
                yield browser
                browser.call("Browser.close")
            finally:
                process.kill()
