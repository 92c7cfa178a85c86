"""Where bytes come from: a file or standard input, compressed by gzip or not, read once and forward.

``gzip.GzipFile`` loses what it has unpacked last when a file was cut off. Here all of that is handed out first and the
error comes behind it, so that the rows before the cut stand.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from deltaplane_services.readers.bounds import BLOCK_BYTES
from deltaplane_services.readers.live import LivePipe
from deltaplane_services.readers.row_blocks import ReaderError

__all__ = ["GZIP_MAGIC", "ByteSource", "Bytes", "open_source"]

GZIP_MAGIC = b"\x1f\x8b"
_OTHER_ARCHIVES = (
    (re.compile(rb"PK\x03\x04"), "a zip archive", "unzip"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "compressed by bzip2", "bunzip2"),
    (re.compile(rb"\xfd7zXZ\0"), "compressed by xz", "unxz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed by zstd", "unzstd"),
)


class Bytes(Protocol):
    """Something to read bytes from: at most ``size`` of them, none at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""


class ByteSource:
    """The bytes of one file or pipe after unpacking, with a look ahead, and how far the packed file has been read."""

    def __init__(self, stream: BinaryIO | LivePipe, name: str, *, close: bool) -> None:
        self.name = name
        self.stream = stream
        self.is_live = isinstance(stream, LivePipe)
        self.notes: list[str] = []
        """What a reader has found out about the file, or taken for granted, in words for its user."""
        self.bytes_total = _size(stream)
        """Bytes of the file itself, None where it is a pipe."""
        self._close = close
        self._copy: IO[bytes] | None = None
        self._counted = _CountedBytes(stream, name)
        self._bytes: Bytes = self._counted
        self._ahead = b""
        self.is_packed = self.peek(2) == GZIP_MAGIC
        if self.is_packed:
            self._counted.push_back(self._ahead)
            self._bytes, self._ahead = _Unpacked(self._counted, name), b""
        self.refuse_other_archives()

    @property
    def bytes_read(self) -> int:
        """Bytes of the file itself, packed or not, read so far."""
        return self._counted.bytes_read

    def note_share_read(self, share: float) -> None:
        """Let :attr:`bytes_read` be a share of the whole, where the file is not read from front to back."""
        self._counted.bytes_read = round((self.bytes_total or 0) * share)

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end, left where they are; a fault waits until it is read up to.

        Of a live pipe fewer where they hold a whole line: more may not come for hours.
        """
        with suppress(ReaderError):
            while len(self._ahead) < size and not (self.is_live and b"\n" in self._ahead):
                more = self._bytes.read(size - len(self._ahead))
                if not more:
                    break
                self._ahead += more
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """At most ``size`` of the next bytes, none at the end."""
        if not self._ahead:
            return self._bytes.read(size)
        # The first block must not be as short as the look ahead: readers infer from it what the rows are like.
        taken = self.peek(size)
        self._ahead = self._ahead[len(taken) :]
        return taken

    def seekable_stream(self) -> IO[bytes]:
        """The unpacked bytes from the start, to be read in any order: the file itself, or a temporary copy of a
        pipe.
        """
        if not isinstance(self.stream, LivePipe) and self.stream.seekable() and not self.is_packed:
            self.stream.seek(0)
            return self.stream
        if self._copy is None:
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
            while data := self.read(BLOCK_BYTES):
                self._copy.write(data)
        self._copy.seek(0)
        return self._copy

    def refuse_other_archives(self) -> None:
        """Raise ReaderError where the bytes are an archive of another kind, naming the tool that unpacks it."""
        beginning = self.peek(16)
        for magic, what, tool in _OTHER_ARCHIVES:
            if magic.match(beginning):
                raise ReaderError(f"{self.name} is {what}; only gzip is unpacked here. Unpack it with `{tool}` first.")

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._copy is not None:
            self._copy.close()
        if self._close and not isinstance(self.stream, LivePipe):
            self.stream.close()


def _size(stream: BinaryIO | LivePipe) -> int | None:
    if isinstance(stream, LivePipe) or not stream.seekable():
        return None
    position = stream.tell()
    size = stream.seek(0, os.SEEK_END) - position
    stream.seek(position)
    return size


class _CountedBytes:
    """The bytes of the file itself, counted."""

    def __init__(self, stream: BinaryIO | LivePipe, name: str) -> None:
        self._stream = stream
        self._name = name
        self._pushed_back = b""
        self.bytes_read = 0

    def push_back(self, data: bytes) -> None:
        self._pushed_back = data

    def read(self, size: int) -> bytes:
        if self._pushed_back:
            data, self._pushed_back = self._pushed_back, b""
            return data
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise ReaderError(f"{self._name} cannot be read on after {self.bytes_read} bytes: {error}.") from error
        self.bytes_read += len(data)
        return data


class _Unpacked:
    """The text inside a gzip file of one or more members; zero bytes after the last one are padding."""

    def __init__(self, packed: Bytes, name: str) -> None:
        self._packed = packed
        self._name = name
        self._waiting = b""
        self._member: zlib._Decompress | None = zlib.decompressobj(wbits=31)
        self._bytes_unpacked = 0

    def read(self, size: int) -> bytes:
        while True:
            self._waiting = self._waiting or self._packed.read(BLOCK_BYTES // 4)
            at_end = not self._waiting
            if self._member is None:
                if at_end:
                    return b""
                self._waiting = self._waiting.lstrip(b"\0")
                if not self._waiting:
                    continue
                self._member = zlib.decompressobj(wbits=31)
            text = self._unpack(self._member, size)
            if text:
                self._bytes_unpacked += len(text)
                return text
            if at_end and self._member is not None:
                raise self._damaged("it ends in the middle", "It was probably cut off on its way; fetch it again.")

    def _unpack(self, member: zlib._Decompress, size: int) -> bytes:
        try:
            text = member.decompress(self._waiting, size)
        except zlib.error as error:
            raise self._damaged(f"{error}", "Fetch or compress it again.") from error
        self._waiting = member.unconsumed_tail
        if member.eof:
            self._waiting, self._member = member.unused_data, None
        return text

    def _damaged(self, how: str, remedy: str) -> ReaderError:
        return ReaderError(
            f"{self._name} is not a whole gzip file: {how}, after {self._bytes_unpacked} bytes of text. {remedy}"
        )


def open_source(source: str | os.PathLike[str] | BinaryIO | LivePipe) -> ByteSource:
    """The bytes of a path, of standard input (``-``), of an open binary stream or of a live pipe.

    Raises ReaderError where there is no such file, it is a directory, may not be read, or is an archive other than
    gzip.
    """
    if not isinstance(source, str | os.PathLike):
        return ByteSource(source, str(getattr(source, "name", "the stream")), close=False)
    if source == "-":
        return ByteSource(sys.stdin.buffer, "standard input", close=False)
    path = Path(source)
    try:
        stream = path.open("rb")
    except IsADirectoryError:
        raise ReaderError(f"{path} is a directory; name one data file in it, for example {path}/data.csv.") from None
    except FileNotFoundError:
        raise ReaderError(f"There is no file {path}.{_a_near_name(path)}") from None
    except OSError as error:
        raise ReaderError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        opened = ByteSource(stream, str(path), close=True)
        if path.suffix == ".gz" and not opened.is_packed:
            came = opened.peek(4)
            raise ReaderError(
                f"{path} is not a gzip file, though its name says so: it should start with 1f 8b and starts with "
                f"{came.hex(' ') or 'nothing'}. If something has unpacked it already, take `.gz` off its name."
            )
    except BaseException:
        stream.close()
        raise
    return opened


def _a_near_name(path: Path) -> str:
    try:
        near = difflib.get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1, cutoff=0.7)
    except OSError:
        return f" Its directory {path.parent} cannot be read either."
    return (
        f" There is {path.parent / near[0]}: is that the one?"
        if near
        else " Check the path; it is taken from where you are."
    )
