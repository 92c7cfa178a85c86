"""Apache Kafka itself, as processes of this machine: one node or three, started, killed, frozen and started again.

Real brokers from the project's own release, in KRaft mode, each node a broker and a controller in one Java process. A
node counts as started when it says so in its log: by then it is registered, unfenced and answering, whatever protocol
its clients must speak; an open port says less.

    with KafkaCluster.start(directory, nodes=3) as cluster:
        client = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        cluster.kill(2)
        cluster.restart(2)

A cluster ends with its ``with`` block, else with the object, else with the process; see guardian.py for the last.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka import distribution
from kafka.distribution import Distribution
from kafka.errors import KafkaNotStarted
from kafka.guardian import Guardian, freeze, signal_group
from kafka.properties import HOST, NodePorts, broker_properties

START_TIMEOUT_SECONDS = 300.0
"""How long a node may take to start before it is given up. Two seconds are usual; this bounds a hang, nothing else."""

STOP_TIMEOUT_SECONDS = 120.0
"""How long a node may take to stop in an orderly way before it is killed."""

_STARTED = b"Kafka Server started"
_POLL_SECONDS = 0.02

# Below what Linux, macOS and Windows hand out for outgoing connections. A client that keeps calling a dead node at a
# port of that range is in the end given that very port, and connects to itself.
_PORTS = range(20_000, 32_000)
_given_ports: set[int] = set()


@dataclass
class _Node:
    number: int
    ports: NodePorts
    home: Path
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    log_start: int = 0
    """Where in the log the present run of the node begins."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> Path:
        return self.home / "node.log"

    def log_of_this_run(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read()


class KafkaCluster:
    """Real Kafka. Nodes are numbered from 1; made by :meth:`start`."""

    def __init__(self, kafka: Distribution, nodes: Iterable[_Node], flags: Sequence[str] | None = None) -> None:
        self._kafka = kafka
        self._nodes = {node.number: node for node in nodes}
        self._flags = flags
        self._guardian = Guardian()
        self._finalizer = weakref.finalize(self, _end, self._nodes, self._guardian)

    @classmethod
    def start(
        cls,
        directory: Path,
        nodes: int = 1,
        *,
        base_port: int | None = None,
        client_protocol: str = "PLAINTEXT",
        properties: Mapping[str, str] | None = None,
        classes: Path | None = None,
    ) -> Self:
        """Start a cluster of ``nodes`` nodes with its files in ``directory`` and return it when every node is up.

        ``base_port``: node n takes three ports from ``base_port + 10 * (n - 1)`` on, clients the first; by default free
        ones are found. ``client_protocol``: what clients speak (``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT``,
        ``SASL_SSL``); its settings go into ``properties``, under ``listener.name.client.``. ``properties``: added to
        those of every node, and stronger. ``classes``: a directory of compiled Java that the nodes are run with beside
        Kafka's own (a policy, an authorizer).

        Raises :class:`KafkaUnavailable` where Kafka cannot be had, :class:`KafkaNotStarted` with the ends of the logs
        where it does not come up.
        """
        kafka = distribution.prepare()
        if not kafka.class_archive.exists():
            _archive_classes(kafka)
        if classes is not None:
            kafka = replace(kafka, jars=(*kafka.jars, classes))
        ports = _ports(nodes, base_port)
        made = _lay_out(kafka, directory, ports, client_protocol, properties or {})
        cluster = cls(kafka, made)
        try:
            cluster._start(made)
        except BaseException:
            # Whoever asked never gets to hold it, and could not stop it.
            cluster.stop()
            raise
        return cluster

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, running or not, as ``bootstrap.servers`` wants them."""
        return ",".join(f"{HOST}:{node.ports.client}" for node in self._nodes.values())

    @property
    def bootstrap_inside(self) -> str:
        """Addresses by which brokers talk: in the clear, and whoever comes in there is one of them."""
        return ",".join(f"{HOST}:{node.ports.broker}" for node in self._nodes.values())

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of all nodes, which are also their broker identifiers."""
        return tuple(self._nodes)

    @property
    def alive(self) -> tuple[int, ...]:
        """The numbers of the nodes whose process exists, frozen or not."""
        return tuple(node.number for node in self._nodes.values() if node.alive)

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where the nodes keep their files, logs included."""
        return tuple(node.home for node in self._nodes.values())

    def process_id(self, node: int) -> int:
        """The process of a live node."""
        process = self._nodes[node].process
        assert process is not None, f"node {node} was never started"
        return process.pid

    def kill(self, node: int) -> None:
        """End a node by SIGKILL, as a power cut would, and wait until it is gone."""
        _kill(self._nodes[node])
        self._tell_guardian()

    def stop_node(self, node: int) -> None:
        """Stop a node as an operator would (SIGTERM: it hands its leaderships over and syncs its logs)."""
        self.resume(node)
        process = self._nodes[node].process
        if process is not None:
            signal_group(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_SECONDS)
        self.kill(node)

    def restart(self, node: int) -> None:
        """Start a node again on what is on its disk, stopping it first if it runs; return when it is up.

        Raises :class:`KafkaNotStarted`.
        """
        self.stop_node(node)
        self._start([self._nodes[node]])

    def pause(self, node: int) -> None:
        """Freeze a node (SIGSTOP): its connections stay open and nothing is answered."""
        process = self._nodes[node].process
        if process is not None:
            freeze(process)
            self._nodes[node].frozen = True

    def resume(self, node: int) -> None:
        """Let a frozen node go on; any other is left as it is."""
        process = self._nodes[node].process
        if process is not None and self._nodes[node].frozen:
            signal_group(process, signal.SIGCONT)
            self._nodes[node].frozen = False

    def restore(self) -> None:
        """Bring every node back: frozen ones go on, dead ones start again. Raises :class:`KafkaNotStarted`."""
        for node in self.nodes:
            self.resume(node)
        self._start([node for node in self._nodes.values() if not node.alive])

    def log_tail(self, node: int, lines: int = 30) -> str:
        """Return the last lines of a node's log."""
        log = self._nodes[node].log
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"

    def stop(self) -> None:
        """End every node at once. What is on disk is as a power cut leaves it. May be called again."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, nodes: Sequence[_Node]) -> None:
        for node in nodes:
            self._launch(node)
        self._await(nodes)

    def _launch(self, node: _Node) -> None:
        assert self._finalizer.alive, "this cluster was stopped for good: start another"
        node.log_start = node.log.stat().st_size if node.log.exists() else 0
        command = self._kafka.command(node.home, ["kafka.Kafka", "server.properties"], self._flags)
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                command,
                cwd=node.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node.frozen = False
        self._tell_guardian()

    def _await(self, nodes: Sequence[_Node]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        waiting = list(nodes)
        while waiting:
            # Looked at in this order: a node that dies after it was up is not a node that did not come up.
            dead = [node.number for node in waiting if not node.alive]
            waiting = [node for node in waiting if _STARTED not in node.log_of_this_run()]
            dead = [number for number in dead if number in {node.number for node in waiting}]
            if dead:
                raise KafkaNotStarted(self._complaint(f"node {dead[0]} ended instead of starting"))
            if waiting and time.monotonic() > deadline:
                numbers = [node.number for node in waiting]
                raise KafkaNotStarted(self._complaint(f"nodes {numbers} not up in {START_TIMEOUT_SECONDS:.0f} s"))
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _complaint(self, what: str) -> str:
        tails = [f"--- end of {node.log}:\n{self.log_tail(node.number)}" for node in self._nodes.values()]
        return "\n".join([f"Kafka {distribution.kafka_version()}: {what}.", *tails])

    def _tell_guardian(self) -> None:
        self._guardian.watch(node.process.pid for node in self._nodes.values() if node.process and node.alive)


def _end(nodes: Mapping[int, _Node], guardian: Guardian) -> None:
    """Kill all and dismiss the guardian. A function of the module: a finalizer must not hold its object."""
    for node in nodes.values():
        if node.process is not None:
            signal_group(node.process, signal.SIGKILL)
    for node in nodes.values():
        _kill(node)
    guardian.dismiss()


def _kill(node: _Node) -> None:
    if node.process is not None:
        signal_group(node.process, signal.SIGKILL)
        node.process.wait()
        node.frozen = False


def _ports(nodes: int, base_port: int | None) -> dict[int, NodePorts]:
    if base_port is not None:
        firsts = [base_port + 10 * index for index in range(nodes)]
        return {number: NodePorts(p, p + 1, p + 2) for number, p in enumerate(firsts, start=1)}
    return {number: NodePorts(free_port(), free_port(), free_port()) for number in range(1, nodes + 1)}


def free_port() -> int:
    """Return a port that nothing listens on and that was not returned before: its node may be down for a while."""
    for _ in range(1000):
        port = secrets.choice(_PORTS)
        if port in _given_ports:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            # Not a port whose last connections are still being forgotten, either: Java sets this option, so must we.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            _given_ports.add(port)
            return port
    raise KafkaNotStarted(f"no free port found between {_PORTS.start} and {_PORTS.stop - 1} of {HOST}")


def _lay_out(
    kafka: Distribution,
    directory: Path,
    ports: Mapping[int, NodePorts],
    client_protocol: str,
    properties: Mapping[str, str],
) -> list[_Node]:
    """Write what each node needs to start: its properties and a formatted data directory with its own identity."""
    cluster_id = _identity()
    nodes = []
    for number in ports:
        home = directory.absolute() / f"node-{number}"
        home.mkdir(parents=True)
        settings = {**broker_properties(number, ports, client_protocol), **properties}
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        (home / "server.properties").write_text("".join(lines), encoding="latin-1")
        shutil.copytree(kafka.formatted, home / "data")
        identity = f"version=1\ncluster.id={cluster_id}\nnode.id={number}\ndirectory.id={_identity()}\n"
        (home / "data" / "meta.properties").write_text(identity)
        nodes.append(_Node(number, ports[number], home))
    return nodes


def _identity() -> str:
    """Return a random identifier in Kafka's spelling: 16 bytes in URL-safe Base64 without padding."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def _archive_classes(kafka: Distribution) -> None:
    """Run a broker once and have Java keep the classes it loaded. Where Java does not, brokers start slower."""
    with tempfile.TemporaryDirectory(dir=kafka.class_archive.parent, prefix="archiving-") as name:
        made = Path(name) / "classes.jsa"
        nodes = _lay_out(kafka, Path(name), _ports(1, None), "PLAINTEXT", {})
        with KafkaCluster(kafka, nodes, [f"-XX:ArchiveClassesAtExit={made}"]) as cluster:
            cluster._start(nodes)
            cluster.stop_node(1)
        if made.exists():
            made.replace(kafka.class_archive)
