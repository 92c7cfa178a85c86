"""What stands in the tables of a definition file, checked: each function takes a parsed value and says where it stood.

All but the last raise :class:`DefinitionError` with the place, what was expected and what came.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from deltaplane.errors import DefinitionError

__all__ = [
    "UNIT_MILLISECONDS",
    "Section",
    "Tables",
    "amount",
    "as_it_is",
    "canonical_json",
    "check_keys",
    "check_text",
    "declared",
    "flag",
    "label",
    "list_of",
    "number",
    "numbers",
    "span",
    "span_text",
    "strings",
    "text",
    "whole",
]

Tables = Mapping[str, Any]
"""A parsed definition file: section name to keys."""

UNIT_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def check_keys(tables: Tables, keys: Mapping[str, frozenset[str]]) -> None:
    """Refuse a key that nobody reads, by name and with the nearest one that is; ``keys`` are those of each section."""
    for section, known in keys.items():
        table = tables if not section else tables.get(section, {})
        if not isinstance(table, Mapping):
            raise DefinitionError(f"{section}: expected a table of keys, got {table!r}")
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"
                raise DefinitionError(f"definition: unknown key {'.'.join(filter(None, (section, str(key))))!r}{hint}")


def declared(read: Callable[[Any, str], Any]) -> Any:
    """A field of a :class:`Section` that is None by default; ``read`` takes a value and its place, and checks it."""
    return dataclasses.field(default=None, metadata={"read": read})


class Section:
    """One table of a definition file as a frozen dataclass: each field is a key, None if nothing is said of it.

    Its fields are made by :func:`declared`, and a list becomes a tuple.
    """

    SECTION: ClassVar[str]

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys that the table may have."""
        return tuple(one.name for one in dataclasses.fields(cls))  # type: ignore[arg-type]

    @classmethod
    def of(cls, table: Tables) -> Self:
        """The section of a table. Raises :class:`DefinitionError` for an unknown key, or a value of another type."""
        check_keys({cls.SECTION: table}, {cls.SECTION: frozenset(cls.keys())})
        return cls().with_said(**table)

    def with_said(self, **values: Any) -> Self:
        """The section with the values that are not None in place of its own. Raises as :meth:`of` does."""
        read = {one.name: one.metadata["read"] for one in dataclasses.fields(self)}  # type: ignore[arg-type]
        checked = {key: read[key](value, f"{self.SECTION}.{key}") for key, value in values.items() if value is not None}
        said = {key: tuple(value) if isinstance(value, list) else value for key, value in checked.items()}
        return dataclasses.replace(self, **said)  # type: ignore[type-var]

    @property
    def table(self) -> dict[str, Any]:
        """What is said, as the table of a definition file has it: the inverse of :meth:`of`."""
        said = {key: getattr(self, key) for key in self.keys()}
        return {key: _plain(value) for key, value in said.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return dict(value) if isinstance(value, Mapping) else value


def as_it_is(value: Any, _where: str) -> Any:
    """Any value, which is checked by who uses it."""
    return value


def text(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DefinitionError(f"{where}: expected a text, got {value!r}; put it in quotes")
    return value


def label(value: Any, where: str) -> str:
    """A name as samples carry it: a text, or a whole number. Others have more than one spelling (1.0, True)."""
    return str(whole(value, where)) if isinstance(value, int) else text(value, where)


def list_of(value: Any, where: str) -> Sequence[Any]:
    """A list of anything."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DefinitionError(f"{where}: expected a list, got {value!r}; put it in [ ]")
    return value


def strings(value: Any, where: str) -> list[str]:
    """A list of names."""
    return [label(item, where) for item in list_of(value, where)]


def numbers(value: Any, where: str) -> list[float]:
    """A list of numbers."""
    return [number(item, where) for item in list_of(value, where)]


def number(value: Any, where: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DefinitionError(f"{where}: expected a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise DefinitionError(f"{where}: expected a number of at most 1.8e308, got one beyond it") from None


def whole(value: Any, where: str) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise DefinitionError(f"{where}: expected a whole number, got {value!r}")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise DefinitionError(f"{where}: expected true or false, got {value!r}")
    return value


def span(value: Any, where: str) -> int:
    """Milliseconds of a span such as ``1d`` or ``90s``."""
    expected = "a span of time such as '1d' or '90s'"
    number, unit = amount(str(value), where, expected)
    if not unit:
        raise DefinitionError(f"{where}: expected {expected}, got {value!r} without a unit")
    return number * UNIT_MILLISECONDS[unit]


def span_text(milliseconds: int) -> str:
    """The shortest text that :func:`span` reads as so many milliseconds."""
    exact = [unit for unit, size in UNIT_MILLISECONDS.items() if milliseconds % size == 0]
    unit = max(exact, key=UNIT_MILLISECONDS.__getitem__) if milliseconds else "s"
    return f"{milliseconds // UNIT_MILLISECONDS[unit]}{unit}"


def amount(text: str, where: str, expected: str) -> tuple[int, str]:
    """A whole number, and its unit or an empty text."""
    match = re.fullmatch(r"([0-9]+(?:_[0-9]+)*)\s*(ms|[smhdw])?", text.strip())
    if match is None or len(match[1]) > 25:
        raise DefinitionError(f"{where}: expected {expected}, got {text[:100]!r}")
    return int(match[1]), match[2] or ""


def check_text(value: str, what: str, limit_bytes: int) -> None:
    """Refuse a name that is empty, too long, or not a text at all (half of a surrogate pair)."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as fault:
        raise DefinitionError(f"{what} must be a Unicode text, got {value!r} ({fault.reason})") from fault
    if not 1 <= size <= limit_bytes:
        raise DefinitionError(f"{what} must have 1 to {limit_bytes} bytes in UTF-8, got {size} ({value[:50]!r})")


def canonical_json(settings: Mapping[str, Any]) -> str:
    """The one JSON text of some settings: keys in order, nothing between them, ASCII alone. Fingerprints hash it."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
