"""CSV: comma, semicolon or tab between cells, RFC 4180 quotes, a header of names.

Cells are separated by a delimiter; one that begins with a quote ends at the next single quote, and two quotes inside it
are one. A quote anywhere else is an ordinary character. The first record holds the names of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deltaplane_services.readers.bounds import LINE_BYTES, RECORD_BYTES
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import read_number
from deltaplane_services.readers.layout import choose_columns, ignoring
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.saved_index import with_row_names, without_saved_index
from deltaplane_services.readers.table import Record, TableReader

__all__ = [
    "NEVER_CLOSED",
    "NOT_UTF8",
    "TEXT_AFTER_QUOTE",
    "CsvDialect",
    "ends_lines_with_newlines",
    "is_utf8",
    "open_csv",
    "quotes_enclose_cells",
]

NOT_UTF8 = "the row is not UTF-8 text"
NEVER_CLOSED = "a quote is opened and not closed"
TEXT_AFTER_QUOTE = "text follows a closing quote"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """Records of a CSV file with one delimiter."""

    delimiter: str
    quote: str = '"'

    def is_plain(self, data: bytes) -> bool:
        """Whether all records are lines: no lone carriage return, and quotes only in pairs around cells."""
        return (
            ends_lines_with_newlines(data) and is_utf8(data) and quotes_enclose_cells(data, self.delimiter, self.quote)
        )

    def record(self, data: bytes, at: int, *, final: bool) -> Record | None:
        """The record at ``at``, which may run over line ends inside quotes."""
        line_end = _after_newline(data, at)
        line = data[at:line_end].rstrip(b"\r\n")
        if not line.strip() and self.delimiter.encode() not in line:
            return Record(line_end, [])
        if b'"' not in line:
            try:
                return Record(line_end, line.decode("utf-8").split(self.delimiter))
            except UnicodeDecodeError:
                return Record(line_end, [], NOT_UTF8)
        return self._record_with_quotes(data, at, line_end, final=final)

    def _record_with_quotes(self, data: bytes, at: int, line_end: int, *, final: bool) -> Record | None:
        cells, end = _cells_with_quotes(data, at, self.delimiter.encode())
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


def ends_lines_with_newlines(data: bytes) -> bool:
    """Whether carriage returns stand only before a newline."""
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
    if quote.encode() not in data:
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


def _after_newline(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end + 1


def _cells_with_quotes(data: bytes, at: int, delimiter: bytes) -> tuple[list[bytes] | None, int | None]:
    """Cells of the record at ``at`` and where it ends: no end where a quote stays open, no cells where one is
    misplaced.
    """
    cells = []
    while True:
        if data.startswith(b'"', at):
            closing = _closing_quote(data, at + 1)
            if closing is None:
                return None, None
            cells.append(data[at + 1 : closing].replace(b'""', b'"'))
            at = closing + 1
        else:
            # All cells up to the next quoted one, or to the end of the line.
            line_end = _after_newline(data, at)
            stop = data.find(delimiter + b'"', at, line_end)
            stop = stop if stop >= 0 else at + len(data[at:line_end].rstrip(b"\r\n"))
            cells += data[at:stop].split(delimiter)
            at = stop
        if data.startswith(delimiter, at):
            at += 1
        else:
            end = _after_newline(data, at)
            return (None if data[at:end].strip(b"\r\n") else cells), end


def _closing_quote(data: bytes, at: int) -> int | None:
    while True:
        at = data.find(b'"', at)
        if at < 0:
            return None
        if not data.startswith(b'""', at):
            return at
        at += 2


def open_csv(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """Names of the features, and the row blocks; raises ReaderError where header and options do not go together."""
    cutter = LineCutter(source)
    names, delimiter = _read_names(cutter, options, source.name)
    names, has_index = with_row_names(names, cutter, CsvDialect(delimiter))
    unnamed = {f"column{position}" for position, name in enumerate(names, start=1) if not name}
    names = [name or f"column{position}" for position, name in enumerate(names, start=1)]
    options, notes = without_saved_index(names, options, names[:1] if has_index else ())
    source.notes += notes
    try:
        layout = choose_columns(names, options, source.name)
    except ReaderError as error:
        if options.header and all(_is_number(name) for name in names):
            raise ReaderError(
                f"{error} Its first line holds numbers: if that is a row, say that the file has no header."
            ) from None
        raise
    for name in unnamed.intersection(layout.feature_names if options.features is None else ()):
        raise ReaderError(
            f"The header of {source.name} gives no name to {name.replace('column', 'column ')}, which is often a "
            f"saved row number. Leave it out with `{ignoring([name])}`, or name the features to use."
        )
    return layout.feature_names, TableReader(cutter, layout, CsvDialect(delimiter), options, source).blocks()


def _read_names(cutter: LineCutter, options: ReaderOptions, where: str) -> tuple[list[str], str]:
    """Names of the columns and the delimiter; the cutter stands before the first row afterwards."""
    piece = cutter.next_piece()
    while isinstance(piece, TextBlock) and not piece.data.strip() and not piece.final:
        piece = cutter.next_piece()
    if isinstance(piece, OverlongLine):
        raise ReaderError(
            f"The first line of {where} is longer than {LINE_BYTES} bytes; a header of names was expected."
        )
    if piece is None or not piece.data.strip():
        raise ReaderError(f"{where} is empty; a header of column names and rows were expected.")
    data = piece.data
    at, line_number = 0, piece.first_line_number
    while not data[at : _after_newline(data, at)].strip():
        at, line_number = _after_newline(data, at), line_number + 1
    line = data[at : _after_newline(data, at)].rstrip(b"\r\n")
    if b"\r" in line:
        raise ReaderError(
            f"{where} ends its lines with carriage returns alone; convert it, for example with `mac2unix`."
        )
    delimiter = options.delimiter or _most_frequent_delimiter(line)
    record = CsvDialect(delimiter).record(data, at, final=True)
    if record is None or not record.cells:
        raise ReaderError(f"The first line of {where} holds no names: {record.reason if record else NEVER_CLOSED}.")
    if len(record.cells) == 1:
        raise ReaderError(
            f"{where} has one column only, {record.cells[0][:40]!r}, when cut at {delimiter!r}; a label and "
            "features were expected. If another character separates its cells, name it as the delimiter."
        )
    if not options.header:
        cutter.put_back(data[at:], line_number, unfinished=False)
        return [str(position) for position in range(1, len(record.cells) + 1)], delimiter
    cutter.put_back(data[record.end :], line_number + data.count(b"\n", at, record.end), unfinished=False)
    return [name.strip() for name in record.cells], delimiter


def _most_frequent_delimiter(line: bytes) -> str:
    outside_quotes = re.sub(rb'"[^"]*"', b"", line)
    return max(",;\t", key=lambda delimiter: outside_quotes.count(delimiter.encode()))


def _is_number(text: str) -> bool:
    try:
        read_number(text)
    except ValueError:
        return False
    return True
