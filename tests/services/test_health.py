"""The health server, asked over HTTP as a supervisor and a Prometheus would."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.observe import health
from deltaplane_services.observe.health import (
    MOST_REQUESTS,
    AddressTaken,
    Answers,
    HealthServer,
    State,
    _on_a_free_port,
    serving,
)


class Process:
    """What the server is told; a test changes it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.alive = State(good=True, why="it turns")
        self.ready = State(good=False, why="rebuilding partitions [3]")
        self.answers = Answers(self.registry, lambda: self.alive, lambda: self.ready)
        Gauge("things", "How many.", ["what"], registry=self.registry).labels('a "quoted"\nlabel').set(3)


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def server(process: Process) -> Iterator[HealthServer]:
    server = HealthServer("127.0.0.1", 0, process.answers)
    yield server
    server.close()


def ask(server: HealthServer, path: str, method: str = "GET", accept: str = "") -> tuple[int, str, str]:
    """Status, content type, body."""
    connection = http.client.HTTPConnection(server.address, timeout=30)
    try:
        connection.request(method, path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def test_the_two_states_are_told_apart_and_the_body_says_why(process: Process, server: HealthServer) -> None:
    plain = "text/plain; charset=utf-8"
    assert ask(server, "/healthz") == (200, plain, "it turns\n")
    assert ask(server, "/readyz") == (503, plain, "rebuilding partitions [3]\n")
    process.alive, process.ready = State(good=False, why="hung"), State(good=True, why="serving")
    assert ask(server, "/healthz") == (503, plain, "hung\n")
    assert ask(server, "/readyz?verbose") == (200, plain, "serving\n")


def test_metrics_come_in_the_format_that_is_asked_for(server: HealthServer) -> None:
    status, kind, body = ask(server, "/metrics")
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert 'things{what="a \\"quoted\\"\\nlabel"} 3.0' in body
    status, kind, body = ask(server, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_other_paths_and_methods_are_refused_and_name_what_there_is(server: HealthServer) -> None:
    status, _, body = ask(server, "/")
    assert (status, body) == (404, "/metrics, /healthz, /readyz\n")
    assert ask(server, "/metrics", "POST")[0] == 501
    status, _, body = ask(server, "/healthz", "HEAD")
    assert (status, body) == (200, "")


def test_a_client_that_says_nothing_keeps_no_other_waiting(server: HealthServer) -> None:
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))):
        assert ask(server, "/healthz")[0] == 200


def connected(server: HealthServer, stack: ExitStack, count: int) -> list[socket.socket]:
    host, port = server.address.rsplit(":", 1)
    return [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(count)]


def test_clients_that_only_pretend_to_ask_keep_no_other_waiting_however_many_they_are(server: HealthServer) -> None:
    with ExitStack() as stack:
        slow = connected(server, stack, 3 * MOST_REQUESTS)
        for client in slow:
            with suppress(OSError):
                client.sendall(b"GET /hea")
        assert [ask(server, "/healthz")[0] for _ in range(2 * MOST_REQUESTS)] == [200] * 2 * MOST_REQUESTS
        threads = [thread.name for thread in threading.enumerate() if "process_request_thread" in thread.name]
        assert len(threads) <= MOST_REQUESTS
        assert slow[0].recv(1) == b"", "who came first has gone first"


def test_a_client_that_drips_its_question_is_hung_up_on_in_time(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.3)
    with serving(Knobs(metrics_address="127.0.0.1:0"), process.answers) as server, ExitStack() as stack:
        (client,) = connected(server, stack, 1)
        client.settimeout(0.02)
        deadline, heard = time.monotonic() + 30, None
        while heard is None and time.monotonic() < deadline:
            try:
                client.sendall(b"x")
                heard = client.recv(1)
            except TimeoutError:
                continue
            except OSError:
                heard = b""
        assert heard == b"", "each byte alone came soon enough"


class Broken(Collector):
    """Metrics that cannot be had."""

    def collect(self) -> Iterator[Metric]:
        raise RuntimeError("no metrics today")


def test_a_fault_in_the_metrics_fails_the_scrape_and_nothing_else(
    process: Process, server: HealthServer, caplog: pytest.LogCaptureFixture
) -> None:
    process.registry.register(Broken())
    with caplog.at_level(logging.ERROR), pytest.raises(http.client.RemoteDisconnected):
        ask(server, "/metrics")
    assert "no metrics today" in caplog.text
    assert ask(server, "/healthz")[0] == 200


def test_an_address_that_was_chosen_and_is_taken_is_refused_by_name(process: Process, server: HealthServer) -> None:
    knobs = Knobs(metrics_address=server.address)
    with (
        pytest.raises(AddressTaken, match=rf"{server.address}.*DELTAPLANE_METRICS_ADDRESS"),
        serving(knobs, process.answers),
    ):
        pass


def test_where_the_default_address_is_taken_the_next_port_is_used_and_named(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    # Whether the first gets it depends on what else runs here; the second never does.
    with caplog.at_level(logging.INFO), serving(Knobs(), process.answers), serving(Knobs(), process.answers) as second:
        assert ask(second, "/healthz")[0] == 200
        assert second.address != Knobs().metrics_address
        assert f"http://{second.address}/metrics" in caplog.text


def test_services_of_one_machine_take_its_ports_in_turn_and_any_other_once_all_are_taken(process: Process) -> None:
    with ExitStack() as stack:
        taken = HealthServer("127.0.0.1", 0, process.answers)
        stack.callback(taken.close)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]
        ports = [int(taken.address.rpartition(":")[2]), free]
        second = _on_a_free_port("127.0.0.1", ports, process.answers)
        stack.callback(second.close)
        assert second.address == f"127.0.0.1:{free}"
        third = _on_a_free_port("127.0.0.1", ports, process.answers)
        stack.callback(third.close)
        assert third.address not in {taken.address, second.address}
        assert ask(third, "/healthz")[0] == 200


def test_the_address_is_free_again_after_the_end(process: Process) -> None:
    with serving(Knobs(metrics_address="127.0.0.1:0"), process.answers) as first:
        address = first.address
    with serving(Knobs(metrics_address=address), process.answers) as again:
        assert again.address == address


def test_an_address_of_the_newer_internet_protocol_is_served(process: Process) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        with pytest.raises(AddressTaken):
            HealthServer("::1", 0, process.answers)
        return
    with serving(Knobs(metrics_address="[::1]:0"), process.answers) as server:
        assert server.address.startswith("[::1]:")
        assert ask(server, "/healthz")[0] == 200
