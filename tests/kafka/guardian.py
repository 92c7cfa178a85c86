"""Brokers that die with the test run, however it ends.

A finalizer ends them when the run ends in an ordinary way. It does nothing when the run is killed (SIGKILL, the default
action of SIGTERM, a crash of an extension), and a leaked broker keeps its ports, its memory and its files. So a shell
stands by: it holds the reading end of a pipe whose writing end only the run has, and when the pipe closes it kills what
it was last told of. It sits in a session of its own, out of reach of a terminal's interrupt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from kafka.prepared import Process

_STOPPED_OR_ENDED = frozenset("TtZX")
_POLL_SECONDS = 0.002

_SCRIPT = """
trap '' HUP INT TERM
groups=
while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Guardian:
    """Kills process groups when the process that made it is no more."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, groups: Iterable[int]) -> None:
        """Have ``groups``, and no others, killed if this process ends."""
        assert self._shell.stdin is not None
        # A guardian killed by somebody else is no reason to fail a test.
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write((" ".join(str(group) for group in groups) + "\n").encode())
            self._shell.stdin.flush()

    def dismiss(self) -> None:
        """End the guardian; nothing is killed."""
        self.watch([])
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to ``process``, which leads its own group, and to all it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def freeze(process: Process) -> None:
    """Stop ``process`` and all it started; return when it has stopped, for until then its threads go on answering."""
    signal_group(process, signal.SIGSTOP)
    if not hasattr(os, "waitid"):  # On macOS before Python 3.13.
        return
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # One that was prepared is the child of another process.
        state = Path(f"/proc/{process.pid}/stat")
        with contextlib.suppress(OSError):
            while state.read_text("ascii", "replace").rpartition(")")[2].split()[0] not in _STOPPED_OR_ENDED:
                time.sleep(_POLL_SECONDS)
