"""A reader who does what a page says: one shell, one Python, one directory, from the first block to the last."""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from kafka.guardian import Guardian, signal_group
from pages.blocks import RUN, Block, blocks_of, is_like
from tidy.sources import TOP

PATIENCE_SECONDS = 120.0
"""After this a block is taken for hung. Nothing is measured by it."""

_SHOWN_LINES = 12


class Session:
    """Runs blocks. ``replaced``: words of a page, and what they are here, such as the address of the tests' broker."""

    def __init__(self, directory: Path, replaced: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.replaced = dict(replaced)
        self._module = ModuleType("__main__")
        for name in ("examples", "deploy"):
            (directory / name).symlink_to(TOP / name)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DELTAPLANE_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
        self._environment = dict(environment)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={**kept, "COLUMNS": "100", "PATH": path, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._guardian = Guardian()
        self._guardian.watch([self._shell.pid])

    def close(self) -> None:
        """End the shell, and whatever a page has left running."""
        with contextlib.suppress(ProcessLookupError):
            signal_group(self._shell, signal.SIGKILL)
        self._shell.wait()
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.stdout.close()
        self._guardian.dismiss()

    def run(self, page: Path) -> int:
        """Do all that a page says, and return how many blocks were run or written; fails at the first that is wrong."""
        try:
            return self._run(page)
        except AssertionError as fault:
            # A service that a page starts says in its own log why it has ended.
            for log in sorted(self.directory.glob("*.log")):
                lines = log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
                fault.add_note("\n".join([f"{log.name} ends with", *lines]))
            raise

    def _run(self, page: Path) -> int:
        printed, done = None, 0
        for block in blocks_of(page):
            where = f"{page.name}:{block.line}"
            if block.word == "output":
                assert printed is not None, f"{where}: an output block must stand behind a block that is run"
                assert is_like(printed, self._here(block.text)), f"{where}: expected\n{block.text}\ngot\n{printed}"
            printed = None
            if block.not_run is not None:
                continue
            if block.file is not None:
                (self.directory / self._here(block.file)).write_text(self._here(block.text), "utf-8")
            elif block.word in RUN:
                printed = self._sh(block, where) if block.word == "sh" else self._python(block, where)
            else:
                continue
            done += 1
        return done

    def _here(self, text: str) -> str:
        """A text of the page with what is another here."""
        for word, other in self.replaced.items():
            text = text.replace(word, other)
        return text

    def _python(self, block: Block, where: str) -> str:
        file = self.directory / f".{where.replace(':', '-')}.py"
        file.write_text("\n" * block.line + self._here(block.text), "utf-8")
        printed = io.StringIO()
        before = {key: os.environ.get(key) for key in self._environment}
        os.environ.update(self._environment)
        try:
            with chdir(self.directory), contextlib.redirect_stdout(printed):
                SourceFileLoader(self._module.__name__, str(file)).exec_module(self._module)
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value
        return printed.getvalue()

    def _sh(self, block: Block, where: str) -> str:
        """Run commands in the page's shell: each must end well, but for the last of a block that expects otherwise."""
        end = f"end-{secrets.token_hex(8)}"
        before, after = "trap '__failed=1' ERR; __failed=0", f"__code=$?; echo; echo {end} $__code $__failed"
        text = f"{before}\n{self._here(block.text)}\n{after}\n"
        assert self._shell.stdin is not None
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()
        printed, code, failed = self._read_to(end, where)
        well = code == block.exit_code and (block.exit_code != 0 or not failed)
        assert well, f"{where}: a command of it ended with {code or 'another code than 0'}\n{block.text}\n{printed}"
        return printed

    def _read_to(self, end: str, where: str) -> tuple[str, int, int]:
        """What is printed up to the mark, and the two numbers behind it."""
        assert self._shell.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        text = b""
        while (found := re.search(rb"\n?" + end.encode() + rb" (\d+) (\d)\n", text)) is None:
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0.0, deadline - time.monotonic()))
            shown = text.decode("utf-8", "replace")
            assert ready, f"{where}: not done after {PATIENCE_SECONDS:g} s; it printed\n{shown}"
            more = os.read(self._shell.stdout.fileno(), 65_536)
            assert more, f"{where}: the shell ended; it printed\n{shown}"
            text += more
        return text[: found.start()].decode("utf-8", "replace"), int(found[1]), int(found[2])


@contextmanager
def reading(
    directory: Path, replaced: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Session]:
    """A session in an empty directory; nothing that it has started outlives the block."""
    session = Session(directory, replaced or {}, environment or {})
    try:
        yield session
    finally:
        session.close()
