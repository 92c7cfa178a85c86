"""The table ``[input]`` of a definition file: what the columns of a data file are, and how the file is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from deltaplane import table_values as read
from deltaplane.errors import DefinitionError
from deltaplane.table_values import Section, declared, strings

__all__ = ["INPUT_KEYS", "InputTable"]


def _names(value: Any, where: str) -> list[str]:
    """Several names, or one that stands alone."""
    return strings([value] if isinstance(value, str) else value, where)


@dataclass(frozen=True)
class InputTable(Section):
    """The table ``[input]``: each field is a key; None if nothing is said of it."""

    SECTION = "input"

    label: str | None = declared(read.label)
    id: str | None = declared(read.label)
    time: str | None = declared(read.label)
    time_unit: str | None = declared(read.text)
    time_format: str | None = declared(read.text)
    time_zone: str | None = declared(read.text)
    ignore: tuple[str, ...] | None = declared(_names)
    features: tuple[str, ...] | None = declared(_names)
    missing_values: tuple[str, ...] | None = declared(_names)
    rename: tuple[str, ...] | None = declared(_names)
    format: str | None = declared(read.text)
    delimiter: str | None = declared(read.text)
    encoding: str | None = declared(read.text)
    decimal: str | None = declared(read.text)
    thousands: str | None = declared(read.text)
    quote: str | None = declared(read.text)
    comment: str | None = declared(read.text)
    labels: str | None = declared(read.text)
    libsvm_base: str | None = declared(read.text)
    header: bool | None = declared(read.flag)
    number_of_features: int | None = declared(read.whole)
    nominal: str | None = declared(read.text)

    @classmethod
    def of(cls, table: Any) -> Self:
        """The table as a file has it; ``na`` is the key of before for ``missing_values``.

        Raises :class:`DefinitionError` for an unknown key, or a value of another type.
        """
        if not isinstance(table, Mapping):
            raise DefinitionError(f"input: expected a table of keys, got {table!r}")
        for key in table:
            if key not in INPUT_KEYS:
                raise DefinitionError(f"definition: unknown key 'input.{key}'; known are {', '.join(INPUT_KEYS)}")
        given = {key: value for key, value in table.items() if key != "na"}
        if "na" in table:
            before = _names(table["na"], "input.na")
            given.setdefault("missing_values", before)
        return super().of(given)

    def with_options(self, **values: Any) -> Self:
        """The table with the options of a command in place of its keys; None and an empty list say nothing.

        Raises :class:`DefinitionError` for a value of another type.
        """
        given = {key: None if value in ([], ()) else value for key, value in values.items()}
        before = self
        if given.get("time_unit") is not None or given.get("time_format") is not None:
            # One that is given takes the place of the other in the file.
            before = replace(self, time_unit=None, time_format=None)
        if given.get("delimiter") in ("tab", "\\t"):
            given["delimiter"] = "\t"
        words = given.pop("missing_values", None)
        laid = before.with_said(**given)
        return laid if words is None else laid.with_said(missing_values=laid.split_values(words))

    def split_values(self, given: Any) -> list[str]:
        """Values one by one, or several between commas, unless a number of the file has commas."""
        texts: Iterable[str] = map(str, given if isinstance(given, list | tuple) else [given])
        commas = "," not in (self.decimal, self.thousands)
        parts = (part.strip() for one in texts for part in (one.split(",") if commas else [one]))
        return list(dict.fromkeys(filter(None, parts)))


INPUT_KEYS = (*InputTable.keys(), "na")
"""The keys that the table may have in a file."""
