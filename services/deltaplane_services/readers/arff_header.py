"""The grammar of ARFF: the declarations of the header, and the values of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from deltaplane_services.readers.bounds import LINE_BYTES
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.lines import LineCutter, OverlongLine
from deltaplane_services.readers.row_blocks import ReaderError

__all__ = ["Attribute", "read_header", "split_values", "words_of_sparse_row"]

_QUOTED = r"""'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)\""""
_NAME = re.compile(rf"\s*(?:{_QUOTED}|(?P<bare>[^\s{{]+))\s*")
_BETWEEN_COMMAS = re.compile(rf"\s*(?:(?:{_QUOTED})\s*|(?P<bare>[^,]*))(?:,|\Z)")
_BETWEEN_SPACES = re.compile(rf"(?:(?:{_QUOTED})|(?P<bare>\S+))(?:\s+|\Z)")
_PAIR = re.compile(rf"\s*(?P<number>[^\s,]+)\s+(?:(?:{_QUOTED})\s*|(?P<bare>[^,]*))(?:,|\Z)")
_LISTED = r"""(?>\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*(?=[,}])|[^,}]*)"""
_LIST = re.compile(rf"\{{(?P<inside>{_LISTED}(?:,{_LISTED})*)\}}")
"""A list of values in braces. Braces and commas inside quotes belong to a value; text behind the closing brace is a
comment."""

_TYPE = re.compile(r"[A-Za-z]+")
_FORM = re.compile(rf"(?i:date)\s+(?:{_QUOTED}|(?P<bare>[^%\s]\S*))")
_JAVA = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|.", re.DOTALL)
_DIRECTIVES = {
    letters: directive
    for directive, spelled in {
        "%Y": ("yyyy", "uuuu", "y"),
        "%y": ("yy",),
        "%m": ("MM", "M"),
        "%b": ("MMM",),
        "%B": ("MMMM",),
        "%d": ("dd", "d"),
        "%j": ("DDD",),
        "%H": ("HH", "H"),
        "%I": ("hh", "h"),
        "%M": ("mm", "m"),
        "%S": ("ss", "s"),
        "%f": ("SSS",),
        "%p": ("a",),
        "%a": ("EEE",),
        "%A": ("EEEE",),
        "%z": ("Z", "X", "XXX"),
        "%Z": ("z", "zzz"),
    }.items()
    for letters in spelled
}
_ESCAPED = re.compile(r"\\(.)")
_ROLES = {"@input": "input", "@inputs": "input", "@output": "output", "@outputs": "output"}
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """A declared attribute.

    ``values`` are those of a nominal attribute, None for any other. ``form`` is that of dates, in the directives of
    :mod:`.time_format`.
    """

    name: str
    kind: str
    values: tuple[str, ...] | None = None
    form: str | None = None
    role: str = ""
    """``input`` or ``output`` if the header says so, as KEEL's does; else empty."""

    @property
    def is_a_feature(self) -> bool:
        """Whether its values are numbers, or can be coded as numbers."""
        return self.kind in ("numeric", "nominal")

    @property
    def left_out(self) -> str:
        """The value of the attribute in a sparse row that leaves it out."""
        if self.values is not None:
            return self.values[0]
        return "0" if self.kind == "numeric" else ""


def read_header(cutter: LineCutter, where: str) -> list[Attribute]:
    """The declared attributes; the cutter stands behind ``@data`` afterwards. Raises ReaderError for another header."""
    attributes: list[Attribute] = []
    roles: dict[str, str] = {}
    while (piece := cutter.next_piece()) is not None:
        if isinstance(piece, OverlongLine):
            raise ReaderError(f"Line {piece.line_number} of the header of {where} is longer than {LINE_BYTES} bytes.")
        at, line_number = 0, piece.first_line_number
        while at < len(piece.data):
            end = piece.data.find(b"\n", at) + 1 or len(piece.data)
            line = piece.data[at:end].decode("utf-8", errors="replace").strip()
            at, line_number = end, line_number + 1
            word, rest = (*line.split(maxsplit=1), "", "")[:2]
            if not line or line.startswith("%") or word.casefold() == "@relation":
                continue
            if word.casefold() == "@data":
                cutter.put_back(piece.data[at:], line_number, unfinished=False)
                return _checked([replace(one, role=roles.get(one.name, "")) for one in attributes], where)
            if word.casefold() in _ROLES:
                roles.update(dict.fromkeys(split_values(rest), _ROLES[word.casefold()]))
                continue
            if word.casefold() != "@attribute":
                raise ReaderError(
                    f"Line {line_number - 1} of {where} is {line[:60]!r}; in the header of an ARFF file `@relation`, "
                    "`@attribute` or `@data` was expected. If it is another kind of file, name it with `--format`."
                )
            attributes.append(_attribute(rest, f"line {line_number - 1} of {where}"))
    raise ReaderError(f"{where} ends before its ARFF header does: there is no `@data` line, and no rows.")


def _checked(attributes: list[Attribute], where: str) -> list[Attribute]:
    if len(attributes) < 2:
        raise ReaderError(
            f"{where} declares {len(attributes)} attributes; a label and at least one feature were expected."
        )
    return attributes


def _attribute(text: str, where: str) -> Attribute:
    match = _NAME.match(text)
    if match is None:
        raise ReaderError(f"The attribute in {where} has no name: {text[:60]!r}; `@attribute NAME TYPE` was expected.")
    name, kind = _unquoted(match).strip(), text[match.end() :]
    if kind.startswith("{"):
        listed = _LIST.match(kind)
        # Blanks around a value are ignored in the list, as they are in a row.
        values = () if listed is None else tuple(dict.fromkeys(v.strip() for v in split_values(listed["inside"])))
        if not any(values):
            raise ReaderError(
                f"The nominal attribute `{name}` in {where} lists no values; `{{a, b, ...}}` was expected."
            )
        return Attribute(name, "nominal", values)
    # A range may follow the type: `integer [0, 10]`.
    found = _TYPE.match(kind)
    word = found[0].casefold() if found else kind.split(maxsplit=1)[0] if kind else "no type"
    if word in ("numeric", "real", "integer"):
        return Attribute(name, "numeric")
    if word == "date" and (form := _FORM.match(kind)) is not None:
        return Attribute(name, word, None, _date_form(_unquoted(form), f"`{name}` in {where}"))
    if word in ("string", "date"):
        return Attribute(name, word)
    raise ReaderError(
        f"The attribute `{name}` in {where} is of type {word}; numeric, real, integer, string, date or a list of "
        "values in braces was expected."
    )


def _date_form(java: str, where: str) -> str | None:
    """The form of dates, in directives of ``strptime``, that a pattern of Java's ``SimpleDateFormat`` means.

    Raises ReaderError for a pattern with letters that are not known here.
    """
    pieces = []
    for match in _JAVA.finditer(java):
        if match["quoted"] is not None:
            pieces.append(match["quoted"].replace("''", "'").replace("%", "%%") or "'")
        elif match["letters"] is None:
            pieces.append(match[0].replace("%", "%%"))
        elif (directive := _DIRECTIVES.get(match["letters"])) is not None:
            pieces.append(directive)
        else:
            raise ReaderError(
                f"The dates of the attribute {where} are of the form {java[:60]!r}, of which "
                f"{match['letters']!r} is not known here. Declare the form with `--time-format`, or leave the "
                "attribute out with `--ignore`."
            )
    return "".join(pieces)


def split_values(text: str) -> list[str]:
    """The values of a row: between commas, or between spaces if there is no comma outside quotes."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")] if "," in text else text.split()
    values = [_unquoted(match) for match in _matches(_BETWEEN_COMMAS, text)]
    return values if len(values) > 1 else [_unquoted(match) for match in _matches(_BETWEEN_SPACES, text)]


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    at = 0
    while match := pattern.match(text, at):
        yield match
        # A comma at the very end is followed by an empty value.
        if match.end() == len(text) and not match.group().endswith(","):
            return
        at = match.end()


def _unquoted(match: re.Match[str]) -> str:
    if match["bare"] is not None:
        return match["bare"].strip()
    quoted = match["double"] if match["single"] is None else match["single"]
    return _ESCAPED.sub(lambda escaped: _CONTROL.get(escaped[1], escaped[1]), quoted)


def words_of_sparse_row(text: str) -> Iterator[tuple[str, str]]:
    """(number of the attribute, value) for each pair of a row in braces. Raises ValueError if they are no pairs."""
    if not text.endswith("}"):
        raise ValueError("the sparse row does not end with a brace")
    inside = text[1:-1].strip()
    at = 0
    while at < len(inside):
        match = _PAIR.match(inside, at)
        if match is None:
            raise ValueError(f"{clip(inside[at:].strip(), 40)!r} is not the number of an attribute and a value")
        yield match["number"], _unquoted(match)
        at = match.end()
