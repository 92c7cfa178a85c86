"""The picture that stays: on a screen of its own, drawn anew after every round, until interrupted."""

from __future__ import annotations

import contextlib
import time

from rich.console import Console, RenderableType
from rich.live import Live

from deltaplane_services.observe.top.draw import draw
from deltaplane_services.observe.top.gather import Gatherer
from deltaplane_services.observe.top.history import History
from deltaplane_services.observe.top.snapshot import Frame, frame_of

__all__ = ["watch"]


def watch(gatherer: Gatherer, history: History, stream: str | None, interval_seconds: float, console: Console) -> None:
    """Gather and draw until Ctrl-C. The next round begins when the interval is over, or the round before it."""
    frame: Frame | None = None

    def picture() -> RenderableType:
        # Asked for again when the window changes its size.
        return "" if frame is None else draw(frame, history, console.width, console.height)

    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(console=console, screen=True, auto_refresh=False, get_renderable=picture) as screen,
    ):
        while True:
            began = time.monotonic()
            history.see(gatherer.gather())
            frame = frame_of(history, stream)
            screen.refresh()
            time.sleep(max(0.0, interval_seconds - (time.monotonic() - began)))
