"""Files that commands write: asked for before the work begins, whole or not there, private where they must be.

A file is written beside its place under another name, and takes its place when all of it is on the disk. So what was
there before stays until then, and a full disk leaves nothing half written behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from deltaplane.errors import DeltaplaneError

__all__ = ["NO_ROOM", "PRIVATE", "OutputFile", "OutputRefused", "check_output", "mode_of", "write_text"]

PRIVATE = 0o600
"""Mode of files with raw rows, ids or secrets."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""Errors of a write that no program can help."""


class OutputRefused(DeltaplaneError):
    """A file that a command is to write cannot be written."""


class OutputFile:
    """A file that is being written, as a context manager; it is there once :meth:`keep` has been called.

    ``what`` names the option that asked for it. ``mode``: of a new file; None is what everybody's new files have, and
    an old file's mode stays unless it is given. Raises :class:`OutputRefused`, at once where the file cannot be there,
    and at the end of the block where the disk was full.
    """

    def __init__(self, path: Path, what: str, mode: int | None = None) -> None:
        self._what, self._named = what, path
        # Whoever writes to a link means what it leads to.
        self._path = Path(os.path.realpath(path))
        self._partial: Path | None = None
        self._opened: IO[bytes] | None = None
        try:
            found = self._path.stat() if self._path.exists() else None
            if found is not None and stat.S_ISDIR(found.st_mode):
                raise OutputRefused(f"{what}: expected a file, got the directory {str(path)!r}; name a file in it")
            if found is not None and not stat.S_ISREG(found.st_mode):
                # A device or a pipe: nothing can take its place.
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
            raise self._refused(fault) from None

    @property
    def file(self) -> IO[bytes]:
        """What to write to."""
        assert self._opened is not None, "it is open from the beginning"
        return self._opened

    def keep(self) -> None:
        """Put the file in its place, all of it on the disk."""
        self.file.flush()
        if self._partial is not None:
            os.fsync(self.file.fileno())
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
            raise self._refused(error) from None

    def _clear(self) -> None:
        if self._opened is not None:
            # What could not be written is on its way out.
            with contextlib.suppress(OSError):
                self._opened.close()
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)

    def _refused(self, fault: OSError) -> OutputRefused:
        cure = {
            errno.ENOENT: "make the directory first",
            errno.ENOTDIR: "part of the path is a file",
            errno.ENOSPC: "make room on that disk, or name another place; what was there before is as it was",
        }.get(fault.errno or 0, "name another place")
        return OutputRefused(f"{self._what}: {str(self._named)!r} cannot be written: {fault.strerror}; {cure}")


def _mode(found: os.stat_result | None, mode: int | None) -> int:
    if mode is not None:
        return mode
    if found is not None:
        return stat.S_IMODE(found.st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def check_output(path: Path | None, what: str) -> None:
    """Raise :class:`OutputRefused` where a file could not be written: before the work, not after."""
    if path is not None and not (path.exists() and not path.is_file() and not path.is_dir()):
        with OutputFile(path, what):
            pass


def write_text(path: Path, text: str, what: str, mode: int | None = None) -> None:
    """Write a text as a file, whole. Raises :class:`OutputRefused`."""
    with OutputFile(path, what, mode) as output:
        output.file.write(text.encode())
        output.keep()


def mode_of(path: Path) -> int:
    """The mode of a file, for one that is made from it."""
    return stat.S_IMODE(path.stat().st_mode)
