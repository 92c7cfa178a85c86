"""Blocks of whole lines cut from a stream of bytes, in bounded memory whatever the lines are.

Lines end at a newline, and are numbered from 1. A line that is too long is skipped while it is read, and only its
beginning is kept. A byte-order mark does not belong to the first line. If a record is not complete at the end of a
block, the reader puts its lines back, and gets them again with more lines after them.
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
    """Whole lines; the last line of a file may lack its end. ``final``: no lines can be added to the block."""

    first_line_number: int
    data: bytes
    final: bool


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that was skipped since it is too long, and its beginning."""

    line_number: int
    beginning: bytes


def count_newlines(data: bytes) -> int:
    """The number of newlines; several times as fast as ``bytes.count`` if lines are short."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))


class LineCutter:
    """Cuts a source into blocks of whole lines, of about :data:`~.bounds.BLOCK_BYTES` each."""

    def __init__(self, source: Bytes) -> None:
        self._source = source
        self._live = isinstance(source, ByteSource) and source.is_live
        # Whether lines that were put back wait for more; those behind the head of a live pipe do not.
        self._waits = True
        self._line_number = 1
        self._at_beginning = True
        self._carry = b""
        self._unread = b""
        self._fault: ReaderError | None = None
        self._cut_already: deque[TextBlock | OverlongLine] = deque()
        self._looked_at: TextBlock | OverlongLine | None = None

    def look_ahead(self, lines: int = 0) -> TextBlock | OverlongLine | None:
        """The next block or overlong line, which :meth:`next_piece` returns again. Raises as that does.

        With ``lines``, following blocks are joined to the block until it has so many lines or takes
        :data:`~.bounds.MATRIX_BYTES`; not those of a live pipe.
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
        """The next block or overlong line; None at the end. Raises ReaderError if the source does, with the line."""
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
        """Put the last lines of the latest block back, to be joined to the next block.

        They come again by themselves at the end of the source. They also do if they are not ``unfinished`` and come
        from a live pipe, whose next lines may take hours.
        """
        self._waits = unfinished or not self._live
        assert not self._cut_already, "lines are put back before the next piece is asked for"
        assert self._looked_at is None, "lines are put back before the next piece is looked at"
        self._carry = lines + self._carry
        self._line_number = first_line_number

    def _lines_before(self, fault: ReaderError) -> TextBlock:
        """The whole lines that came before the source failed; the error is raised when more is asked for."""
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
        """Queue the lines before an overlong one, and its beginning; it began ``begun`` bytes before ``chunk``."""
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
