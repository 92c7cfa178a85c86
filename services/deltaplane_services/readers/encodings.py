"""The encoding of a text file, named or recognised from its first bytes, and its conversion to UTF-8.

UTF-16 is recognised by a byte-order mark, or by a zero byte beside nearly each character. If the first bytes are not
UTF-8, hold no zero byte, and none of the characters beyond ASCII among them is UTF-8, the file is taken for
Windows-1252, and a note says so; not where characters beyond ASCII mostly stand together, as those of other scripts do.
All other files are read as UTF-8.
"""

from __future__ import annotations

import codecs
import re

from deltaplane_services.readers.unpacking import Bytes

__all__ = ["UTF8", "WINDOWS", "Decoded", "is_utf8", "recognised_encoding"]

UTF8 = "utf-8"
WINDOWS = "cp1252"
_PAIRS, _MOST, _RUN_OF_WINDOWS = 16, 0.9, 2
_RUNS_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_BEYOND_ASCII_IN_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def recognised_encoding(beginning: bytes) -> str:
    """The name of the encoding that the first bytes of a file show."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if (wide := _without_mark(beginning)) is not None:
        return wide
    # The last character may be cut off.
    try:
        codecs.getincrementaldecoder(UTF8)().decode(beginning)
    except UnicodeDecodeError:
        pass
    else:
        return UTF8
    if b"\0" in beginning or _BEYOND_ASCII_IN_UTF8.search(beginning):
        return UTF8
    try:
        beginning.decode(WINDOWS)
    except UnicodeDecodeError:
        return UTF8
    return UTF8 if _are_of_another_script(beginning) else WINDOWS


def _without_mark(beginning: bytes) -> str | None:
    """UTF-16 of one byte order without a mark of it, if nearly all of the first characters are ASCII; else None."""
    even, odd = beginning[0::2], beginning[1::2]
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if len(zeros) >= _PAIRS and zeros.count(0) >= _MOST * len(zeros) and not others.count(0):
            return name
    return None


def _are_of_another_script(beginning: bytes) -> bool:
    """Whether most bytes beyond ASCII come in runs: Windows-1252 has single ones between the letters of ASCII."""
    runs = [len(run) for run in _RUNS_BEYOND_ASCII.findall(beginning)]
    return 2 * sum(length for length in runs if length > _RUN_OF_WINDOWS) > sum(runs)


def is_utf8(encoding: str) -> bool:
    """Whether bytes of this encoding are UTF-8 already."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def _mark(error: UnicodeError) -> tuple[str, int]:
    """The stand-in for bytes that are no text: a byte that is never UTF-8, so that just that row is refused."""
    assert isinstance(error, UnicodeDecodeError), "nothing but decoding asks"
    return "\udcff", error.end


codecs.register_error("deltaplane.mark", _mark)


class Decoded:
    """The bytes of a text in another encoding, converted to UTF-8; bytes that are no text become invalid UTF-8."""

    def __init__(self, source: Bytes, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("deltaplane.mark")
        self._rest = b""
        self._at_end = False

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end."""
        while not self._rest and not self._at_end:
            data = self._source.read(size)
            self._at_end = not data
            self._rest = self._decoder.decode(data, final=not data).encode(UTF8, errors="surrogateescape")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
