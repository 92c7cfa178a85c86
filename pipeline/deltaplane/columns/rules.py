"""Rules by which a column becomes features. A rule reads a cell as one number, and makes features of such numbers.

The number of a cell is what it says (a number, 0 or 1, milliseconds), or which level or bucket it belongs to. Reading
is done once for each different cell of a block, and what follows for whole columns at a time; both are pure, so a row
has the same features alone as among others.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.columns import times
from deltaplane.columns.cells import number_of, text_of, truth_of
from deltaplane.errors import DefinitionError
from deltaplane.maps.logarithm import signed_logarithms

__all__ = [
    "HASH",
    "RULES",
    "BooleanRule",
    "CategoryRule",
    "ColumnRule",
    "HashedRule",
    "Missing",
    "NumberRule",
    "SubjectRule",
    "TimeRule",
    "utf8_bytes",
]


Missing = Literal["indicator", "fill", "refuse"]
"""A missing value: filled in with a feature of its own that says so, filled in alone, or the row is refused."""

HASH = "blake2b-64"
"""The only hash there is: BLAKE2b of 8 bytes over the UTF-8 of the text, as a big-endian integer."""


@dataclass(frozen=True)
class ColumnRule(ABC):
    """How one column becomes zero or more features. Raises :class:`DefinitionError` if it cannot be used."""

    KIND: ClassVar[str]
    column: str
    missing: Missing = "indicator"

    def __post_init__(self) -> None:
        where = f"columns: the name of a column {self.column!r}"
        if not 1 <= utf8_bytes(self.column, where) <= limits.FEATURE_NAME_BYTES:
            raise DefinitionError(f"{where}: expected a text of 1 to {limits.FEATURE_NAME_BYTES} bytes")
        if self.missing not in ("indicator", "fill", "refuse"):
            raise DefinitionError(
                f"{self.where}.missing: expected indicator, fill or refuse, got {self.missing!r:.100}"
            )
        self.check()

    @property
    def where(self) -> str:
        """The rule in a message."""
        return f"columns.rules[{self.column!r}]"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, the indicator of a missing value last."""
        indicator = (f"{self.column} missing",) if self.missing == "indicator" else ()
        return self.own_features + indicator

    @property
    @abstractmethod
    def own_features(self) -> tuple[str, ...]:
        """Names of the features of a value that is there."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """What the rule says besides its column and its missing values, as plain values of JSON."""

    @property
    @abstractmethod
    def filled(self) -> float:
        """The number that stands for a missing cell."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`DefinitionError` if the settings cannot be used."""

    @abstractmethod
    def read(self, cell: Any) -> float:
        """The number of a plain cell that is not missing; NaN if it is after all. Raises ValueError with the fault."""

    @abstractmethod
    def write(self, numbers: Floats, out: Floats) -> None:
        """Write the features of numbers float64[n] into zeros float64[n, m]."""

    def cure(self) -> str:
        """What to do about cells that cannot be read."""
        return "correct the value, count it among columns.missing, or make the column a category"


@dataclass(frozen=True)
class NumberRule(ColumnRule):
    """The number itself, or ``sign(x) log(1 + |x|)`` of it, for amounts with long tails."""

    KIND: ClassVar[str] = "number"
    fill: float = 0.0
    log: bool = False

    def check(self) -> None:
        """Raise :class:`DefinitionError` for a fill that is no finite number."""
        _check_number(self.fill, f"{self.where}.fill", -math.inf, math.inf)

    @property
    def own_features(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fill, and whether logarithms are taken."""
        return {"fill": float(self.fill), "log": self.log}

    @property
    def filled(self) -> float:
        """The fill, before a logarithm is taken."""
        return float(self.fill)

    def read(self, cell: Any) -> float:
        """The number, or the decimal number in a text."""
        return number_of(cell)

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write one feature."""
        out[:, 0] = signed_logarithms(numbers) if self.log else numbers


@dataclass(frozen=True)
class BooleanRule(ColumnRule):
    """1 for true and 0 for false; ``fill`` stands for a missing one."""

    KIND: ClassVar[str] = "boolean"
    fill: bool = False

    def check(self) -> None:
        """Raise :class:`DefinitionError` for a fill that is neither true nor false."""
        if not isinstance(self.fill, bool):
            raise DefinitionError(f"{self.where}.fill: expected true or false, got {self.fill!r:.100}")

    @property
    def own_features(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fill."""
        return {"fill": self.fill}

    @property
    def filled(self) -> float:
        """The fill as 0 or 1."""
        return float(self.fill)

    def read(self, cell: Any) -> float:
        """1 or 0 for words of truth in any case."""
        return truth_of(cell)

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write one feature."""
        out[:, 0] = numbers


@dataclass(frozen=True)
class CategoryRule(ColumnRule):
    """A feature for each declared level, 1 where the cell is that text; one more for all others, which are no fault."""

    KIND: ClassVar[str] = "category"
    levels: tuple[str, ...] = ()
    _places: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def check(self) -> None:
        """Raise :class:`DefinitionError` for levels that are too many, too long, or there twice."""
        where = f"{self.where}.levels"
        if not 1 <= len(self.levels) <= limits.LEVELS:
            raise DefinitionError(
                f"{where}: expected 1 to {limits.LEVELS} levels, got {len(self.levels)}; make the column hashed"
            )
        for level in self.levels:
            if not 1 <= utf8_bytes(level, where) <= limits.LEVEL_BYTES:
                raise DefinitionError(
                    f"{where}: expected texts of 1 to {limits.LEVEL_BYTES} bytes in UTF-8, got {level!r:.60}; leave it"
                    " out, and its rows are among the others"
                )
        if len(set(self.levels)) < len(self.levels):
            raise DefinitionError(f"{where}: expected levels that differ, got one twice; write each once")
        object.__setattr__(self, "_places", {level: float(at) for at, level in enumerate(self.levels)})

    @property
    def own_features(self) -> tuple[str, ...]:
        """``column=level`` for each level, and ``column other``."""
        return (*(f"{self.column}={level}" for level in self.levels), f"{self.column} other")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The levels."""
        return {"levels": list(self.levels)}

    @property
    def filled(self) -> float:
        """No level if an indicator says that the value is missing; else it is among the others."""
        return -1.0 if self.missing == "indicator" else float(len(self.levels))

    def read(self, cell: Any) -> float:
        """The place of the text among the levels, or behind them."""
        return self._places.get(text_of(cell, limits.LEVEL_BYTES), float(len(self.levels)))

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write a 1 for each row that has a level."""
        _write_places(numbers, out)

    def cure(self) -> str:
        """What to do about cells that cannot be read."""
        return "correct the value, or leave the column out"


@dataclass(frozen=True)
class HashedRule(ColumnRule):
    """A feature for each bucket, 1 where the text falls into it: for texts of more levels than can be declared.

    Texts are hashed as they are written, in UTF-8: how their letters are composed, and their case, are left alone,
    since rules for these change with versions of Unicode.
    """

    KIND: ClassVar[str] = "hashed"
    buckets: int = 128
    hashed_by: str = HASH

    def check(self) -> None:
        """Raise :class:`DefinitionError` for another hash, or buckets that are too many or too few."""
        if self.hashed_by != HASH:
            raise DefinitionError(f"{self.where}.hashed_by: expected {HASH}, got {self.hashed_by!r:.100}")
        if not 2 <= self.buckets <= 1024:
            raise DefinitionError(f"{self.where}.buckets: expected 2 to 1024, got {self.buckets!r:.100}")

    @property
    def own_features(self) -> tuple[str, ...]:
        """``column#0`` and so on."""
        return tuple(f"{self.column}#{bucket}" for bucket in range(self.buckets))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The number of buckets, and the hash by name."""
        return {"buckets": self.buckets, "hashed_by": self.hashed_by}

    @property
    def filled(self) -> float:
        """No bucket."""
        return -1.0

    def read(self, cell: Any) -> float:
        """The bucket of the text."""
        data = text_of(cell, limits.TEXT_BYTES).encode()
        return float(int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") % self.buckets)

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write a 1 for each row that has a bucket."""
        _write_places(numbers, out)

    def cure(self) -> str:
        """What to do about cells that cannot be read."""
        return "correct the value, or leave the column out"


@dataclass(frozen=True)
class TimeRule(ColumnRule):
    """Parts of a time: see :data:`deltaplane.columns.times.PARTS`. ``fill``: milliseconds since 1970.

    ``zone_minutes``: how far the clock that is read is ahead of UTC; times that name no zone are of this one.
    """

    KIND: ClassVar[str] = "time"
    parts: tuple[str, ...] = times.PARTS
    zone_minutes: int = 0
    fill: float = 0.0

    def check(self) -> None:
        """Raise :class:`DefinitionError` for unknown parts, and for a zone or fill out of bounds."""
        if not self.parts or len(set(self.parts)) < len(self.parts) or not set(self.parts) <= set(times.PARTS):
            raise DefinitionError(
                f"{self.where}.parts: expected some of {', '.join(times.PARTS)}, each once,"
                f" got {', '.join(map(str, self.parts))[:100] or 'none'}"
            )
        most = limits.ZONE_MINUTES
        _check_number(self.zone_minutes, f"{self.where}.zone_minutes", -most, most)
        _check_number(self.fill, f"{self.where}.fill", -1e14, 1e15)
        if self.zone_minutes != int(self.zone_minutes) or self.fill != int(self.fill):
            raise DefinitionError(f"{self.where}: expected whole minutes and milliseconds, got a part of one")
        try:
            times.milliseconds_of(self.fill / 1000, 0)
        except ValueError as fault:
            raise DefinitionError(f"{self.where}.fill: {self.fill!r} {fault}") from None

    @property
    def own_features(self) -> tuple[str, ...]:
        """``column hour sine`` and so on."""
        return tuple(f"{self.column} {name}" for name in times.names_of(self.parts))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The parts, the zone, and the fill."""
        return {"parts": list(self.parts), "zone_minutes": int(self.zone_minutes), "fill": float(self.fill)}

    @property
    def filled(self) -> float:
        """The fill."""
        return float(self.fill)

    def read(self, cell: Any) -> float:
        """Milliseconds since 1970."""
        return times.milliseconds_of(cell, self.zone_minutes)

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write each part, in order."""
        times.write_parts(numbers, self.zone_minutes, self.parts, out)

    def cure(self) -> str:
        """What to do about cells that cannot be read."""
        return "write it as 2026-11-29 or 2026-11-29T18:00:00Z, or count it among columns.missing"


@dataclass(frozen=True)
class SubjectRule(ColumnRule):
    """No feature at all: who or what a row is of (a customer, a device), so that all its rows can be retired at once.

    It is sent and kept in the log, and nothing is learned of it. Rows without one are taken unless ``missing`` refuses
    them, and no one can retire them by it.
    """

    KIND: ClassVar[str] = "subject"
    missing: Missing = "fill"

    def check(self) -> None:
        """Raise :class:`DefinitionError` for an indicator of what is missing, which would be a feature."""
        if self.missing == "indicator":
            raise DefinitionError(f"{self.where}.missing: expected fill or refuse, since a subject has no feature")

    @property
    def own_features(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """None."""
        return {}

    @property
    def filled(self) -> float:
        """Zero, which no feature takes: the column makes none."""
        return 0.0

    def read(self, cell: Any) -> float:
        """Zero, which no feature takes. Raises what :func:`text_of` raises for a cell that is no text."""
        text_of(cell, limits.ID_BYTES)
        return 0.0

    def write(self, numbers: Floats, out: Floats) -> None:
        """Write no feature."""

    def cure(self) -> str:
        """What to do about cells that cannot be read."""
        return "write it as a text or a number"


RULES: Mapping[str, type[ColumnRule]] = {
    rule.KIND: rule for rule in (NumberRule, BooleanRule, CategoryRule, HashedRule, TimeRule, SubjectRule)
}


def utf8_bytes(text: str, where: str) -> int:
    """Bytes of a text in UTF-8. Raises :class:`DefinitionError` if it is none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise DefinitionError(f"{where}: expected a Unicode text, got half of a surrogate pair") from None


def _check_number(value: Any, where: str, low: float, high: float) -> None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not low <= value <= high:
        raise DefinitionError(f"{where}: expected a finite number from {low:g} to {high:g}, got {value!r:.100}")


def _write_places(numbers: Floats, out: Floats) -> None:
    rows = np.flatnonzero(numbers >= 0.0)
    out[rows, numbers[rows].astype(np.intp)] = 1.0
