"""A server that runs until it is told to stop, on Uvicorn."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from deltaplane.errors import DeltaplaneError
from deltaplane_services.system.interrupts import STOP_SIGNALS

__all__ = ["KEEP_ALIVE_SECONDS", "AddressTaken", "listening", "run_server", "server_of"]

KEEP_ALIVE_SECONDS = 30
"""How long a connection may be idle between two requests."""

_CONNECTIONS = 1024
"""Connections at once; one more gets 503 and is closed."""


class AddressTaken(DeltaplaneError):
    """Answers cannot be served where they should be."""


class _Server(uvicorn.Server):
    """A server for which a signal is the end of its work, and not of its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in an orderly way at a signal; Uvicorn's own would raise the signal again behind that."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Signals are for the main thread; whoever runs a server elsewhere ends it by should_exit.
            return

        def told(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, told) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes any free one. Raises :class:`AddressTaken`."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With the protocol named, asyncio turns off Nagle's algorithm: else every answer waits 40 ms for its last part.
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(_CONNECTIONS)
        except OSError:
            listener.close()
            raise
    except OSError as fault:
        raise AddressTaken(
            f"--address {host}:{port}: expected a free address of this machine, got: {fault.strerror or fault}"
        ) from fault
    return listener


def server_of(app: Starlette, shutdown_seconds: int = 10) -> uvicorn.Server:
    """A server; when it ends, requests that are being answered have so many seconds to end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=shutdown_seconds,
    )
    return _Server(config)


def run_server(app: Starlette, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT."""
    server_of(app).run(sockets=[listener])
