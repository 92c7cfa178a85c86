"""The beginning of a CSV file: lines above its header, its delimiter, its columns, and how their numbers are written.

What is recognised, and was not declared, is noted for the summary. Nothing ambiguous is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from deltaplane_services.readers.bounds import LINE_BYTES, SAMPLE_ROWS, SNIFF_BYTES
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import AFFIXES, read_number
from deltaplane_services.readers.csv_format import NEVER_CLOSED, CsvDialect, after_newline
from deltaplane_services.readers.layout import Layout, choose_columns, ignoring, listed
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock
from deltaplane_services.readers.row_blocks import BLANKS, ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.saved_index import is_whole, without_saved_index
from deltaplane_services.readers.table import TableReader

__all__ = ["ROW_NAMES", "Head", "may_be_csv", "open_csv"]

ROW_NAMES = "row_names"
_DELIMITERS = ",;\t|"
_SEP_LINE = re.compile(rb"\"?sep=(.)\"?\s*", re.IGNORECASE)
_RULE = re.compile(rb"[-+|=,;\s]*-{3,}[-+|=,;\s]*")
"""A line of dashes between header and rows, as clients of databases write it."""
_TWICE = 2
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass
class Head:
    """What stands before the first row of a file.

    ``names`` are those of the columns, and ``rows`` the cells of the first rows. ``has_names``: they are in the file.
    ``unread`` names columns that hold nothing, and ``index`` columns that number or name the rows. ``notes`` are for
    the user.
    """

    names: list[str]
    dialect: CsvDialect
    rows: list[list[str]]
    has_names: bool = True
    unread: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def open_csv(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if header and options do not go together."""
    sample = source.peek(SNIFF_BYTES)
    sample = sample if len(sample) < SNIFF_BYTES else sample[: sample.rfind(b"\n") + 1]
    cutter = LineCutter(source)
    head = _read_head(cutter, sample, options, source.name)
    options = replace(options, header=head.has_names)
    found = _with_distinct_names(_with_unread_columns(head, options), options, source.name)
    unnamed = {f"column{position}" for position, name in enumerate(head.names, start=1) if not name}
    names = [name or f"column{position}" for position, name in enumerate(found.names, start=1)]
    wanted = {options.label, options.id, options.time, *(options.features or ())}
    unread = tuple(name for name in found.unread if name not in wanted)
    options = options.with_ignored(unread)
    options, notes = without_saved_index(names, options, [*found.index, *_index_without_name(found)])
    try:
        layout = choose_columns(names, options, source.name)
    except ReaderError as error:
        if cure := _cure_of_names(head.names, options):
            raise ReaderError(f"{error} {cure}") from None
        if options.header and any(_is_number(name) for name in head.names):
            raise ReaderError(
                f"{error} Its first line holds numbers: if it is a row and no header, say `--no-header`; columns are "
                f"named by their places then, the last one with `--label {len(names)}`."
            ) from None
        if options.header and any(_is_place(name, len(names)) for name in wanted):
            raise ReaderError(
                f"{error} If its first line is a row and no header, say `--no-header`, and columns are named by their "
                f"places, from 1 to {len(names)}."
            ) from None
        raise
    for name in unnamed.intersection(layout.feature_names if options.features is None else ()):
        raise ReaderError(
            f"The header of {source.name} gives no name to {name.replace('column', 'column ')}, which is often a "
            f"saved row number. Leave it out with `{ignoring([name])}`, or name those to use with `--features`."
        )
    layout = _with_signs(layout, found)
    source.notes += [*found.notes, *notes]
    of_numbers = options.header and 2 * sum(map(_is_number, head.names)) >= len(head.names)
    if of_numbers and not _are_counted(head.names):
        source.notes.append(
            f"the first line, taken for a header, holds numbers: {listed(head.names, 4)}; if it is a row, say "
            "`--no-header`, and columns are named by their places"
        )
    if options.look is not None and of_numbers:
        raise ReaderError(
            f"The first line of {source.name} holds numbers, {listed(head.names, 4)}: if it is a row and no header, say"
            " `--no-header`, and the columns are named by their places; else name the columns."
        )
    reader = TableReader(cutter, layout, found.dialect, options, source)
    return reader.feature_names, reader.blocks()


def _cure_of_names(names: Sequence[str], options: ReaderOptions) -> str:
    """What to do about a first line that holds no names: a comment, a title, or names that are quoted otherwise."""
    if options.header and options.quote == '"' and all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
        return 'Its names stand in single quotes: say `--quote "\'"` to have them read without.'
    if options.header and options.comment is None and names[0].startswith("#"):
        return "Its first line begins with #: if that is a comment and the names follow, say `--comment '#'`."
    if options.header and len(names) > 2 and names[0] and not any(names[1:]):
        title = names[0].split()[0]
        return f"Only the first cell of its first line is filled: if it is a title, say `--comment {title!r}`."
    return ""


def _index_without_name(head: Head) -> list[str]:
    """The first column if it has no name and numbers the rows, as in saved data frames; else no column."""
    firsts = [row[0] for row in head.rows if len(row) == len(head.names)]
    is_index = not head.names[0] and len(set(firsts)) == len(firsts) > 0 and all(map(is_whole, firsts))
    return ["column1"] if is_index else []


def _is_place(name: str | None, columns: int) -> bool:
    """Whether somebody names a column by its place, from 1."""
    return name is not None and _COUNT.fullmatch(name) is not None and 1 <= int(name) <= columns


def _are_counted(names: Sequence[str]) -> bool:
    """Whether the numbers among names count the columns, as saved arrays have them, and so are names."""
    numbers = [name.strip() for name in names if _is_number(name)]
    first = int(numbers[0]) if numbers and _COUNT.fullmatch(numbers[0]) else 0
    return numbers == [str(first + at) for at in range(len(numbers))]


def may_be_csv(beginning: bytes) -> bool:
    """Whether the first lines of a file are cells between delimiters, or equally many cells between runs of blanks."""
    lines = [line for line in beginning.split(b"\n") if line.strip() and not line.startswith(b"#")]
    if not lines:
        return False
    return any(delimiter.encode() in lines[0] for delimiter in _DELIMITERS) or _are_columns_of_blanks(lines)


def _are_columns_of_blanks(lines: Sequence[bytes]) -> bool:
    dialect = CsvDialect.of(ReaderOptions(), BLANKS)
    counts = [len(_cells(dialect, line)) for line in lines[: SAMPLE_ROWS + 1]]
    rows = counts[1:-1] or counts[1:]
    return counts[0] >= 2 and len(rows) > 0 and set(rows) in ({counts[0]}, {counts[0] + 1})


def _cells(dialect: CsvDialect, line: bytes) -> list[str]:
    record = dialect.record(line, 0, final=True)
    return [] if record is None else record.cells


def _read_head(cutter: LineCutter, sample: bytes, options: ReaderOptions, where: str) -> Head:
    """The head of the file; the cutter stands before the first row afterwards."""
    notes: list[str] = []
    (data, at, line_number), delimiter = _below_what_stands_above(cutter, sample, options, where, notes)
    line = data[at : after_newline(data, at)].rstrip(b"\r\n")
    if b"\r" in line:
        raise ReaderError(
            f"{where} ends its lines with carriage returns alone; convert it, for example with `mac2unix`."
        )
    if delimiter is None:
        delimiter = _most_frequent_delimiter(line)
        lines = [one for one in sample[_offset_of_line(sample, line_number) :].split(b"\n") if one.strip()]
        if delimiter.encode() not in line and lines and _are_columns_of_blanks(lines):
            delimiter = BLANKS
            notes.append(f"cells are separated by runs of blanks; say `--delimiter {BLANKS}` to have it so always")
    dialect = CsvDialect.of(options, delimiter)
    record = dialect.record(data, at, final=True)
    if record is None or not record.cells:
        raise ReaderError(f"The first line of {where} holds no names: {record.reason if record else NEVER_CLOSED}.")
    if len(record.cells) == 1 and options.labelled:
        raise ReaderError(
            f"{where} has one column only, {record.cells[0][:40]!r}, when cut at {delimiter!r}; a label and "
            "features were expected. If something else separates its cells, say what with `--delimiter`: a character, "
            f"or `{BLANKS}` for runs of spaces and tabs. If lines stand above the names, say what they begin with by "
            "`--comment`, or take them out."
        )
    rows = _sample_rows(sample, line_number, dialect)
    below = _sample_rows(sample, line_number, dialect, most=SNIFF_BYTES)[1:] if options.header is None else []
    bare = options.header is None and _is_a_row([cell.strip() for cell in record.cells], below, options, where)
    if bare:
        notes.append(
            f"the first line, {listed([cell.strip() for cell in record.cells], 4)}, is a row, as its cells are numbers"
            " or come again below: the columns are named by their places; say `--header` if it holds names"
        )
    if bare or options.header is False:
        cutter.put_back(data[at:], line_number, unfinished=False)
        names = [str(position) for position in range(1, len(record.cells) + 1)]
        return Head(names, dialect, rows, has_names=False, notes=notes)
    below_number = line_number + data.count(b"\n", at, record.end)
    cutter.put_back(data[record.end :], below_number, unfinished=False)
    under = _offset_of_line(sample, below_number)
    if _RULE.fullmatch(sample[under : after_newline(sample, under)]):
        data, at, below_number = _next_filled_line(cutter, where)
        below_number += 1
        cutter.put_back(data[after_newline(data, at) :], below_number, unfinished=False)
    names = [name.strip() for name in record.cells]
    return Head(names, dialect, _sample_rows(sample, below_number, dialect), notes=notes)


def _is_a_row(cells: Sequence[str], rows: Sequence[Sequence[str]], options: ReaderOptions, where: str) -> bool:
    """Whether a first line of which nobody has said what it is is a row: columns are wanted by their places alone.

    Its cells must be numbers, or come again below; names do not. Numbers that count the columns are names. Raises
    ReaderError if a number may be a name and a place.
    """
    features = set(options.features or ())
    if features and all(_is_place(name, len(cells)) for name in features) and not features.intersection(cells):
        return True
    named = (options.label, options.id, options.time, *(options.features or ()), *options.looked_for)
    wanted = {name for name in named if name is not None}
    are_places = all(_is_place(name, len(cells)) for name in wanted)
    if not wanted or not are_places:
        return False
    if not all(map(_is_number, cells)):
        return _come_again(cells, rows)
    if _are_counted(cells):
        return False
    if names := sorted(name for name in wanted.intersection(cells) if cells.index(name) + 1 != int(name)):
        raise ReaderError(
            f"The first line of {where} holds numbers, {listed(cells, 4)}: `{names[0]}` may be the name of a column, or"
            " its place. If it is a row, say `--no-header`; if it holds names, `--header`."
        )
    return True


def _come_again(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a cell that is no number is a value in two other lines of its column, and so is no name of it."""
    texts = [at for at, cell in enumerate(cells) if cell and not _is_number(cell)]
    others = [row for row in ([cell.strip() for cell in row] for row in rows) if row != cells]
    whole = [row for row in others if len(row) == len(cells)]
    return any(sum(row[at] == cells[at] for row in whole) >= _TWICE for at in texts)


def _below_what_stands_above(
    cutter: LineCutter, sample: bytes, options: ReaderOptions, where: str, notes: list[str]
) -> tuple[tuple[bytes, int, int], str | None]:
    """((data, position, number) of the first line that is no comment and no ``sep=`` line, the delimiter if known)."""
    delimiter = options.delimiter
    comments = 0
    while True:
        data, at, line_number = _next_filled_line(cutter, where)
        end = after_newline(data, at)
        line = data[at:end].rstrip(b"\r\n")
        if (sep := _SEP_LINE.fullmatch(line)) and sep[1].isascii():
            if delimiter is None:
                delimiter = sep[1].decode()
                notes.append(f"cells are cut at {delimiter!r}, as its first line says")
        elif options.comment is None and line.startswith(b"#") and _is_comment(line, sample, options):
            comments += 1
        elif options.comment is None or not line.startswith(options.comment.encode()):
            break
        cutter.put_back(data[end:], line_number + 1, unfinished=False)
    if comments:
        notes.append(
            f"lines above the header that begin with # and were passed over: {comments}; say `--comment '#'` if there "
            "are more below"
        )
    return (data, at, line_number), delimiter


def _next_filled_line(cutter: LineCutter, where: str) -> tuple[bytes, int, int]:
    """(data, position of its first line that is not blank, number of that line)."""
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
    while not data[at : after_newline(data, at)].strip():
        at, line_number = after_newline(data, at), line_number + 1
    return data, at, line_number


def _is_comment(line: bytes, sample: bytes, options: ReaderOptions) -> bool:
    """Whether a line that begins with # has another number of cells than the first line that does not."""
    lines = [one for one in sample.split(b"\n") if one.strip() and not one.startswith(b"#")]
    body = next((one for one in lines if not _SEP_LINE.fullmatch(one)), None)
    if body is None:
        return not any(delimiter.encode() in line for delimiter in _DELIMITERS)
    delimiter = options.delimiter or _most_frequent_delimiter(body)
    dialect = CsvDialect.of(options, delimiter)
    return len(_cells(dialect, line)) != len(_cells(dialect, body))


def _offset_of_line(sample: bytes, line_number: int) -> int:
    """The position of a line of the file in the sample; its end if the line is not in it."""
    at = 0
    for _ in range(line_number - 1):
        at = after_newline(sample, at)
    return at


def _sample_rows(sample: bytes, line_number: int, dialect: CsvDialect, most: int = SAMPLE_ROWS) -> list[list[str]]:
    """The cells of the first rows of the sample, from that line on."""
    at = _offset_of_line(sample, line_number)
    rows: list[list[str]] = []
    while at < len(sample) and len(rows) < most:
        record = dialect.record(sample, at, final=True)
        assert record is not None, "a final record ends"
        at = record.end
        if record.cells:
            rows.append(record.cells)
    return rows


def _with_unread_columns(head: Head, options: ReaderOptions) -> Head:
    """The head with a column for the text behind a last delimiter, or for row names that the header leaves out."""
    names, rows = head.names, head.rows
    counts = {len(row) for row in rows}
    if not rows or len(counts) > 1:
        return head
    (count,) = counts
    ends_empty = all(not row[-1].strip() for row in rows)
    if options.header and count == len(names) + 1:
        if ends_empty:
            extra = f"column{count}"
            note = "each row ends in a delimiter that the header has not; what stands behind it is not read"
            return replace(head, names=[*names, extra], unread=[extra], notes=[*head.notes, note])
        if _are_row_names([row[0] for row in rows]):
            return replace(head, names=[ROW_NAMES, *names], index=[ROW_NAMES])
    if count == len(names) and ends_empty and (not options.header or not names[-1]):
        extra = names[-1] or f"column{count}"
        note = "each line ends in a delimiter; what stands behind it is not read"
        return replace(head, names=[*names[:-1], extra], unread=[extra], notes=[*head.notes, note])
    return head


def _are_row_names(cells: Sequence[str]) -> bool:
    """Whether cells can be names of rows: all different, and whole numbers or text."""
    different = len(set(cells)) == len(cells)
    return different and all(cell.strip().isdigit() or not _is_number(cell) for cell in cells)


def _with_distinct_names(head: Head, options: ReaderOptions, where: str) -> Head:
    """The head with a number added to each name that comes again.

    Raises ReaderError if the repeated name is that of the label, the id or the time.
    """
    taken = set(head.names)
    names: list[str] = []
    changed: dict[str, list[str]] = {}
    for name in head.names:
        wanted = name
        if name and name in names:
            number = 1
            while (wanted := f"{name}.{number}") in taken:
                number += 1
            changed.setdefault(name, []).append(wanted)
            taken.add(wanted)
        names.append(wanted)
    for role in ("label", "id", "time"):
        name = getattr(options, role)
        left = [other for other in changed.get(name or "", ()) if other not in options.ignored]
        if left and options.features is None:
            raise ReaderError(
                f"{where} has {len(changed[name]) + 1} columns named `{name}`, which is its {role}. The first of them "
                f"is it; the others are read as {listed(left)}: leave them out with `{ignoring(left)}`."
            )
    notes = [f"a column named `{old}` again is read as {listed(new)}" for old, new in changed.items()]
    return replace(head, names=names, notes=[*head.notes, *notes])


def _with_signs(layout: Layout, head: Head) -> Layout:
    """The layout with the affix of each column whose numbers all have the same sign before or behind them."""
    forms = {}
    for position in layout.features:
        cells = [row[position].strip() for row in head.rows if len(row) == len(layout.names)]
        given = [cell for cell in cells if cell not in layout.form.missing]
        for affix in AFFIXES:
            form = replace(layout.form, affix=affix)
            if given and all(affix in cell for cell in given) and all(_reads(form.read, cell) for cell in given):
                forms[position] = form
                head.notes.append(f"column `{layout.names[position]}`: numbers are read without their {affix}")
    return replace(layout, forms=forms) if forms else layout


def _reads(read: Callable[[str], float], cell: str) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True


def _most_frequent_delimiter(line: bytes) -> str:
    outside_quotes = re.sub(rb'"[^"]*"', b"", line)
    found = max(",;\t", key=lambda delimiter: outside_quotes.count(delimiter.encode()))
    return "|" if found.encode() not in outside_quotes and b"|" in outside_quotes else found


def _is_number(text: str) -> bool:
    return bool(text) and _reads(read_number, text)
