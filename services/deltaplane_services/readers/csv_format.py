"""CSV: a delimiter between cells, RFC 4180 quotes, a header of names.

A cell that begins with a quote ends at the next quote that is not doubled; a doubled quote inside it stands for one.
Blanks may stand around the quotes. A quote anywhere else is an ordinary character. The first record holds the names of
the columns. If a file is written otherwise, that is declared, or recognised from its beginning (:mod:`.csv_head`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from deltaplane_services.readers.bounds import RECORD_BYTES
from deltaplane_services.readers.row_blocks import BLANKS, ESCAPED_QUOTE, NO_QUOTE, ReaderOptions
from deltaplane_services.readers.table import Record

__all__ = [
    "NEVER_CLOSED",
    "NOT_UTF8",
    "TEXT_AFTER_QUOTE",
    "CsvDialect",
    "after_newline",
    "ends_lines_with_newlines",
    "is_utf8",
    "quotes_enclose_cells",
]

NOT_UTF8 = "the row is not UTF-8 text"
NEVER_CLOSED = "a quote is opened and not closed"
TEXT_AFTER_QUOTE = "text follows a closing quote"

_FOOTER = re.compile(
    rb"\s*(?:\([0-9]+ rows?(?: affected| selected)?\)|[0-9]+ rows? (?:in set|selected|affected)\b.*)\s*"
)
"""A line that clients of databases write below a table, such as ``(3 rows)``."""

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the records of a CSV file are written.

    ``blanks``: runs of spaces and tabs separate cells, instead of the ``delimiter``. ``quote`` is empty if there are no
    quotes. ``escaped``: a backslash stands before a quote inside a cell. Lines that begin with ``comment`` are skipped.
    """

    delimiter: str
    quote: str = '"'
    escaped: bool = False
    comment: bytes = b""
    blanks: bool = False

    @classmethod
    def of(cls, options: ReaderOptions, delimiter: str) -> CsvDialect:
        """The dialect of the options, with this delimiter."""
        escaped = options.quote == ESCAPED_QUOTE
        quote = '"' if escaped else "" if options.quote == NO_QUOTE else options.quote
        comment = (options.comment or "").encode()
        blanks = delimiter == BLANKS
        return cls(" " if blanks else delimiter, quote, escaped, comment, blanks)

    def is_plain(self, data: bytes) -> bool:
        """Whether all records are lines: no comment, no lone carriage return, and quotes only in pairs around cells."""
        if self.comment and (data.startswith(self.comment) or b"\n" + self.comment in data):
            return False
        if self.quote and (self.blanks or (self.escaped and b"\\" in data)) and self.quote.encode() in data:
            return False
        return (
            ends_lines_with_newlines(data) and is_utf8(data) and quotes_enclose_cells(data, self.delimiter, self.quote)
        )

    def tidied(self, data: bytes) -> bytes:
        """The plain lines, with a single space for each run of blanks if blanks separate cells."""
        if not self.blanks:
            return data
        return b"\n".join(b" ".join(line.split()) for line in data.split(b"\n"))

    def record(self, data: bytes, at: int, *, final: bool) -> Record | None:
        """The record at ``at``, which may run over line ends inside quotes; None if it does not end in ``data``."""
        line_end = after_newline(data, at)
        line = data[at:line_end].rstrip(b"\r\n")
        if not line.strip() and (self.blanks or self.delimiter.encode() not in line):
            return Record(line_end, [])
        if (self.comment and line.startswith(self.comment)) or (b"row" in line and _FOOTER.fullmatch(line)):
            return Record(line_end, [])
        if self.blanks:
            return self._record_of_blanks(line, line_end)
        if not self.quote or self.quote.encode() not in line:
            try:
                return Record(line_end, line.decode("utf-8").split(self.delimiter))
            except UnicodeDecodeError:
                return Record(line_end, [], NOT_UTF8)
        return self._record_with_quotes(data, at, line_end, final=final)

    def _record_of_blanks(self, line: bytes, line_end: int) -> Record:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return Record(line_end, [], NOT_UTF8)
        if not self.quote or self.quote not in text:
            return Record(line_end, text.split())
        quote = re.escape(self.quote)
        cells = re.findall(rf"{quote}((?:[^{quote}]|{quote}{quote})*){quote}(?=\s|\Z)|(\S+)", text)
        return Record(line_end, [bare or quoted.replace(2 * self.quote, self.quote) for quoted, bare in cells])

    def _record_with_quotes(self, data: bytes, at: int, line_end: int, *, final: bool) -> Record | None:
        cells, end = self._cells_with_quotes(data, at)
        if end is None and not final and len(data) - at <= RECORD_BYTES:
            return None
        if end is None or end - at > RECORD_BYTES:
            return Record(line_end, [], NEVER_CLOSED)
        if cells is None:
            return Record(line_end, [], TEXT_AFTER_QUOTE)
        try:
            return Record(end, [cell.decode("utf-8") for cell in cells])
        except UnicodeDecodeError:
            return Record(end, [], NOT_UTF8)

    def _cells_with_quotes(self, data: bytes, at: int) -> tuple[list[bytes] | None, int | None]:
        """(cells of the record at ``at``, its end); no end if a quote stays open, no cells if a quote is misplaced."""
        delimiter, quote = self.delimiter.encode(), self.quote.encode()
        cells = []
        blanks = re.compile(rb"[ \t]*") if self.delimiter != "\t" else re.compile(rb" *")
        while True:
            opening = _end_of(blanks, data, at)
            if data.startswith(quote, opening) and (opening == at or self._is_whole(data, opening, blanks)):
                closing = self._closing_quote(data, opening + 1)
                if closing is None:
                    return None, None
                cells.append(self._unquoted(data[opening + 1 : closing]))
                at = closing + 1
                behind = _end_of(blanks, data, at)
                if data.startswith((delimiter, b"\n", b"\r"), behind) or behind == len(data):
                    at = behind
            else:
                # All cells up to the next quoted one, or to the end of the line.
                line_end = after_newline(data, at)
                quoted = re.compile(re.escape(delimiter) + blanks.pattern + re.escape(quote)).search(data, at, line_end)
                stop = quoted.start() if quoted else at + len(data[at:line_end].rstrip(b"\r\n"))
                cells += data[at:stop].split(delimiter)
                at = stop
            if data.startswith(delimiter, at):
                at += 1
            else:
                end = after_newline(data, at)
                return (None if data[at:end].strip(b"\r\n") else cells), end

    def _is_whole(self, data: bytes, opening: int, blanks: re.Pattern[bytes]) -> bool:
        """Whether the quote behind blanks encloses all of its cell, in its line; else it is an ordinary character."""
        closing = self._closing_quote(data, opening + 1)
        if closing is None or closing >= after_newline(data, opening):
            return False
        behind = _end_of(blanks, data, closing + 1)
        return data.startswith((self.delimiter.encode(), b"\n", b"\r"), behind) or behind == len(data)

    def _unquoted(self, cell: bytes) -> bytes:
        quote = self.quote.encode()
        cell = cell.replace(2 * quote, quote)
        return _ESCAPED.sub(rb"\1", cell) if self.escaped else cell

    def _closing_quote(self, data: bytes, at: int) -> int | None:
        quote = self.quote.encode()
        while True:
            at, begun = data.find(quote, at), at
            if at < 0:
                return None
            if self.escaped:
                backslashes = at - begun - len(data[begun:at].rstrip(b"\\"))
                if backslashes % 2:
                    at += 1
                    continue
            if not data.startswith(2 * quote, at):
                return at
            at += 2


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return found.end() if found else at


def ends_lines_with_newlines(data: bytes) -> bool:
    """Whether every carriage return stands before a newline."""
    return b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8 text."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def quotes_enclose_cells(data: bytes, delimiter: str, quote: str) -> bool:
    """Whether quotes come in pairs, one before and one behind a whole cell of one line, and nowhere else."""
    if not quote or quote.encode() not in data:
        return True
    characters = np.frombuffer(data, dtype=np.uint8)
    at = np.flatnonzero(characters == ord(quote))
    if len(at) % 2:
        return False
    opening, closing = at[0::2], at[1::2]
    before = characters[np.maximum(opening - 1, 0)]
    behind = characters[np.minimum(closing + 1, len(characters) - 1)]
    newlines = np.flatnonzero(characters == ord("\n"))
    return bool(
        np.all((before == ord(delimiter)) | (before == ord("\n")) | (opening == 0))
        and np.all(
            (behind == ord(delimiter)) | (behind == ord("\n")) | (behind == ord("\r")) | (closing == len(data) - 1)
        )
        and np.array_equal(np.searchsorted(newlines, opening), np.searchsorted(newlines, closing))
    )


def after_newline(data: bytes, at: int) -> int:
    """The beginning of the line after the one at ``at``."""
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end + 1
