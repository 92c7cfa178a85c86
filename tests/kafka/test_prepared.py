"""A command that is forked from a prepared process is a process like any other, and ends with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka import prepared
from kafka.clients import wait_until

TESTS = Path(__file__).parents[1]
PATIENCE_SECONDS = 60.0


def afresh(*arguments: str) -> tuple[int, bytes, bytes]:
    """The exit code, output and errors of a command whose interpreter imports everything itself."""
    ended = subprocess.run(
        prepared.command_line(*arguments), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


def forked(*arguments: str, **environment: str) -> tuple[int, bytes, bytes]:
    """The same of a fork."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        code = prepared.start(arguments, {**os.environ, **environment}, output, errors).wait(PATIENCE_SECONDS)
        output.seek(0)
        errors.seek(0)
        return code, output.read(), errors.read()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("worker", "--help"),
        ("definition", "show", "--definition", "examples/deltaplane.toml"),
        ("definition", "show", "--definition", "nowhere.toml"),
        ("replay", "-", "--definition", "examples/deltaplane.toml"),
        ("no-such-command",),
        (),
    ],
)
def test_a_fork_says_what_a_fresh_process_says_and_ends_with_its_code(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TESTS.parent)
    assert forked(*arguments) == afresh(*arguments)


def test_a_fork_has_the_environment_that_it_is_given_and_none_of_the_last_one(tmp_path: Path) -> None:
    definition = tmp_path / "stream.toml"
    definition.write_text((TESTS.parent / "examples" / "deltaplane.toml").read_text())
    line = ("topics", "check", "--definition", str(definition))
    _, _, refused = forked(*line, DELTAPLANE_POLL_RECORDS="many")
    assert b"DELTAPLANE_POLL_RECORDS" in refused
    _, _, refused = forked(*line, DELTAPLANE_POLL_TIMEOUT_SECONDS="long")
    assert b"DELTAPLANE_POLL_TIMEOUT_SECONDS" in refused
    assert b"DELTAPLANE_POLL_RECORDS" not in refused


def test_a_fork_leads_a_group_of_its_own_and_a_signal_that_ends_it_is_its_code(tmp_path: Path) -> None:
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    with (tmp_path / "output").open("wb") as output:
        process = prepared.start(["replay", str(pipe), "--label", "label"], os.environ, output, output)
    assert process.poll() is None
    wait_until(lambda: os.getsid(process.pid) == process.pid, "a session of its own")
    assert os.getpgid(process.pid) == process.pid
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(PATIENCE_SECONDS) == process.poll() == process.returncode == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="commands are forked on Linux only")
def test_the_prepared_process_ends_with_the_run_however_that_ends(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(TESTS)!r})\n"
        "from kafka import prepared\n"
        f"with open({str(tmp_path / 'output')!r}, 'wb') as output:\n"
        "    prepared.start(['--version'], os.environ, output, output).wait()\n"
        "print(prepared._server()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (tmp_path / "output").read_text().startswith("deltaplane ")
    until = time.monotonic() + PATIENCE_SECONDS
    while _runs(int(ended.stdout)):
        assert time.monotonic() < until, "the prepared process has outlived its run"
        time.sleep(0.05)


def _runs(number: int) -> bool:
    """Whether a process is there; one that has ended, and that nobody asks for, is not."""
    try:
        return ") Z " not in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
