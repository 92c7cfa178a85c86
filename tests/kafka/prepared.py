"""Deltaplane's commands as processes of their own, begun at once: each is a fork of one that has imported everything.

Nine tenths of what a short command costs is Python importing NumPy, SciPy and the rest, and the tests of this directory
start some hundreds. So a server imports them once, for the whole run; it forks, and the fork becomes the command: a
session, an environment, files and arguments of its own, then ``python -m deltaplane_services`` from its first line to
the interpreter's end. Only what Python and glibc read from the environment before the first line is the server's, the
seed of hashes for one. What starts processes by itself (the soak, ``replay`` on Kafka) imports all anew.

The server ends with the process that began it, however that ends: it reads a socket of which only that process has the
other end. Forking a process that has loaded libraries is safe on Linux, where it has no threads; elsewhere commands are
started in the ordinary way.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

_MODULE = "deltaplane_services"
_LINE = (sys.executable, "-m", _MODULE)
HURRY = "HURRY_SILENCE"
"""A variable of the environment: the process believes in silence after seconds, not after half a minute."""

HURRIED_SECONDS = {"SILENCE_SECONDS": 4.0, "READING_SECONDS": 5.0, "PROBE_SECONDS": 2.0}
"""What silence.py has then."""

_NUMBER_BYTES = 4
_MOST_BYTES = 1 << 20
_FILES = 4
"""Standard input, output, errors, and the pipe that tells of the process."""


class Process(Protocol):
    """What a process can be asked, whoever started it: as ``subprocess.Popen``."""

    @property
    def pid(self) -> int:
        """Its number, which is that of its group, too."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, once somebody has asked for it."""

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""


def command_line(*arguments: str) -> list[str]:
    """The command line of a command of Deltaplane."""
    return [*_LINE, *arguments]


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes],
) -> Process:
    """Start a command of Deltaplane, the leader of a session, that reads nothing and writes to these files."""
    if not sys.platform.startswith("linux"):
        return subprocess.Popen(
            command_line(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
    return _server().fork(arguments, environment, output.fileno(), errors.fileno())


@functools.cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


class _Fork:
    """A process that the server made; the pipe tells its number at once, and its exit code when it has one."""

    def __init__(self, pipe: int, arguments: Sequence[str]) -> None:
        self._pipe = pipe
        self._arguments = arguments
        self.returncode: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        """As that of ``subprocess.Popen``; the same holds for the rest."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(list(self._arguments), timeout)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def _ended(self, timeout_seconds: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._pipe, select.POLLIN)
            if waiting.poll(None if timeout_seconds is None else timeout_seconds * 1000):
                self.returncode = self._read()
                os.close(self._pipe)
        return self.returncode

    def _read(self) -> int:
        content = os.read(self._pipe, _NUMBER_BYTES)
        assert len(content) == _NUMBER_BYTES, f"{self._arguments}: the server of prepared processes is gone"
        return int.from_bytes(content, "little", signed=True)


class _Server:
    """The prepared process, and the socket by which it is asked."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        with theirs:
            # Its output is nobody's, but for what goes wrong before there is a command. Threads would not be forked.
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )

    def close(self) -> None:
        """Have the prepared process end, which it does once nobody can ask it any more."""
        self._socket.close()
        self._process.wait()

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> _Fork:
        asked = json.dumps([list(arguments), dict(environment), str(Path.cwd())]).encode()
        assert len(asked) < _MOST_BYTES
        ours, theirs = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            files = array.array("i", [nothing, output, errors, theirs])
            self._socket.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        finally:
            os.close(nothing)
            os.close(theirs)
        return _Fork(ours, arguments)


def _serve(asking: socket.socket) -> list[str]:
    """Fork for everyone who asks. Return in the forks alone: their arguments."""
    while True:
        asked, files, _, _ = socket.recv_fds(asking, _MOST_BYTES, _FILES)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            asking.close()
            arguments, environment, directory = json.loads(asked)
            _tell(files)
            _become(environment, directory)
            return list(arguments)
        for file in files:
            os.close(file)


def _tell(files: Sequence[int]) -> None:
    """Return in a child that has these standard files; stay in the parent, tell of the child, and end with it."""
    pipe = files[-1]
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, file in enumerate(files[:-1]):
            os.dup2(file, number)
        for file in files:
            os.close(file)
        return
    for file in files[:-1]:
        os.close(file)
    os.write(pipe, child.to_bytes(_NUMBER_BYTES, "little", signed=True))
    _, status = os.waitpid(child, 0)
    os.write(pipe, os.waitstatus_to_exitcode(status).to_bytes(_NUMBER_BYTES, "little", signed=True))
    os._exit(0)


def _become(environment: Mapping[str, str], directory: str) -> None:
    """Take over what a process gets from whoever starts it."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    if HURRY in environment:
        hurry()


def hurry() -> dict[str, float]:
    """Have this process believe in silence soon; return what it went by before, by name."""
    silence = importlib.import_module("deltaplane_services.kafka.silence")
    before = {name: getattr(silence, name) for name in HURRIED_SECONDS}
    vars(silence).update(HURRIED_SECONDS)
    return before


def _import_everything() -> None:
    """Import what the commands import when they are called, too, but for what draws: no test here asks for that."""
    import deltaplane_services  # noqa: PLC0415 - whoever only asks for a process does not need it.

    (top,) = map(Path, deltaplane_services.__path__)
    for place in sorted(top.rglob("*.py")):
        words = place.relative_to(top.parent).with_suffix("").parts
        # The command itself runs by being imported.
        if "report" not in words and words[-1] != "__main__":
            importlib.import_module(".".join(words).removesuffix(".__init__"))
    # Typer imports the half of itself when it reads the first command line, and makes all commands.
    sys.path.append(str(Path(__file__).parents[1]))
    importlib.import_module("commands_once").install()
    sys.path.pop()
    importlib.import_module("deltaplane_services.cli.application").app(["definition", "--help"], standalone_mode=False)


if __name__ == "__main__":
    # As in an ordinary command. What stands beside this file has names that others have, too.
    sys.path[0] = str(Path.cwd())
    _import_everything()
    # A fork that collected what its parent made would copy all of it.
    gc.freeze()
    sys.argv[:] = [_MODULE, *_serve(socket.socket(fileno=int(sys.argv[1])))]
    sys.path[0] = str(Path.cwd())
    runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)
