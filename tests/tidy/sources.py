"""The project's own files, as the checks of this directory see them: a path from the top, and a text."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]

PACKAGES = {
    "deltaplane": "pipeline/deltaplane",
    "deltaplane_services": "services/deltaplane_services",
    "deltaplane_schemas": "schemas/deltaplane_schemas",
    "deltaplane_benchmarks": "benchmarks/deltaplane_benchmarks",
}
"""Installed name and place of each package."""

ROOTS = tuple(place.split("/", maxsplit=1)[0] for place in PACKAGES.values())

_LEFT_BEHIND = {"__pycache__", "dist", "build", "node_modules"}
"""Directories that a source archive may hold without being source; so are the hidden ones, but for those below."""

_HIDDEN_SOURCE = {".ci", ".github"}


@dataclass(frozen=True)
class Source:
    """A Python file: ``path`` from the top of the checkout, with slashes, and ``text``."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, filename=self.path)

    @property
    def module(self) -> str:
        """The dotted name it is imported by; for a file outside the packages, its path with dots."""
        parts = self.path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join(parts[1:] if parts[0] in ROOTS else parts)

    @property
    def package(self) -> str:
        """What a relative import in it is relative to."""
        return self.module if self.path.endswith("/__init__.py") else self.module.rpartition(".")[0]


def files(top: Path = TOP) -> list[str]:
    """Return the project's files: in a git checkout what git tracks or would track, elsewhere what a walk finds."""
    if (top / ".git").exists():
        command = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
        except (OSError, subprocess.CalledProcessError):
            pass  # No git on this machine, or one that refuses this directory: the walk serves.
        else:
            return sorted({path for path in listed if path and (top / path).is_file()})
    return sorted(_walk(top))


def _walk(top: Path) -> Iterator[str]:
    for directory, below, names in os.walk(top):
        below[:] = [n for n in below if n not in _LEFT_BEHIND and (n in _HIDDEN_SOURCE or not n.startswith("."))]
        for name in names:
            if not name.endswith(".pyc"):
                yield (Path(directory) / name).relative_to(top).as_posix()


def texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of every file that is text."""
    for path in files():
        content = (TOP / path).read_bytes()
        if b"\0" not in content:
            try:
                yield path, content.decode("utf-8")
            except UnicodeDecodeError:
                continue


def python_sources(*under: str) -> list[Source]:
    """Return the Python files below any of the directories ``under`` (all of them when none is given)."""
    return [
        source
        for source in _all_python_sources()
        if not under or source.path.startswith(tuple(f"{directory}/" for directory in under))
    ]


@functools.cache
def _all_python_sources() -> tuple[Source, ...]:
    """Every Python file, read once for all checks; each is parsed once, too, when the first check asks."""
    return tuple(Source(path, (TOP / path).read_text(encoding="utf-8")) for path in files() if path.endswith(".py"))
