"""A stream on a real broker with services by their real command lines: started, watched, ended, never left behind.

    with Stream.made(directory, name, broker, window={"length": "all"}) as stream:
        worker = stream.start("worker")
        worker.wait_for("claimed local/0")
        stream.run("produce", file)

Processes are forked from one that has imported all of Deltaplane: see prepared.py. Each leads a group of its own, its
output goes to a file, and the ends of all of them are in the message of whatever fails inside the block. Waits have a
limit only so that a hang ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.model_listing import NoModel, newest_model
from kafka import prepared
from kafka.guardian import Guardian, signal_group

PATIENCE_SECONDS = 180.0
_POLL_SECONDS = 0.05

STREAM: Mapping[str, Any] = {
    "features": {"names": ["height", "weight", "age"]},
    "grid": {"steps": [2.0**-10] * 3},
    "classes": {"names": ["no", "yes"], "positive": "yes"},
    "window": {"length": "all"},
    "solver": {"C": 1.0},
    "partitions": 2,
}
"""The tables of a small stream; its grid spans about a million to both sides."""


@dataclass(eq=False)
class ServiceProcess:
    """A service as a process."""

    name: str
    process: prepared.Process
    path: Path

    @property
    def log(self) -> str:
        """All that it has said so far."""
        return self.path.read_text("utf-8", "replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.splitlines()[-lines:])

    def wait_for(self, pattern: str, count: int = 1) -> list[re.Match[str]]:
        """Return the matches of ``pattern`` in its log once there are ``count``; fail if it ends or none comes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found := list(re.finditer(pattern, self.log))) < count:
            assert self.running, f"{self.name} ended with {self.process.returncode} before {pattern!r}\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} never said {pattern!r} {count} times\n{self.tail()}"
            time.sleep(_POLL_SECONDS)
        return found

    def terminate(self) -> None:
        """End it as a supervisor does, and require that it ends well."""
        self.process.send_signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, f"{self.name} ended with {code} after SIGTERM\n{self.tail()}"

    def kill(self) -> None:
        """End it as a power cut does."""
        signal_group(self.process, signal.SIGKILL)
        self.process.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {PATIENCE_SECONDS:g} s\n{self.tail()}") from None


@dataclass
class Stream:
    """A stream definition in a file, the clusters it lives on, and the processes that were started for it."""

    directory: Path
    definition_file: Path
    settings: ServiceSettings
    environment: dict[str, str]
    processes: list[ServiceProcess] = field(default_factory=list)
    guardian: Guardian = field(default_factory=Guardian)

    @classmethod
    @contextlib.contextmanager
    def of(
        cls, directory: Path, name: str, broker: str, *, service: Mapping[str, Any] | None = None, **tables: Any
    ) -> Iterator[Stream]:
        """A stream of ``tables`` laid over :data:`STREAM`; ``service`` is laid over its table of that name."""
        whole = {"name": name, **STREAM, **tables, "service": {"broker": broker, **(service or {})}}
        directory.mkdir(parents=True, exist_ok=True)
        settings = resolve_settings({}, {}, whole)
        file = directory / f"{settings.site}.toml"
        file.write_text(as_toml(whole), "utf-8")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DELTAPLANE_")}
        stream = cls(directory, file, settings, environment)
        try:
            yield stream
        except BaseException as fault:
            for process in stream.processes:
                fault.add_note(f"--- {process.name} ({process.process.poll()}):\n{process.tail()}")
            raise
        finally:
            stream.close()

    @classmethod
    @contextlib.contextmanager
    def made(
        cls, directory: Path, name: str, broker: str, *, service: Mapping[str, Any] | None = None, **tables: Any
    ) -> Iterator[Stream]:
        """The same, with its topics made."""
        with cls.of(directory, name, broker, service=service, **tables) as stream:
            stream.run("topics", "create")
            yield stream

    @property
    def definition(self) -> StreamDefinition:
        return self.settings.definition

    def run(self, *arguments: str | Path, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and require its exit code."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = prepared.start(self.arguments(*arguments), {**self.environment, **environment}, output, errors)
            try:
                process.wait(4 * PATIENCE_SECONDS)
            finally:
                signal_group(process, signal.SIGKILL)
            said = [_read(file) for file in (output, errors)]
        ended = subprocess.CompletedProcess(self.line(*arguments), process.wait(), *said)
        assert ended.returncode == code, f"{arguments} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def start(self, command: str, *arguments: str, **environment: str) -> ServiceProcess:
        """Start a service."""
        name = f"{self.settings.site}-{command}-{len(self.processes)}"
        path = self.directory / f"{name}.log"
        with path.open("wb") as output:
            process = prepared.start(
                self.arguments(command, *arguments), {**self.environment, **environment}, output, output
            )
        service = ServiceProcess(name, process, path)
        self.processes.append(service)
        self.guardian.watch(one.process.pid for one in self.processes if one.running)
        return service

    def line(self, *arguments: str | Path) -> list[str]:
        """The command line of a command on this stream, for a process that is started afresh."""
        return prepared.command_line(*self.arguments(*arguments))

    def arguments(self, *arguments: str | Path) -> list[str]:
        """The arguments of a command on this stream."""
        return [*map(str, arguments), "--definition", str(self.definition_file)]

    def model(self) -> Model | None:
        """The newest model."""
        try:
            return newest_model(self.settings)
        except NoModel:
            return None

    def wait_for_model(self, so: Callable[[Model], bool], what: str) -> Model:
        """The first newest model that is ``so``; fail at once if a service ends meanwhile."""
        follower = ModelFollower(reader(self.settings, "central"), self.definition)
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while (model := follower.model) is None or not so(model):
                self.check_running()
                seen = model and (model.version, model.digest, model.positions, dict(model.totals))
                assert time.monotonic() < deadline, f"not so after {PATIENCE_SECONDS:g} s: {what}; newest: {seen}"
                follower.poll(500, _POLL_SECONDS)
            return model
        finally:
            follower.close()

    def wait_for_digest(self, digest: str, what: str) -> Model:
        """The first newest model with this digest."""
        return self.wait_for_model(lambda model: model.digest == digest, f"{what}: a model has digest {digest}")

    def exported(self) -> dict[str, Any]:
        """What ``model export`` prints."""
        model: dict[str, Any] = json.loads(self.run("model", "export").stdout)
        return model

    def check_running(self) -> None:
        """Fail if a service ended by itself."""
        for process in self.processes:
            assert process.running or process.process.returncode in {0, -signal.SIGKILL}, (
                f"{process.name} ended with {process.process.returncode}\n{process.tail()}"
            )

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.kill()
        self.guardian.dismiss()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
