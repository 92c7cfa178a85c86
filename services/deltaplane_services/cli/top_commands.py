"""The command ``top``: the live stream in the terminal."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated

import typer

from deltaplane_services.cli.shared_options import AsJson, within

__all__ = ["live"]


def live(
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="HOST:PORT",
            help="Where a service has its metrics; may be repeated, also with commas. Default: those"
            " that answer on this machine, at ports 9108 to 9123.",
        ),
    ] = None,
    interval_seconds: Annotated[float, typer.Option(callback=within(0.1, 60.0), help="Time between two frames.")] = 1.0,
    stream: Annotated[str | None, typer.Option(help="Which stream, if the services are of several.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, with rates over one interval; exit code 1 if none answers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the live stream in the terminal, from the services' own metrics; no broker is asked. q ends it.

    deltaplane top --at worker-1:9108 --at merger-1:9108,merger-2:9108 --at scorer-1:9108
    """
    from rich.console import Console

    from deltaplane_services.definition_file.knobs import Knobs
    from deltaplane_services.observe.health import PORTS_OF_A_MACHINE
    from deltaplane_services.observe.top.draw import draw
    from deltaplane_services.observe.top.gather import Address, Gatherer
    from deltaplane_services.observe.top.history import History
    from deltaplane_services.observe.top.live_screen import watch
    from deltaplane_services.observe.top.snapshot import frame_of
    from deltaplane_services.system.printable import json_text

    texts = [text for item in at or () for text in item.split(",") if text.strip()] or list(at or ())
    first = Address.of(Knobs().metrics_address)
    near = [Address(first.host, first.port + at) for at in range(PORTS_OF_A_MACHINE)]
    gatherer = Gatherer([Address.of(text) for text in texts] or near, looks_around=not texts)
    # What a service says of itself is never read as markup.
    console, history = Console(highlight=False, markup=False, emoji=False), History()
    if not (once or as_json):
        if not console.is_terminal:
            raise typer.BadParameter("standard output is no terminal; say --once or --json")
        watch(gatherer, history, stream, interval_seconds, console)
        return
    history.see(gatherer.gather())
    time.sleep(interval_seconds)
    history.see(gatherer.gather())
    frame = frame_of(history, stream)
    if as_json:
        typer.echo(json_text(dataclasses.asdict(frame)))
    else:
        console.print(draw(frame, history, console.width))
    if not frame.answering:
        raise typer.Exit(1)
