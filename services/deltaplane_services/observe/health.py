"""What a service says of itself over HTTP: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for a supervisor.

``/healthz`` asks whether the process should be killed and started again: its loop has turned lately. ``/readyz`` asks
whether it does its work; a process that is not ready is left alone, it will get there. Both answer 200 or 503, and the
body says why. Everything is asked of callables; this module knows of no service.

The server has threads of its own. They end with the process, and do not keep it from ending. By default it listens on
this machine only: nothing here asks who is asking.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.knobs import Knobs

__all__ = [
    "MOST_REQUESTS",
    "PLAIN",
    "PORTS_OF_A_MACHINE",
    "REQUEST_SECONDS",
    "ROOM_SECONDS",
    "AddressTaken",
    "Answers",
    "HealthServer",
    "State",
    "serving",
]

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
"""How long a client may take to ask, from its first byte to its last; and again to take the answer."""

PORTS_OF_A_MACHINE = 16
"""The default port and those behind it: where services that share a machine listen, and ``top`` looks for them."""

MOST_REQUESTS = 8
"""Connections at once. One more takes the place of whoever has been asking for longest, or is hung up on if all are
being answered."""

ROOM_SECONDS = 0.2
"""How long the thread of a connection that was hung up on may take to end."""

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class State:
    """Whether it is so, and why, in words for whoever is called out of bed."""

    good: bool
    why: str


@dataclass(frozen=True)
class Answers:
    """What the server asks: the metrics, and the two states. Called from the server's threads."""

    registry: Collector
    alive: Callable[[], State]
    ready: Callable[[], State]


class AddressTaken(DeltaplaneError):
    """Metrics cannot be served where they should be."""


class HealthServer:
    """Serves until closed. Port 0 takes any free one. Raises :class:`AddressTaken`."""

    def __init__(self, host: str, port: int, answers: Answers) -> None:
        try:
            self._server = _Server(host, port, answers)
        except OSError as fault:
            raise AddressTaken(
                f"metrics_address {host}:{port}: expected a free address of this machine, got: {fault.strerror};"
                " give every process its own (DELTAPLANE_METRICS_ADDRESS)"
            ) from fault
        # The server asks ten times a second whether to stop, so that closing does not wait; that costs next to nothing.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="deltaplane-health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """HOST:PORT it listens on."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def serving(knobs: Knobs, answers: Answers) -> Iterator[HealthServer]:
    """Serve at ``metrics_address`` for a while.

    Where that is the default and taken, as it is for the second service on a machine, the next free port is used and
    named in the log: one of those that ``top`` looks at, or else any. Raises :class:`AddressTaken` if an address
    that was chosen cannot be had.
    """
    host, port = knobs.metrics_host_and_port()
    try:
        server = HealthServer(host, port, answers)
    except AddressTaken:
        if knobs.metrics_address != Knobs().metrics_address:
            raise
        server = _on_a_free_port(host, range(port + 1, port + PORTS_OF_A_MACHINE), answers)
        logger.warning("%s is taken; give every service its own metrics_address", knobs.metrics_address)
    logger.info("metrics at http://%s/metrics, health at /healthz and /readyz", server.address)
    try:
        yield server
    finally:
        server.close()


def _on_a_free_port(host: str, ports: Iterable[int], answers: Answers) -> HealthServer:
    for port in ports:
        try:
            return HealthServer(host, port, answers)
        except AddressTaken:
            continue
    return HealthServer(host, 0, answers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 4 * MOST_REQUESTS

    def __init__(self, host: str, port: int, answers: Answers) -> None:
        self.answers = answers
        self._places = threading.BoundedSemaphore(MOST_REQUESTS)
        # Connection to the time until which it may last, in the order in which they came: first those that still ask.
        self._asking: dict[socket.socket, float] = {}
        self._answering: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        super().__init__(place[:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Bind, without the look-up of this machine's name that the standard server makes, which may hang."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "deltaplane", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. Who only pretends to ask does not keep others from being answered."""
        if not self._places.acquire(blocking=False):
            self._hang_up_on_the_slowest()
            if not self._places.acquire(timeout=ROOM_SECONDS):
                self.shutdown_request(request)
                return
        with self._lock:
            self._asking[request] = time.monotonic() + REQUEST_SECONDS
        super().process_request(request, client_address)

    def _hang_up_on_the_slowest(self) -> None:
        with self._lock:
            if slowest := next(iter(self._asking), None):
                _hang_up(slowest)

    def service_actions(self) -> None:
        """Hang up on whoever has taken too long; called by the serving thread, several times a second."""
        now = time.monotonic()
        with self._lock:
            for late in [one for held in (self._asking, self._answering) for one, until in held.items() if now > until]:
                _hang_up(late)

    def answers_now(self, request: socket.socket) -> None:
        """A connection has asked its question."""
        with self._lock:
            self._asking.pop(request, None)
            self._answering[request] = time.monotonic() + REQUEST_SECONDS

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._asking.pop(request, None)
                self._answering.pop(request, None)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is its own business; anything else is a fault of ours and said in the log."""
        del request
        fault = sys.exc_info()
        level = logging.DEBUG if isinstance(fault[1], OSError) else logging.ERROR
        logger.log(level, "request from %s was not answered", client_address, exc_info=fault)


def _hang_up(connection: socket.socket) -> None:
    """End a connection, so that the thread that waits for it ends."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS
    server_version = "deltaplane"
    sys_version = ""

    def parse_request(self) -> bool:
        """Take the question in, all of it."""
        whole = super().parse_request()
        self.server.answers_now(self.connection)
        return whole

    def do_GET(self) -> None:
        """Answer one of the three paths."""
        answers = self.server.answers
        match self.path.partition("?")[0]:
            case "/metrics":
                self._metrics(answers.registry)
            case "/healthz":
                self._state(answers.alive())
            case "/readyz":
                self._state(answers.ready())
            case _:
                self._send(HTTPStatus.NOT_FOUND, PLAIN, b"/metrics, /healthz, /readyz\n")

    do_HEAD = do_GET  # noqa: N815 - the same.

    def _metrics(self, registry: Collector) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept") or "")
        self._send(HTTPStatus.OK, content_type, encode(registry))

    def _state(self, state: State) -> None:
        status = HTTPStatus.OK if state.good else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, PLAIN, f"{state.why}\n".encode())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the standard library has.
        """Requests are many and alike: they are not worth a line each."""
        logger.debug("%s %s", self.address_string(), format % args)
