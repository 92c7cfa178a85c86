"""The contents of packed files, in bounded memory: gzip, bzip2, xz and zstd of any number of parts, zip of one member.

Each read returns at most the bytes that were asked for, however much is packed into a few bytes. If a file is damaged,
the bytes before that are returned first and then the error is raised, so that the rows before the damage are read.
"""

from __future__ import annotations

import bz2
import lzma
import zipfile
import zlib
from typing import IO, Any, Protocol, cast

from deltaplane_services.readers.bounds import BLOCK_BYTES, SNIFF_BYTES, UNPACKING_BYTES
from deltaplane_services.readers.row_blocks import ReaderError

__all__ = ["Bytes", "Unpacked", "UnpackedZip", "UnpackedZstd"]


class Bytes(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` of the next bytes; none at the end."""


class _Part(Protocol):
    """A decompressor of one part of a file: a member of gzip, a stream of bzip2 or xz."""

    eof: bool
    unused_data: bytes

    def unpack(self, data: bytes, size: int) -> bytes:
        """At most ``size`` unpacked bytes; the rest of ``data`` is then in :attr:`waiting`."""

    @property
    def waiting(self) -> bytes:
        """Packed bytes that were given and are not unpacked yet, unless the decompressor keeps them itself."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more can be unpacked without more packed bytes."""


class _GzipPart:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    def unpack(self, data: bytes, size: int) -> bytes:
        return self._inner.decompress(data, size)

    @property
    def waiting(self) -> bytes:
        return self._inner.unconsumed_tail

    @property
    def needs_input(self) -> bool:
        return True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


class _KeepingPart:
    """A decompressor of bzip2 or xz, which keeps the bytes that it was given, and says when it needs more."""

    waiting = b""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    def unpack(self, data: bytes, size: int) -> bytes:
        return self._inner.decompress(data, size)

    @property
    def needs_input(self) -> bool:
        return self._inner.needs_input

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


_FAULTS = (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)


class Unpacked:
    """The contents of a gzip, bzip2 or xz file of one or more parts; zero bytes after the last part are padding."""

    def __init__(self, packed: Bytes, kind: str, name: str) -> None:
        self._packed = packed
        self._kind = kind
        self._name = name
        self._waiting = b""
        self._part: _Part | None = self._new_part()
        self._bytes_unpacked = 0
        self._fault: ReaderError | None = None

    def _new_part(self) -> _Part:
        if self._kind == "gzip":
            return cast("_Part", _GzipPart())
        inner: Any = bz2.BZ2Decompressor() if self._kind == "bzip2" else lzma.LZMADecompressor(memlimit=UNPACKING_BYTES)
        return cast("_Part", _KeepingPart(inner))

    def read(self, size: int) -> bytes:
        """At most ``size`` unpacked bytes; none at the end. Raises ReaderError if the file is damaged."""
        if self._fault is not None:
            raise self._fault
        try:
            return self._read(size)
        except ReaderError as fault:
            self._fault = fault
            raise

    def _read(self, size: int) -> bytes:
        while True:
            part = self._part
            if not self._waiting and (part is None or part.needs_input):
                self._waiting = self._packed.read(BLOCK_BYTES // 4)
            at_end = not self._waiting
            if part is None:
                if at_end:
                    return b""
                self._waiting = self._waiting.lstrip(b"\0")
                if not self._waiting:
                    continue
                part = self._part = self._new_part()
            text = self._unpack(part, size)
            if text:
                self._bytes_unpacked += len(text)
                return text
            if at_end and self._part is not None:
                raise self._damaged("it ends in the middle", "It was probably cut off on its way; fetch it again.")

    def _unpack(self, part: _Part, size: int) -> bytes:
        try:
            text = part.unpack(self._waiting, size)
        except lzma.LZMAError as error:
            if "emory" in str(error):
                raise ReaderError(
                    f"{self._name} needs more than {UNPACKING_BYTES // 2**20} MiB to be unpacked; unpack it with "
                    "`unxz` first."
                ) from error
            raise self._damaged(f"{error}", "Fetch or compress it again.") from error
        except _FAULTS as error:
            raise self._damaged(f"{error}", "Fetch or compress it again.") from error
        self._waiting = part.waiting
        if part.eof:
            self._waiting, self._part = part.unused_data, None
        return text

    def _damaged(self, how: str, remedy: str) -> ReaderError:
        return ReaderError(
            f"{self._name} is not a whole {self._kind} file: {how}, after {self._bytes_unpacked} bytes of text. "
            f"{remedy}"
        )


class _Raw:
    """The packed bytes as a file for Arrow; an error of the file itself is kept, to be raised instead of Arrow's."""

    closed = False

    def __init__(self, packed: Bytes) -> None:
        self._packed = packed
        self.fault: ReaderError | None = None

    def read(self, size: int) -> bytes:
        try:
            return self._packed.read(min(size, BLOCK_BYTES // 4))
        except ReaderError as fault:
            self.fault = fault
            raise OSError(str(fault)) from fault

    def close(self) -> None:
        """Do nothing, since the file is closed with its source."""


class UnpackedZstd:
    """The contents of a zstd file of one or more frames, unpacked by Arrow's codec."""

    def __init__(self, packed: Bytes, name: str) -> None:
        # Imported here, so that a run that reads another kind of file does not pay for it.
        import pyarrow as pa

        self._raw = _Raw(packed)
        self._text = pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), "zstd")
        self._name = name
        self._bytes_unpacked = 0
        self._fault: ReaderError | None = None

    def read(self, size: int) -> bytes:
        """At most ``size`` unpacked bytes; none at the end. Raises ReaderError if the file is damaged."""
        pieces = []
        # At a damage Arrow loses the bytes that it was about to return, so that it is asked for little at a time.
        while size > 0 and self._fault is None:
            try:
                piece: bytes = self._text.read(min(size, SNIFF_BYTES))
            except OSError as error:
                self._fault = self._raw.fault or self._damaged(error)
                break
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        text = b"".join(pieces)
        self._bytes_unpacked += len(text)
        if not text and self._fault is not None:
            raise self._fault
        return text

    def _damaged(self, error: OSError) -> ReaderError:
        how = "it ends in the middle" if "Truncated" in str(error) else str(error)
        return ReaderError(
            f"{self._name} is not a whole zstd file: {how}, after {self._bytes_unpacked} bytes of text. Fetch or "
            "compress it again."
        )


class UnpackedZip:
    """The one member of a zip archive."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._name = name
        try:
            archive = zipfile.ZipFile(stream)
            members = [one for one in archive.infolist() if not _is_no_data(one.filename)]
        except (zipfile.BadZipFile, *_FAULTS) as error:
            raise ReaderError(f"{name} is not a whole zip archive: {error}. Fetch it again.") from error
        if any(one.filename == "[Content_Types].xml" for one in members):
            raise ReaderError(f"{name} is a spreadsheet or another office file; save the table in it as CSV.")
        if len(members) != 1:
            shown = ", ".join(one.filename for one in members[:5])
            raise ReaderError(
                f"{name} is a zip archive of {len(members)} files ({shown}), and one is read at a time. Unpack it with "
                "`unzip`, or hand one of them over: `unzip -p ARCHIVE NAME | deltaplane replay -`."
            )
        if members[0].flag_bits & 1:
            raise ReaderError(f"{name} is a zip archive under a password; unpack it with `unzip` first.")
        if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Other methods would unpack the whole member at once, however large it is.
            raise ReaderError(f"{name} is a zip archive that is not deflated; unpack it with `unzip` first.")
        self.member_name = members[0].filename
        self._fault: ReaderError | None = None
        try:
            self._text = archive.open(members[0])
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, *_FAULTS) as error:
            raise ReaderError(f"{name} cannot be unpacked here: {error}. Unpack it with `unzip` first.") from error

    def read(self, size: int) -> bytes:
        """At most ``size`` unpacked bytes; none at the end. Raises ReaderError if the archive is damaged."""
        if self._fault is None:
            try:
                return self._text.read(size)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, *_FAULTS) as error:
                self._fault = ReaderError(f"{self._name} is not a whole zip archive: {error}. Fetch it again.")
        raise self._fault


def _is_no_data(name: str) -> bool:
    """Whether a member is a directory, or a file that macOS adds to archives."""
    return name.endswith("/") or name.startswith("__MACOSX/") or name.rpartition("/")[2] == ".DS_Store"
