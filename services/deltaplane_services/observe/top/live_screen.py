"""The live picture: on a screen of its own, drawn again after every round, until the user quits."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deltaplane_services.observe.top.draw import HELP, draw
from deltaplane_services.observe.top.gather import Gatherer
from deltaplane_services.observe.top.history import History
from deltaplane_services.observe.top.snapshot import Frame, frame_of

__all__ = ["watch"]


def watch(gatherer: Gatherer, history: History, stream: str | None, interval_seconds: float, console: Console) -> None:
    """Gather and draw until ``q`` or Ctrl-C.

    The next round begins when the interval is over, or later if the round before has not ended. ``?`` switches between
    the picture and the explanations of its words.
    """
    frame: Frame | None = None
    helps = False

    def picture() -> RenderableType:
        # Rich calls this again when the window changes its size.
        if frame is None:
            return ""
        shown = _help() if helps else draw(frame, history, console.width, console.height - 1)
        return Group(shown, _footer(interval_seconds, helps=helps))

    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, get_renderable=picture) as screen,
    ):
        while True:
            began = time.monotonic()
            history.see(gatherer.gather())
            frame = frame_of(history, stream)
            screen.refresh()
            while (left := interval_seconds - (time.monotonic() - began)) > 0.0:
                key = keys.pressed(left)
                if key in {"q", "Q", "\x03"}:
                    return
                if key == "?":
                    helps = not helps
                    screen.refresh()


def _footer(interval_seconds: float, *, helps: bool) -> Text:
    return Text.assemble(
        ("q", "bold"),
        " quit  ",
        ("?", "bold"),
        " picture  " if helps else " words  ",
        (f"every {interval_seconds:g} s", "dim"),
    )


def _help() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for word, decoded in HELP:
        table.add_row(word, decoded)
    return table


class _Keys:
    """Single keys from a terminal, if there is one."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self, timeout_seconds: float) -> str:
        """The next key within ``timeout_seconds``; empty if none was pressed."""
        if self._descriptor is None:
            time.sleep(timeout_seconds)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_seconds)
        if not ready:
            return ""
        key = os.read(self._descriptor, 1)
        if not key:
            # The terminal is gone: nobody will press a key again.
            self._descriptor = None
        return key.decode("utf-8", "replace")


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Keys as they are pressed, without echo; afterwards the terminal is as it was before."""
    try:
        import termios
        import tty
    except ImportError:
        yield _Keys(None)
        return
    if not sys.stdin.isatty():
        yield _Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
