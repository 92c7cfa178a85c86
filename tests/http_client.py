"""A server of answers in a thread, and a client that keeps its connection, as a program of somebody's would."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette

from deltaplane_services.serve.running import listening, server_of

__all__ = ["Client", "Reply", "serving"]

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status_code: int
    text: str
    headers: Mapping[str, str]

    def json(self) -> Any:
        """The body, read as JSON that any language reads."""
        return json.loads(self.text, parse_constant=_no_number)


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


class Client:
    """Requests to one server, each thread over a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections = threading.local()
        self._all: list[http.client.HTTPConnection] = []

    def get(self, path: str) -> Reply:
        """The reply to a GET."""
        return self.ask("GET", path)

    def post(
        self, path: str, json: Any = None, content: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """The reply to a POST of a value as JSON, or of bytes."""
        body = _dumped(json) if content is None else content
        return self.ask("POST", path, body.encode() if isinstance(body, str) else body, headers or {})

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """The reply to one request."""
        connection = getattr(self._connections, "one", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            self._connections.one = connection
            self._all.append(connection)
        connection.request(method, path, body, dict(headers or {}))
        reply = connection.getresponse()
        text = reply.read().decode()
        if reply.will_close:
            self.hang_up()
        return Reply(reply.status, text, {name.lower(): value for name, value in reply.getheaders()})

    def hang_up(self) -> None:
        """Close the connection of this thread."""
        if (connection := getattr(self._connections, "one", None)) is not None:
            connection.close()
            self._connections.one = None

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._all:
            connection.close()


def _dumped(value: Any) -> str:
    return json.dumps(value)


@contextmanager
def serving(app: Starlette) -> Iterator[Client]:
    """A client of a server that runs in a thread."""
    server, listener = server_of(app), listening("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    client = Client(listener.getsockname()[1])
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not server.started and time.monotonic() < until:
            time.sleep(0.005)
        assert server.started, "the server has not begun"
        yield client
    finally:
        client.close()
        server.should_exit = True
        thread.join()
        listener.close()
