"""An array of JSON as lines: each element on a line of its own, in bounded memory, while the file is read.

Elements are cut apart by brackets and quotes alone, so one that is no JSON costs no other. A line has the number that
the element begins at in the file, or, if several elements share a line, a number of its own.
"""

from __future__ import annotations

import re

from deltaplane_services.readers import bounds
from deltaplane_services.readers.row_blocks import ReaderError
from deltaplane_services.readers.unpacking import Bytes

__all__ = ["ArrayLines"]

_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|' + _TEXT + rb")*+([{}\[\]])?", re.DOTALL)
"""All through the next bracket, or up to a text without an end: how an element goes on."""
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _TEXT + rb")*+([{}\[\],])?", re.DOTALL)
"""The same, or through the next comma: what stands between elements."""
_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class ArrayLines:
    """The bytes of a file that holds one array, as lines; ``name`` is the file's."""

    def __init__(self, source: Bytes, name: str) -> None:
        self._source = source
        self._name = name
        self._tail = b""
        self._element: list[bytes] = []
        self._element_bytes = 0
        # The brackets that are open, of which the array's is one; None before it.
        self._depth: int | None = None
        self._line = self._begins_at = 1
        self._lines_given = 0
        self._ready = b""
        self._fault: ReaderError | None = None
        self._at_end = False

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end. Raises ReaderError if the array, or a text in it, has no end."""
        while not self._ready and not self._at_end:
            if self._fault is not None:
                raise self._fault
            data = self._source.read(size)
            if data:
                self._take(self._tail + data)
            elif self._depth == 0:
                self._at_end = True
            else:
                self._fault = ReaderError(
                    f"{self._name} ends near line {self._line}, within the array that it begins with. Fetch or write it"
                    " again."
                )
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _take(self, text: bytes) -> None:
        """Cut the elements that end in ``text``, and keep what is behind them."""
        lines, at = list[bytes](), 0
        if self._depth is None:
            at = text.find(b"[") + 1
            self._line += text.count(b"\n", 0, at)
            self._depth = 1 if at else None
        while self._depth and at < len(text):
            found = (_WITHIN if self._depth > 1 else _BETWEEN).match(text, at)
            assert found is not None, "it may match nothing, and then does"
            sign, end = found[1] or b"", found.end()
            ends_element = self._depth == 1 and sign in (b",", b"]")
            self._grow(text[at : end - ends_element])
            at = end
            if not sign:
                break
            self._depth += (sign in b"{[") - (sign in b"}]")
            if ends_element:
                self._cut(lines)
        self._tail = text[at:]
        if self._depth == 0:
            # Whatever stands behind the array is a line, too, which is refused unless it is blank.
            self._grow(self._tail)
            self._cut(lines)
            self._tail = b""
        elif len(self._tail) > bounds.LINE_BYTES:
            self._fault = ReaderError(
                f"{self._name}: a text near line {self._line} has no end within {bounds.LINE_BYTES:,} bytes, so the"
                " elements behind it cannot be told apart. Write the file again, or as JSON Lines."
            )
        self._ready = b"".join(lines)

    def _grow(self, part: bytes) -> None:
        """Add a part to the element. Its line breaks become blanks, which within JSON is the same."""
        if not self._element:
            shown = part.lstrip()
            self._begins_at = self._line + part.count(b"\n", 0, len(part) - len(shown))
        else:
            shown = part
        self._line += part.count(b"\n")
        # Of an element that is longer than a line may be, only so much is kept as shows that it is.
        if shown and self._element_bytes <= bounds.LINE_BYTES:
            self._element.append(shown.translate(_BREAKS))
            self._element_bytes += len(shown)

    def _cut(self, lines: list[bytes]) -> None:
        """Give the element as a line, behind as many empty lines as make its number right."""
        line, self._element, self._element_bytes = b"".join(self._element).strip(), [], 0
        if line:
            blanks = max(0, self._begins_at - 1 - self._lines_given)
            lines.append(b"\n" * blanks + line + b"\n")
            self._lines_given += blanks + 1
