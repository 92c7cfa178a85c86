"""A schema registry for the tests: Apicurio Registry, which speaks the API of Confluent's, from Maven, on Java 17.

It keeps what it is told in memory. What it is run from is unpacked once into the cache, beside Kafka's jars.
"""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.distribution import artifact, cache, find_java, place
from kafka.errors import KafkaNotStarted
from kafka.guardian import Guardian, freeze, signal_group

VERSION = "2.6.13.Final"
START_SECONDS = 90.0
_PATH = "apis/ccompat/v7"


class RunningRegistry:
    """A registry on a port of its own; it can be frozen."""

    def __init__(self, directory: Path) -> None:
        self._home, self._directory = _prepare(), directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._guardian = Guardian()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{_PATH}"

    def start(self) -> None:
        java, _ = find_java()
        (jar,) = self._home.glob("*-runner.jar")
        line = [java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self._directory}"]
        line += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}", "-jar", str(jar)]
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
        self._guardian.watch([self._process.pid])
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._directory / "registry.log").read_text("utf-8", "replace")[-2000:]
                raise KafkaNotStarted(f"the schema registry did not start; it said:\n{said}")
            time.sleep(0.1)

    def freeze(self) -> None:
        """Have it answer nobody; it knows what it knew when it is thawed."""
        assert self._process is not None
        freeze(self._process)

    def thaw(self) -> None:
        assert self._process is not None
        signal_group(self._process, signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            signal_group(self._process, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._guardian.dismiss()

    def _answers(self) -> bool:
        try:
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2.0)
            with contextlib.closing(asked):
                asked.request("GET", f"/{_PATH}/subjects")
                return asked.getresponse().status == 200
        except (http.client.HTTPException, OSError):
            return False


@contextmanager
def running_registry(directory: Path) -> Iterator[RunningRegistry]:
    registry = RunningRegistry(directory)
    try:
        registry.start()
        yield registry
    finally:
        registry.close()


def _prepare() -> Path:
    """What Apicurio is run from, unpacked. Raises :class:`KafkaUnavailable` where Maven cannot fetch it."""
    home = cache() / f"apicurio-{VERSION}"
    if not home.is_dir():
        packed = artifact(f"apicurio-{VERSION}-packed", f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all")
        (file,) = packed.glob("*.tar.gz")
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="unpacking-") as name:
            with tarfile.open(file) as archive:
                archive.extractall(Path(name) / "home", filter="data")
            place(Path(name) / "home", home)
    return home
