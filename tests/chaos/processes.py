"""The services of a run as real processes: started by their command lines, killed, frozen, and watched."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka.guardian import Guardian, freeze, signal_group

SHUT_OUT = 2
END_SECONDS = 120.0
"""How long a process that was told to end may take before the run calls it hung."""


@dataclass
class Process:
    """One life of a service. ``may_end`` are the exit codes that are no fault of it; none while it is to live.

    ``busy``: an event is being done to it. ``named``: a static member of its group, which can be shut out.
    """

    name: str
    command: str
    process: subprocess.Popen[bytes]
    log: Path
    frozen: bool = False
    busy: bool = False
    named: bool = False
    may_end: frozenset[int] = field(default_factory=frozenset)

    @property
    def alive(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self.process.poll() is None

    @property
    def usable(self) -> bool:
        """Whether something can still be done to it: it lives, is not frozen, and was not told to end."""
        return self.alive and not self.frozen and not self.busy and not self.may_end

    def said(self) -> str:
        """What it has written since it began."""
        return self.log.read_text("utf-8", "replace")

    def elected(self) -> bool:
        """Whether a merger's last word is that it was elected."""
        said = self.said()
        return said.rfind(": elected;") > said.rfind(": standing by")

    def shut_out(self) -> bool:
        """Whether it ended because another member has its name: to Kafka also after a coordinator forgot who it was."""
        return self.process.poll() == SHUT_OUT and "this member cannot go on" in self.said()

    def working(self) -> bool:
        """Whether a worker has claimed anything."""
        return ": claimed " in self.said()


class Processes:
    """Every process that a run has started; what ends unasked is a fault of the run."""

    def __init__(self, directory: Path, definition: Path, bootstrap: str) -> None:
        self.faults: list[str] = []
        self.every: list[Process] = []
        self._directory = directory
        self._common = ["--definition", str(definition), "--broker", bootstrap]
        self._guardian = Guardian()

    def start(self, name: str, command: str, *more: str) -> Process:
        """Start ``deltaplane COMMAND`` under a name; each life has a log of its own."""
        lives = sum(each.name == name for each in self.every)
        log = self._directory / f"{name}.{lives + 1}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.command_line(command, *more),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "DELTAPLANE_METRICS_ADDRESS": "127.0.0.1:0"},
            )
        started = Process(name, command, process, log, named="--instance" in more)
        self.every.append(started)
        self._guardian.watch(each.process.pid for each in self.every if each.alive)
        return started

    def command_line(self, command: str, *more: str) -> list[str]:
        """The command line of a service or a tool."""
        return [sys.executable, "-m", "deltaplane_services", command, *self._common, *more]

    def kill(self, process: Process) -> None:
        """SIGKILL."""
        process.may_end = frozenset({-signal.SIGKILL})
        signal_group(process.process, signal.SIGKILL)
        process.process.wait()

    def terminate(self, process: Process) -> None:
        """SIGTERM: it must end by itself, in an orderly way; one that has not begun yet dies of the signal."""
        begun = process.working() or "elected;" in process.said() or "assigned partitions" in process.said()
        process.may_end = frozenset({0} if begun else {0, -signal.SIGTERM})
        signal_group(process.process, signal.SIGTERM)

    def freeze(self, process: Process) -> None:
        """SIGSTOP."""
        process.frozen = True
        freeze(process.process)

    def resume(self, process: Process) -> None:
        """SIGCONT."""
        process.frozen = False
        signal_group(process.process, signal.SIGCONT)

    def watch(self) -> None:
        """Take note of processes that ended and should not have, or ended otherwise than they should."""
        for process in self.every:
            code = process.process.poll()
            if code is not None and code not in process.may_end and not (process.named and process.shut_out()):
                tail = "\n".join(process.said().splitlines()[-12:])
                self.faults.append(f"{process.name} ended with code {code}; it said last:\n{tail}")
                process.may_end = frozenset({code})

    def end(self) -> None:
        """End everything in an orderly way, then by force, and see that nothing is left."""
        living = [process for process in self.every if process.alive]
        for process in living:
            self.resume(process)
            self.terminate(process)
        for process in living:
            try:
                process.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.faults.append(f"{process.name} did not end within {END_SECONDS:g} s of SIGTERM")
                self.kill(process)
        self.watch()
        self.faults += [f"{process.name} left a process behind" for process in self.every if _group_exists(process)]
        self._guardian.dismiss()

    @contextlib.contextmanager
    def none_left(self) -> Iterator[None]:
        """Kill every process of a run that fails."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Kill whatever is left, without a word: the run has failed already."""
        for process in self.every:
            if process.alive:
                self.kill(process)
        self._guardian.dismiss()

    def survived(self) -> Counter[str]:
        """What the services say that they got over, over all their lives."""
        said = "\n".join(process.said() for process in self.every)
        return Counter({what: len(re.findall(pattern, said)) for what, pattern in SURVIVED})


SURVIVED: Sequence[tuple[str, str]] = (
    ("sources claimed and rebuilt from the log", r": claimed \S+ as \S+ at tile"),
    ("sources claimed again, state kept in memory", r"its state still holds"),
    ("mergers elected", r": elected;"),
    ("failures answered by claiming again", r"; claiming again in "),
    ("sessions lost", r"the group gave this worker up"),
    ("late claims answered", r"another writer has claimed them"),
    ("first records behind a gap, or fetched for another place, asked for again", r"; asking again"),
    ("sources set aside", r": source \S+ is set aside, the others go on"),
    ("sleeps noticed before anything was published", r"this process slept for"),
    ("workers shut out for good by a successor", r"this member cannot go on"),
)


def _group_exists(process: Process) -> bool:
    try:
        os.killpg(process.process.pid, 0)
    except ProcessLookupError:
        return False
    return True
