"""The pages about a stream on Kafka do what they say, read one after the other as a reader would."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator

import pytest

from kafka.selection import RunningKafka
from pages.places import ON_KAFKA
from pages.session import Session, reading
from tidy.sources import TOP

PORTS = range(9108, 9120)
"""The ports that the pages give to services for their metrics."""


@pytest.fixture(scope="module")
def session(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One reader of all these pages, with a broker, a stream name and ports of their own."""
    replaced = {"127.0.0.1:9092": kafka.bootstrap, "market": f"market-{secrets.token_hex(4)}"}
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        free = [one.getsockname()[1] for one in sockets]
    replaced |= {f"127.0.0.1:{port}": f"127.0.0.1:{other}" for port, other in zip(PORTS, free, strict=True)}
    with reading(tmp_path_factory.mktemp("pages"), replaced, {"DELTAPLANE_BROKER": kafka.bootstrap}) as opened:
        yield opened


@pytest.mark.parametrize("page", ON_KAFKA)
def test_the_page_does_what_it_says(session: Session, page: str) -> None:
    assert session.run(TOP / page) > 0
