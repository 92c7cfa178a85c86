"""How a service process ends: in order when told to, with what it raised, and by force where it would hang."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from deltaplane_services.kafka import service_life
from deltaplane_services.system.interrupts import STOP_SIGNALS

SERVICE = """
import ctypes, logging, os, signal, sys, time
from deltaplane.errors import DeltaGap
from deltaplane_services.kafka import service_life
from deltaplane_services.definition_file.knobs import Knobs

def hang():
    # As the client does: in C, where Python runs no handler, and a signal ends nothing.
    libc = ctypes.CDLL(None)
    while True:
        libc.usleep(500_000)

class Service:
    def step(self, most, timeout_seconds):
        print("turn", flush=True)
        {step}

    def close(self):
        print("close", flush=True)
        {close}

logging.basicConfig(stream=sys.stdout, format="%(message)s")
service_life.run(Service(), Knobs(shutdown_timeout_seconds={seconds}))
print("end", flush=True)
"""


def ended(step: str, close: str = "pass", tell: signal.Signals | None = signal.SIGTERM) -> tuple[int, list[str]]:
    """The exit code of a service that was told to end in its first turn, and what it said.

    One that hangs is given little time to end; one that does not, more than any machine takes.
    """
    seconds = "4.0" if "hang" in step + close else "50.0"
    code = SERVICE.replace("{step}", step).replace("{close}", close).replace("{seconds}", seconds)
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    # Without a buffer: communicate() does not see what was read ahead of the first line.
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().decode().strip()]
        if tell is not None:
            process.send_signal(tell)
        out, fault = process.communicate(timeout=60)
    return process.returncode, [*said, *out.decode().split("\n"), *fault.decode().split("\n")]


@pytest.mark.parametrize("tell", STOP_SIGNALS)
def test_a_service_that_is_told_to_end_finishes_its_turn_and_closes(tell: signal.Signals) -> None:
    code, said = ended("time.sleep(0.05)", tell=tell)
    assert code == 0
    assert [line for line in said if line in ("close", "end")] == ["close", "end"]


def test_a_service_that_hangs_in_its_turn_ends_by_force_when_it_is_told_to() -> None:
    code, said = ended("hang()")
    assert code == service_life.EXIT_BY_FORCE
    assert "close" not in said


def test_a_service_that_hangs_in_close_ends_by_force() -> None:
    code, said = ended("pass", "hang()")
    assert code == service_life.EXIT_BY_FORCE
    assert "close" in said


def test_a_service_that_fails_closes_and_says_what_it_failed_of_whatever_close_says() -> None:
    code, said = ended("raise DeltaGap('the log is gone')", "raise OSError('and so is the broker')", tell=None)
    assert code == 1
    assert "close" in said
    assert said[-2] == "deltaplane.errors.DeltaGap: the log is gone"


def test_a_service_that_failed_and_hangs_in_close_ends_by_force() -> None:
    code, said = ended("raise DeltaGap('the log is gone')", "hang()", tell=None)
    assert code == service_life.EXIT_BY_FORCE
    assert "close" in said
