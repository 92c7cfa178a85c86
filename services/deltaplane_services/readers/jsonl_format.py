"""JSON Lines, an object in each line, or an array of objects. The keys are the columns.

The columns are the keys of the first objects. The values of an object within another are columns of their own, with the
path as their name: ``card.country``. Numbers and texts are read like the cells of a CSV file. True and false are 1 and
0, or ``true`` and ``false`` in a label. Null, an empty text and an absent key are a missing value. A row with a key
that the first objects did not have is refused, unless the features were named or the key is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deltaplane_services.readers.bounds import SNIFF_BYTES
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.json_array import ArrayLines
from deltaplane_services.readers.layout import choose_columns, ignoring
from deltaplane_services.readers.lines import LineCutter
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.table import Record, TableReader

__all__ = ["JsonLinesDialect", "flattened", "open_jsonl", "read_object"]

_BETWEEN_KEYS = "."


class _Number(str):
    """The text of a number that stands in a line without quotes: its decimal sign is a point in every file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonLinesDialect:
    """Rows that are objects with these ``keys``.

    ``texts`` are the keys whose truths stay texts, such as that of the label. ``unread`` are keys that nobody reads.
    A row with any other key is refused, unless ``may_be_others``. ``objects`` are the keys of objects whose values are
    read; null in place of such an object is one without values. ``decimal`` is the decimal sign of texts of the
    ``features``.
    """

    keys: tuple[str, ...]
    texts: frozenset[str]
    unread: frozenset[str]
    may_be_others: bool
    objects: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    decimal: str = "."
    delimiter: str = ","
    quote: str = '"'

    def is_plain(self, data: bytes) -> bool:  # noqa: ARG002 - no line of JSON is one of cells
        """False, since no line of JSON is one of cells."""
        return False

    def tidied(self, data: bytes) -> bytes:
        """The lines as they are."""
        return data

    def record(self, data: bytes, at: int, *, final: bool) -> Record:  # noqa: ARG002 - no object goes on behind its line
        """The record of the object in the line at ``at``, with its cells in the order of the keys."""
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].strip()
        if not line:
            return Record(end, [])
        try:
            return Record(end, self._cells(read_object(line)))
        except ValueError as fault:
            return Record(end, [], str(fault))

    def _cells(self, nested: dict[str, Any]) -> list[str]:
        row = flattened(nested, self.unread)
        if not self.may_be_others:
            for key, value in row.items():
                if key not in self.keys and key not in self.unread and not (value is None and key in self.objects):
                    raise ValueError(f"the key `{clip(key, 40)}` is none of the first rows")
        return [self._cell(key, row.get(key)) for key in self.keys]

    def _cell(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower() if key in self.texts else str(int(value))
        if isinstance(value, list):
            if key not in self.unread:
                raise ValueError(f"the key `{clip(key, 40)}` holds a list, of which no column is made")
            return ""
        if type(value) is _Number and self.decimal != "." and key in self.features:
            # A column of numbers is read in one form, so numbers of JSON are written in that of the texts.
            return value.replace(".", self.decimal)
        return "" if value is None else str(value)


def read_object(line: bytes) -> dict[str, Any]:
    """Key to value of the object in a line, with numbers as texts. Raises ValueError with the reason to refuse it."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the row is not UTF-8 text") from None
    try:
        row = json.loads(
            text, parse_float=_Number, parse_int=str, parse_constant=str, object_pairs_hook=_with_keys_that_come_once
        )
    except json.JSONDecodeError as fault:
        raise ValueError(f"the line is not JSON: {fault.msg} at character {fault.colno}") from None
    except RecursionError:
        raise ValueError("the line is not JSON that can be read: it is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"the line is {clip(text, 40)!r}, where an object in braces was expected")  # noqa: TRY004
    if "\\u" in text:
        try:
            "".join((*row, *(value for value in row.values() if isinstance(value, str)))).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("the row holds half a character (a lone surrogate)") from None
    return row


def flattened(row: dict[str, Any], unread: Collection[str] = ()) -> dict[str, Any]:
    """Path to value of an object, objects within it opened, without those at ``unread`` paths.

    Raises ValueError if two values have one path, or objects lie too deep.
    """
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    try:
        return _with_keys_that_come_once(list(_values(row, unread, "")))
    except RecursionError:
        raise ValueError("the line is not JSON that can be read: it is nested too deeply") from None


def _values(row: dict[str, Any], unread: Collection[str], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        path = before + key
        if isinstance(value, dict) and path not in unread:
            yield from _values(value, unread, path + _BETWEEN_KEYS)
        else:
            yield path, None if isinstance(value, dict) else value


def _with_keys_that_come_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key `{clip(twice, 40)}` is there twice")
    return row


def open_jsonl(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """(names of the features, row blocks). Raises ReaderError if keys and options do not go together."""
    if source.peek(SNIFF_BYTES).lstrip()[:1] == b"[":
        source.convert(lambda rest: ArrayLines(rest, source.name))
    keys, lists = _keys(source, options.ignored)
    layout = choose_columns(keys, options, source.name)
    texts = {keys[position] for position in layout.texts}
    features = frozenset(keys[position] for position in layout.features)
    used = texts.union(features)
    if of_no_use := [key for key in keys if key in lists and key in used]:
        raise ReaderError(
            f"The key `{of_no_use[0]}` of {source.name} holds lists, of which no column is made: a value must be a"
            f" number, a text, a truth or an object of such. Leave it out with `{ignoring(of_no_use)}`."
        )
    unread = frozenset(options.ignored).union(key for key in keys if key not in used)
    if options.encoder is not None or options.decide is not None or options.look is not None:
        # Rules have a meaning of their own for true and false.
        texts |= used
    dialect = JsonLinesDialect(
        tuple(keys),
        frozenset(texts),
        unread,
        options.features is not None,
        frozenset(_objects_of(keys)),
        features,
        layout.form.decimal,
    )
    reader = TableReader(LineCutter(source), layout, dialect, options, source)
    return reader.feature_names, reader.blocks()


def _objects_of(keys: Iterable[str]) -> set[str]:
    """The paths of the objects in which the values at some paths lie."""
    parts = [key.split(_BETWEEN_KEYS) for key in keys]
    return {_BETWEEN_KEYS.join(path[:length]) for path in parts for length in range(1, len(path))}


def _keys(source: ByteSource, ignored: Collection[str]) -> tuple[list[str], set[str]]:
    """(the keys of the first lines in the order in which they come, those of them that hold lists alone).

    Raises ReaderError if no line is an object.
    """
    beginning = source.peek(SNIFF_BYTES)
    lines = beginning.split(b"\n")
    if len(beginning) == SNIFF_BYTES and len(lines) > 1:
        lines.pop()
    # Key to the types of its values.
    keys: dict[str, set[type]] = {}
    fault = ""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = flattened(read_object(line.strip()), ignored)
            except ValueError as error:
                fault = fault or f"in line {number}, {error}"
                continue
            for key, value in row.items():
                keys.setdefault(key, set()).update(() if value is None else (type(value),))
    if keys:
        objects = _objects_of(keys)
        named = [key for key, types in keys.items() if types or key not in objects]
        return named, {key for key in named if keys[key] == {list}}
    if not fault:
        raise ReaderError(f"{source.name} is empty; an object a line was expected.")
    raise ReaderError(
        f"No line at the beginning of {source.name} is a JSON object: {fault}."
        " If it is another kind of file, name it with `--format`."
    )
