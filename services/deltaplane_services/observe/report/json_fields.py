"""Values from untrusted JSON, each checked for its type; an error names the place of a wrong value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from deltaplane.errors import DeltaplaneError

__all__ = ["NAN", "Fields", "ReportError", "is_number"]

NAN = math.nan
V = TypeVar("V")


class ReportError(DeltaplaneError):
    """A report cannot be made; the text says why."""


class Fields:
    """An object of the JSON and its place; its methods return values of one type. They raise :class:`ReportError`."""

    def __init__(self, name: str, place: str, value: Any) -> None:
        self.name = name
        self.place = place
        if not isinstance(value, dict):
            raise ReportError(
                f"{name}: {place or 'top'}: expected an object, got {_shown(value)};"
                " give a file that replay --json has written"
            )
        self.value: dict[str, Any] = value

    def wrong(self, key: str, expected: str, got: Any) -> ReportError:
        """The error to raise for a value that is not as expected."""
        return ReportError(
            f"{self.name}: {self.place}{key}: expected {expected}, got {_shown(got)};"
            " give a file that replay --json of this version has written"
        )

    def text(self, key: str) -> str:
        """A string."""
        return str(self._get(key, "text", lambda value: isinstance(value, str)))

    def text_or_none(self, key: str) -> str | None:
        """A string, or None for null."""
        return None if self.value.get(key) is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty if the key is missing, as in files of earlier versions."""
        return tuple(map(str, self.items(key))) if key in self.value else ()

    def flag_or_none(self, key: str) -> bool | None:
        """True or false, or None for null."""
        return None if self.value.get(key) is None else bool(self._get(key, "true or false", _is_flag))

    def whole(self, key: str) -> int:
        """A whole number."""
        return int(self._get(key, "a whole number", _is_whole))

    def number(self, key: str) -> float:
        """A number, NaN for null. Raises ReportError if the key is missing."""
        value = self._get(key, "a number or null", lambda value: value is None or is_number(value))
        return NAN if value is None else float(value)

    def later(self, key: str) -> float:
        """A number; NaN for null, and if the key is missing, as in files of earlier versions."""
        return self.number(key) if key in self.value else NAN

    def later_parts(self, key: str) -> dict[str, Fields]:
        """An object of objects; empty if the key is missing, as in files of earlier versions."""
        return {name: self.part(key).part(name) for name in self.part(key).value} if key in self.value else {}

    def items(self, key: str) -> list[Any]:
        """A list."""
        return list(self._get(key, "a list", lambda value: isinstance(value, list)))

    def part(self, key: str) -> Fields:
        """An object; an empty one for null."""
        value = self._get(key, "an object", lambda value: value is None or isinstance(value, dict))
        return Fields(self.name, f"{self.place}{key}.", value or {})

    def parts(self, key: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(self.name, f"{self.place}{key}[{at}].", item) for at, item in enumerate(self.items(key))]

    def table(self, key: str, take: Callable[[Fields, str], V]) -> dict[str, V]:
        """An object whose values all have one type; an empty one for null."""
        part = self.part(key)
        return {name: take(part, name) for name in part.value}

    def _get(self, key: str, expected: str, fits: Callable[[Any], bool]) -> Any:
        if key not in self.value:
            raise self.wrong(key, expected, "nothing")
        value = self.value[key]
        if not fits(value):
            raise self.wrong(key, expected, value)
        return value


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
