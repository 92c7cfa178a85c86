"""The services of a run as real processes: started by their command lines, killed, frozen, and watched."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka import prepared
from kafka.guardian import Guardian, freeze, signal_group

REFUSED = 2
"""The exit code of a service that says in its last line why it cannot go on."""

TOO_EARLY = re.compile(r"_ALL_BROKERS_DOWN|_TRANSPORT|_TIMED_OUT|no broker at ")
"""What the last line of a service has that found no broker when it began; its supervisor is to start it again."""

END_SECONDS = 120.0
"""How long a process that was told to end may take before the run calls it hung."""


@dataclass
class Process:
    """One life of a service. ``may_end`` are the exit codes that are no fault of it; none while it is to live.

    ``busy``: an event is being done to it. ``named``: a static member of its group, which can be shut out.
    """

    name: str
    command: str
    arguments: Sequence[str]
    process: prepared.Process
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

    def begun(self) -> bool:
        """Whether it has done any of its work."""
        said = self.said()
        return self.working() or any(word in said for word in ("elected;", "assigned partitions"))

    def came_too_early(self) -> bool:
        """Whether it ended before it had begun, since no broker answered; a supervisor starts such a service again."""
        said = self.said().splitlines()
        return self.process.poll() == REFUSED and not self.begun() and bool(said and TOO_EARLY.search(said[-1]))

    def shut_out(self) -> bool:
        """Whether it ended because another member has its name: to Kafka also after a coordinator forgot who it was."""
        return self.process.poll() == REFUSED and "this member cannot go on" in self.said()

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
        arguments = [command, *self._common, *more]
        started = Process(name, command, arguments, _begin(arguments, log), log, named="--instance" in more)
        self.every.append(started)
        self._guardian.watch(each.process.pid for each in self.every if each.alive)
        return started

    def command_line(self, command: str, *more: str) -> list[str]:
        """The command line of a service or a tool."""
        return prepared.command_line(command, *self._common, *more)

    def kill(self, process: Process) -> None:
        """SIGKILL."""
        process.may_end = frozenset({-signal.SIGKILL})
        signal_group(process.process, signal.SIGKILL)
        process.process.wait()

    def terminate(self, process: Process) -> None:
        """SIGTERM: it must end by itself, in an orderly way; one that has not begun yet dies of the signal."""
        process.may_end = frozenset({0} if process.begun() else {0, -signal.SIGTERM})
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
        """Take note of processes that ended and should not have, or ended otherwise than they should.

        As a supervisor would, start those again that ended since no broker answered when they began.
        """
        for process in self.every:
            code = process.process.poll()
            if code is not None and not process.may_end and process.came_too_early():
                process.process = _begin(process.arguments, process.log)
                self._guardian.watch(each.process.pid for each in self.every if each.alive)
            elif code is not None and code not in process.may_end and not (process.named and process.shut_out()):
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
    ("services that found no broker when they began", rf"\ndeltaplane: [^\n]*(?:{TOO_EARLY.pattern})"),
)


def _begin(arguments: Sequence[str], log: Path) -> prepared.Process:
    """Start a service, which goes on with its log where an earlier process has left it."""
    with log.open("ab") as out:
        return prepared.start(arguments, {**os.environ, "DELTAPLANE_METRICS_ADDRESS": "127.0.0.1:0"}, out, out)


def _group_exists(process: Process) -> bool:
    try:
        os.killpg(process.process.pid, 0)
    except ProcessLookupError:
        return False
    return True
