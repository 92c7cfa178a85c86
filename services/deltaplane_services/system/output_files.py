"""Files that commands write: checked before the work begins, either whole or absent, and private if they must be.

A file is written under another name in the same directory, and renamed when all of it is on the disk. So an older file
stays until then, and a full disk leaves nothing half written behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from deltaplane.errors import DeltaplaneError

__all__ = [
    "NO_ROOM",
    "PRIVATE",
    "OutputDirectory",
    "OutputFile",
    "OutputRefused",
    "check_output",
    "mode_of",
    "write_text",
]

PRIVATE = 0o600
"""The mode of files with raw rows, ids or secrets."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""The errors of a write that only the user can mend, such as a full disk."""


class OutputRefused(DeltaplaneError):
    """A file that a command is to write cannot be written."""


class OutputFile:
    """A file that is being written, as a context manager; it exists under its name once :meth:`keep` has been called.

    ``what`` names the option that asked for it. ``mode`` is that of the file; if it is None, an older file's mode
    stays, and a new file has the usual one. Raises :class:`OutputRefused` at once if the file cannot be created, and at
    the end of the block if the disk was full.
    """

    def __init__(self, path: Path, what: str, mode: int | None = None) -> None:
        self._what, self._named = what, path
        # A link is followed, and what it leads to is replaced.
        self._path = Path(os.path.realpath(path))
        self._partial: Path | None = None
        self._opened: IO[bytes] | None = None
        try:
            found = self._path.stat() if self._path.exists() else None
            if found is not None and stat.S_ISDIR(found.st_mode):
                raise OutputRefused(f"{what}: expected a file, got the directory {str(path)!r}; name a file in it")
            if found is not None and not stat.S_ISREG(found.st_mode):
                # A device or a pipe cannot be replaced, and is written to directly.
                self._opened = self._path.open("wb")
                return
            if found is not None and not os.access(self._path, os.W_OK):
                raise OutputRefused(f"{what}: {str(path)!r} is there and may not be written to")
            descriptor, name = tempfile.mkstemp(
                prefix=f".{self._path.name[:100]}.", suffix=".partial", dir=self._path.parent
            )
            self._partial = Path(name)
            self._opened = os.fdopen(descriptor, "wb")
            self._partial.chmod(_mode(found, mode))
        except OSError as fault:
            self._clear()
            raise _refusal(self._what, self._named, fault) from None

    @property
    def file(self) -> IO[bytes]:
        """The open file to write to."""
        assert self._opened is not None, "it is open from the beginning"
        return self._opened

    def write(self, content: bytes) -> None:
        """Write to the disk, so that there is room for it."""
        self.file.write(content)
        self.file.flush()
        if self._partial is not None:
            os.fsync(self.file.fileno())

    def keep(self) -> None:
        """Write all of the file to the disk, and give it its name."""
        self.write(b"")
        if self._partial is not None:
            self._partial.replace(self._path)
            self._partial = None
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise _refusal(self._what, self._named, error) from None

    def _clear(self) -> None:
        if self._opened is not None:
            # An error of the last write has been raised already.
            with contextlib.suppress(OSError):
                self._opened.close()
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)


class OutputDirectory:
    """A directory of files that is being written, as a context manager; it is there once :meth:`keep` has been called.

    ``what`` names the option that asked for it. Raises :class:`OutputRefused` at once if the directory is there already
    or cannot be made, and at the end of the block if the disk was full.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._what, self._path = what, path
        self._partial: Path | None = None
        if path.exists():
            raise OutputRefused(f"{what}: {str(path)!r} is there already; name a directory that is not")
        try:
            self._partial = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent))
        except OSError as fault:
            raise _refusal(what, path, fault) from None

    def keep(self, files: Mapping[str, str]) -> None:
        """Write texts to the disk by their paths in the directory, and give it its name."""
        assert self._partial is not None, "it is kept once"
        for name, text in files.items():
            place = self._partial / name
            place.parent.mkdir(exist_ok=True)
            with place.open("wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        # A directory that is made for a moment is private; this one is as others are.
        self._partial.chmod(_mode(None, None) | 0o111)
        self._partial.rename(self._path)
        self._partial = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._partial is not None:
            shutil.rmtree(self._partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise _refusal(self._what, self._path, error) from None


def _refusal(what: str, path: Path, fault: OSError) -> OutputRefused:
    cure = {
        errno.ENOENT: "make the directory first",
        errno.ENOTDIR: "part of the path is a file",
        errno.ENOSPC: "make room on that disk, or name another place; what was there before is as it was",
    }.get(fault.errno or 0, "name another place")
    return OutputRefused(f"{what}: {str(path)!r} cannot be written: {fault.strerror}; {cure}")


def _mode(found: os.stat_result | None, mode: int | None) -> int:
    if mode is not None:
        return mode
    if found is not None:
        return stat.S_IMODE(found.st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def check_output(path: Path | None, what: str) -> None:
    """Raise :class:`OutputRefused` if a file cannot be written; called before the work, so that none is lost."""
    if path is not None and not (path.exists() and not path.is_file() and not path.is_dir()):
        with OutputFile(path, what):
            pass


def write_text(path: Path, text: str, what: str, mode: int | None = None) -> None:
    """Write a text as a file, whole or not at all. Raises :class:`OutputRefused`."""
    with OutputFile(path, what, mode) as output:
        output.write(text.encode())
        output.keep()


def mode_of(path: Path) -> int:
    """The mode of a file, to be given to a file that is made from it."""
    return stat.S_IMODE(path.stat().st_mode)
