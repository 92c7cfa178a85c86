"""Sources of bytes: a file or standard input, packed or not, in any encoding, read once from front to back."""

from __future__ import annotations

import codecs
import difflib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import IO, BinaryIO, cast

from deltaplane_services.readers.bounds import BLOCK_BYTES, SNIFF_BYTES
from deltaplane_services.readers.encodings import Decoded, is_utf8, recognised_encoding
from deltaplane_services.readers.live import LivePipe
from deltaplane_services.readers.row_blocks import ReaderError
from deltaplane_services.readers.unpacking import Bytes, Unpacked, UnpackedZip, UnpackedZstd

__all__ = ["PACKED_SUFFIXES", "ByteSource", "Bytes", "open_source"]

_PACKED = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\xfd7zXZ\0"), "xz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
    (re.compile(rb"PK\x03\x04"), "zip"),
)
PACKED_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
"""How names of packed files end, and how these are packed."""
_FIRST_BYTES = {"gzip": "1f 8b", "bzip2": "42 5a 68", "xz": "fd 37 7a 58 5a 00", "zstd": "28 b5 2f fd", "zip": "50 4b"}
_OTHER_ARCHIVES = (
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7z archive", "7z e"),
    (re.compile(rb"\x04\x22\x4d\x18"), "compressed by lz4", "unlz4"),
    (re.compile(rb"Rar!"), "a rar archive", "unrar e"),
    (re.compile(rb"(?=[^\0]{1,100}\0)[\s\S]{257}ustar"), "a tar archive", "tar xf"),
)
_LOOK_AT_BYTES = 263
"""Bytes that are read to recognise an archive; the mark of a tar archive lies behind its first file's name and rights.
"""


class ByteSource:
    """The unpacked bytes of one file or pipe, with a look ahead, and how far the packed file has been read.

    ``bytes_total`` is the size of the file itself, None for a pipe. ``close``: whether to close ``stream`` at the end.
    """

    def __init__(self, stream: BinaryIO | LivePipe, name: str, *, close: bool) -> None:
        self.name = name
        self.stream = stream
        self.is_live = isinstance(stream, LivePipe)
        self.bytes_total = _size(stream)
        self._start = 0 if isinstance(stream, LivePipe) or not stream.seekable() else stream.tell()
        self._close = close
        self._copy: IO[bytes] | None = None
        self._packed_copy: IO[bytes] | None = None
        self._counted = _CountedBytes(stream, name)
        self._bytes: Bytes = self._counted
        self._ahead = b""
        self.packed_as = next((kind for magic, kind in _PACKED if magic.match(self.peek(16))), None)
        self.inner_name = name
        """The name from which to tell the format: the file's without the suffix of its packing, or a zip member's."""
        self.notes: list[str] = []
        """What a reader has recognised or assumed about the file, in words for its user."""
        if self.packed_as is not None:
            self._unpack(self.packed_as)
        self.refuse_other_archives()

    def _unpack(self, kind: str) -> None:
        if kind == "zip":
            stream = self._seekable()
            counted = None if stream is None else cast("IO[bytes]", _CountedFile(stream, self._counted))
            if counted is None:
                self._packed_copy, self._copy = self._copied(), None
            zipped = UnpackedZip(counted or cast("IO[bytes]", self._packed_copy), self.name)
            self.inner_name = zipped.member_name
            self._bytes, self._ahead = zipped, b""
            return
        self._counted.push_back(self._ahead)
        self._ahead = b""
        path = PurePath(self.name)
        self.inner_name = str(path.with_suffix("")) if path.suffix.lower() in PACKED_SUFFIXES else self.name
        if kind == "zstd":
            self._bytes = UnpackedZstd(self._counted, self.name)
        else:
            self._bytes = Unpacked(self._counted, kind, self.name)

    def decode(self, encoding: str | None) -> None:
        """Convert the bytes from this encoding, or the one that is recognised, to UTF-8 from here on."""
        beginning = self.peek(SNIFF_BYTES)
        found = encoding or recognised_encoding(beginning)
        if is_utf8(found):
            self._ahead = self._ahead.removeprefix(codecs.BOM_UTF8)
            return
        if encoding is None:
            self.notes.append(f"read as {found}, which its bytes look like; say another with `--encoding`")
        self.convert(lambda rest: Decoded(rest, found))

    def convert(self, converted: Callable[[Bytes], Bytes]) -> None:
        """Give the next bytes as ``converted`` makes them of what they are now."""
        self._bytes, self._ahead = converted(_Ahead(self._ahead, self._bytes)), b""

    def again(self) -> ByteSource | None:
        """The same bytes from the start, to be read before this source is read on; None for a pipe."""
        if (stream := self._seekable()) is None:
            return None
        return ByteSource(cast("BinaryIO", _SecondReader(stream, self._start)), self.name, close=False)

    @property
    def bytes_read(self) -> int:
        """The bytes of the file itself, packed or not, that have been read so far."""
        return self._counted.bytes_read

    def note_share_read(self, share: float) -> None:
        """Set :attr:`bytes_read` to a share of the whole, for a file that is not read from front to back."""
        self._counted.bytes_read = round((self.bytes_total or 0) * share)

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or fewer at the end, which are not consumed; an error waits until it is read up to.

        Of a live pipe there may be fewer if they hold a whole line, since more may not come for hours.
        """
        with suppress(ReaderError):
            while len(self._ahead) < size and not (self.is_live and b"\n" in self._ahead):
                more = self._bytes.read(size - len(self._ahead))
                if not more:
                    break
                self._ahead += more
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """At most ``size`` of the next bytes; none at the end."""
        if not self._ahead:
            return self._bytes.read(size)
        # The first block must not be as short as the look ahead, since readers infer from it what rows look like.
        taken = self.peek(size)
        self._ahead = self._ahead[len(taken) :]
        return taken

    def seekable_stream(self) -> IO[bytes]:
        """The unpacked bytes from the start, to be read in any order: the file itself, or a temporary copy."""
        if self.packed_as is None and (stream := self._seekable()) is not None:
            stream.seek(0)
            return stream
        return self._copied()

    def _seekable(self) -> BinaryIO | None:
        """The file itself, or None if it is a pipe."""
        return None if isinstance(self.stream, LivePipe) or not self.stream.seekable() else self.stream

    def _copied(self) -> IO[bytes]:
        if self._copy is None:
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
            while data := self.read(BLOCK_BYTES):
                self._copy.write(data)
        self._copy.seek(0)
        return self._copy

    def refuse_other_archives(self) -> None:
        """Raise ReaderError, with the tool that unpacks it, if the bytes are an archive of a kind not read here."""
        beginning = self.peek(_LOOK_AT_BYTES)
        for magic, what, tool in _OTHER_ARCHIVES:
            if magic.match(beginning):
                raise ReaderError(
                    f"{self.name} is {what}; gzip, bzip2, xz, zstd and zip are unpacked here. Unpack it with `{tool}` "
                    "first."
                )

    def close(self) -> None:
        """Close the file; standard input stays open."""
        for copy in (self._copy, self._packed_copy):
            if copy is not None:
                copy.close()
        if self._close and not isinstance(self.stream, LivePipe):
            self.stream.close()


def _size(stream: BinaryIO | LivePipe) -> int | None:
    if isinstance(stream, LivePipe) or not stream.seekable():
        return None
    position = stream.tell()
    size = stream.seek(0, os.SEEK_END) - position
    stream.seek(position)
    return size


class _Ahead:
    """The bytes that have been looked at already, followed by the rest."""

    def __init__(self, looked_at: bytes, rest: Bytes) -> None:
        self._looked_at = looked_at
        self._rest = rest

    def read(self, size: int) -> bytes:
        if not self._looked_at:
            return self._rest.read(size)
        taken, self._looked_at = self._looked_at[:size], self._looked_at[size:]
        return taken


class _SecondReader:
    """A file that is read from a position on, while another reader keeps its own position in it."""

    def __init__(self, stream: BinaryIO, at: int) -> None:
        self._stream = stream
        self._at = at

    def read(self, size: int = -1) -> bytes:
        before = self._stream.tell()
        self._stream.seek(self._at)
        data = self._stream.read(size)
        self._at = self._stream.tell()
        self._stream.seek(before)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        before = self._stream.tell()
        self._stream.seek(self._at)
        self._at = self._stream.seek(offset, whence)
        self._stream.seek(before)
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True


class _CountedFile:
    """A file that is read in any order; the position of the last read counts as the bytes read."""

    def __init__(self, stream: BinaryIO, counted: _CountedBytes) -> None:
        self._stream = stream
        self._counted = counted

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._counted.bytes_read = self._stream.tell()
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing, since the file is closed with its source."""


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


def open_source(source: str | os.PathLike[str] | BinaryIO | LivePipe) -> ByteSource:
    """The bytes of a path, of standard input (``-``), of an open binary stream or of a live pipe.

    Raises ReaderError if there is no such file, or it is a directory, may not be read, is an archive of a kind that is
    not unpacked here, or is not packed as its name says.
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
        expected = PACKED_SUFFIXES.get(path.suffix.lower())
        if expected is not None and opened.packed_as is None:
            came = opened.peek(4)
            raise ReaderError(
                f"{path} is not a {expected} file, though its name says so: it should start with "
                f"{_FIRST_BYTES[expected]} and starts with {came.hex(' ') or 'nothing'}. If something has unpacked it "
                f"already, take `{path.suffix}` off its name."
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
