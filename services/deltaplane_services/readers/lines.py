"""Cut a stream of bytes into blocks of whole lines, in bounded memory whatever the lines are.

Lines end at a newline and are numbered from 1. A line that is longer than allowed is passed over as it is read and
yields only its beginning. A byte-order mark is no part of the first. A reader that finds a record unfinished at the
end of a block puts its lines back, and gets them again with more behind them.
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from deltaplane_services.readers import bounds
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.row_blocks import ReaderError
from deltaplane_services.readers.unpacking import Bytes

__all__ = ["LineCutter", "OverlongLine", "TextBlock", "count_newlines"]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Whole lines; the last one lacks its line end where the file does. Nothing can be added to a ``final`` block."""

    first_line_number: int
    data: bytes
    final: bool


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that was passed over, and how it begins."""

    line_number: int
    beginning: bytes


def count_newlines(data: bytes) -> int:
    """As ``bytes.count`` does, which takes several times as long where lines are short."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))


class LineCutter:
    """Blocks of whole lines, one after another, of about :data:`~.bounds.BLOCK_BYTES` each."""

    def __init__(self, source: Bytes) -> None:
        self._source = source
        self._live = isinstance(source, ByteSource) and source.is_live
        # Lines behind the head of a live pipe, which wait for nothing.
        self._waits = True
        self._line_number = 1
        self._at_beginning = True
        self._carry = b""
        self._unread = b""
        self._fault: ReaderError | None = None
        self._cut_already: deque[TextBlock | OverlongLine] = deque()
        self._looked_at: TextBlock | OverlongLine | None = None

    def look_ahead(self, lines: int = 0) -> TextBlock | OverlongLine | None:
        """The next block or overlong line, which is left where it is. Raises as :meth:`next_piece` does.

        With ``lines`` the block is longer until it has so many or takes :data:`~.bounds.MATRIX_BYTES`, if what follows
        are lines and does not come from a live pipe.
        """
        piece = self._looked_at or self._cut_next()
        while isinstance(piece, TextBlock) and not piece.final and not self._live:
            if count_newlines(piece.data) >= lines or len(piece.data) >= bounds.MATRIX_BYTES:
                break
            try:
                more = self._cut_next()
            except ReaderError:  # It is kept, and raised when more is asked for.
                piece = replace(piece, final=True)
                break
            if more is None:
                break
            if isinstance(more, OverlongLine):
                self._cut_already.appendleft(more)
                piece = replace(piece, final=True)
                break
            piece = TextBlock(piece.first_line_number, piece.data + more.data, more.final)
        self._looked_at = piece
        return piece

    def next_piece(self) -> TextBlock | OverlongLine | None:
        """The next block or overlong line, None at the end. Raises ReaderError where the source does, adding the
        line.
        """
        piece, self._looked_at = self._looked_at, None
        return piece or self._cut_next()

    def _cut_next(self) -> TextBlock | OverlongLine | None:
        if self._cut_already:
            return self._cut_already.popleft()
        if self._fault is not None:
            raise self._fault
        waits, self._waits = self._waits, True
        if not waits and (cut := self._carry.rfind(b"\n") + 1):
            block, self._carry = self._carry[:cut], self._carry[cut:]
            return self._block(block, final=False)
        while True:
            try:
                chunk = self._read()
            except ReaderError as fault:
                return self._lines_before(fault)
            if not chunk:
                block, self._carry = self._carry, b""
                return self._block(block, final=True) if block else None
            begun = len(self._carry) - (self._carry.rfind(b"\n") + 1)
            line_end = chunk.find(b"\n")
            if begun + (line_end if line_end >= 0 else len(chunk)) > bounds.LINE_BYTES:
                self._pass_over(chunk, begun)
                return self._cut_already.popleft()
            if line_end >= 0:
                cut = chunk.rfind(b"\n") + 1
                block, self._carry = self._carry + chunk[:cut], chunk[cut:]
                return self._block(block, final=False)
            self._carry += chunk

    def put_back(self, lines: bytes, first_line_number: int, *, unfinished: bool = True) -> None:
        """Join the last lines of the latest block to what comes next; where nothing does, they come again by
        themselves, and of a live pipe also where they are not ``unfinished``: what comes next may take hours.
        """
        self._waits = unfinished or not self._live
        assert not self._cut_already, "lines are put back before the next piece is asked for"
        assert self._looked_at is None, "lines are put back before the next piece is looked at"
        self._carry = lines + self._carry
        self._line_number = first_line_number

    def _lines_before(self, fault: ReaderError) -> TextBlock:
        """The whole lines that came before the source failed; the fault is raised when more is asked for."""
        lines, self._carry = self._carry[: self._carry.rfind(b"\n") + 1], b""
        block = self._block(lines, final=True)
        self._fault = ReaderError(f"{fault} Whole lines before line {self._line_number} were read.")
        self._fault.__cause__ = fault
        if not lines:
            raise self._fault
        return block

    def _block(self, data: bytes, *, final: bool) -> TextBlock:
        block = TextBlock(self._line_number, data, final)
        self._line_number += count_newlines(data)
        return block

    def _pass_over(self, chunk: bytes, begun: int) -> None:
        """Queue the lines before an overlong one, which began ``begun`` bytes before ``chunk``, and that line's
        beginning.
        """
        start = len(self._carry) - begun
        lines_before, beginning = self._carry[:start], (self._carry[start:] + chunk)[: 4 * bounds.REFUSED_TEXT]
        self._carry = b""
        if lines_before:
            self._cut_already.append(self._block(lines_before, final=True))
        self._cut_already.append(OverlongLine(self._line_number, beginning))
        self._line_number += 1
        while chunk and b"\n" not in chunk:
            chunk = self._read()
        self._unread = chunk[chunk.find(b"\n") + 1 :]

    def _read(self) -> bytes:
        if self._unread:
            chunk, self._unread = self._unread, b""
            return chunk
        chunk = self._source.read(bounds.BLOCK_BYTES)
        if self._at_beginning:
            self._at_beginning = False
            return chunk.removeprefix(codecs.BOM_UTF8)
        return chunk
