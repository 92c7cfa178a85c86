"""A stream as somebody declares it: every key of a definition file with its type, or None if nothing is said of it.

A file and the options of a command are read into these once; an option replaces a field. What is still open is filled
in from a data file, or by default, when a :class:`~deltaplane.stream.definition.StreamDefinition` is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from deltaplane.columns.encoder import Encoder
from deltaplane.stream.column_tables import encoder_of
from deltaplane.table_values import (
    Section,
    Tables,
    as_it_is,
    check_keys,
    declared,
    flag,
    label,
    list_of,
    number,
    numbers,
    span,
    strings,
    text,
    whole,
)

__all__ = [
    "KEYS",
    "DeclaredClasses",
    "DeclaredFeatures",
    "DeclaredGrid",
    "DeclaredMap",
    "DeclaredPrior",
    "DeclaredSolver",
    "DeclaredStream",
    "DeclaredWindow",
]


def _lengths(value: Any, where: str) -> str | tuple[str, ...]:
    """The length of one window, or of each in a list."""
    return str(value) if isinstance(value, str | int) else tuple(map(str, _sequence(value, where)))


def _choices(value: Any, where: str) -> str | float | tuple[float, ...]:
    """``auto``, one C, or several."""
    if value == "auto":
        return "auto"
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(numbers(value, where)) if several else number(value, where)


def _weighting(value: Any, where: str) -> Any:
    """The name of a weighting, several names, or a weight for each class."""
    if isinstance(value, Mapping):
        return {name: number(weight, f"{where}.{name}") for name, weight in value.items()}
    return tuple(strings(value, where)) if isinstance(value, list | tuple) else value


def _sequence(value: Any, where: str) -> tuple[Any, ...]:
    return tuple(list_of(value, where))


def _rows(value: Any, where: str) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(numbers(row, where)) for row in list_of(value, where))


@dataclass(frozen=True)
class DeclaredFeatures(Section):
    """The table ``[features]``."""

    SECTION = "features"

    names: tuple[str, ...] | None = declared(strings)
    missing: str | None = declared(as_it_is)


@dataclass(frozen=True)
class DeclaredGrid(Section):
    """The table ``[grid]``: a resolution and an offset for each feature, and the range of all."""

    SECTION = "grid"

    steps: tuple[float, ...] | None = declared(numbers)
    offsets: tuple[float, ...] | None = declared(numbers)
    range_bits: int | None = declared(whole)


@dataclass(frozen=True)
class DeclaredMap(Section):
    """The table ``[feature_map]``. :class:`~deltaplane.maps.feature_maps.FeatureMap` checks the numbers."""

    SECTION = "feature_map"

    kind: str | None = declared(as_it_is)
    units: int | None = declared(as_it_is)
    seed: int | None = declared(as_it_is)
    sigma: float | None = declared(as_it_is)
    centers: tuple[int, ...] | None = declared(_sequence)
    scales: tuple[float, ...] | None = declared(_sequence)
    curved: tuple[int, ...] | None = declared(_sequence)

    @property
    def is_none(self) -> bool:
        """Whether there is no map."""
        return self.kind in (None, "none", "linear")

    @property
    def is_complete(self) -> bool:
        """Whether nothing has to be fitted on the first rows."""
        return self.is_none or (self.centers is not None and self.scales is not None)


@dataclass(frozen=True)
class DeclaredPrior(Section):
    """The table ``[prior]``: a plane that new ones are drawn to, as a list of weights for each of its planes."""

    SECTION = "prior"

    classes: tuple[str, ...] | None = declared(strings)
    positive: str | None = declared(label)
    features: tuple[str, ...] | None = declared(strings)
    weights: tuple[tuple[float, ...], ...] | None = declared(_rows)
    biases: tuple[float, ...] | None = declared(numbers)


@dataclass(frozen=True)
class DeclaredClasses(Section):
    """The table ``[classes]``: see :class:`~deltaplane.stream.class_definition.ClassDefinition`."""

    SECTION = "classes"

    names: tuple[str, ...] | None = declared(strings)
    positive: str | None = declared(label)
    most: int | None = declared(whole)


@dataclass(frozen=True)
class DeclaredWindow(Section):
    """The table ``[window]``: ``length`` is ``auto``, that of one window, or those of several."""

    SECTION = "window"

    length: str | tuple[str, ...] | None = declared(_lengths)
    max: int | None = declared(whole)
    pane: int | None = declared(whole)
    keep_rows: bool | None = declared(flag)


@dataclass(frozen=True)
class DeclaredSolver(Section):
    """The table ``[solver]``: ``C`` is ``auto``, one number, or several; ``weighting`` a name, several, or weights."""

    SECTION = "solver"

    kind: str | None = declared(as_it_is)
    weighting: str | tuple[str, ...] | Mapping[str, float] | None = declared(_weighting)
    C: str | float | tuple[float, ...] | None = declared(_choices)
    standardize: bool | None = declared(flag)
    bias: str | None = declared(as_it_is)
    objective: str | None = declared(text)
    calibrate: bool | None = declared(flag)


_SECTIONS: Mapping[str, type[Section]] = {
    kind.SECTION: kind
    for kind in (
        *(DeclaredFeatures, DeclaredGrid, DeclaredMap, DeclaredPrior),
        *(DeclaredClasses, DeclaredWindow, DeclaredSolver),
    )
}

_TOP: Mapping[str, Any] = {"name": text, "partitions": whole, "partitioner": as_it_is, "max_skew": span}

KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset({*_TOP, "columns", *_SECTIONS, "input", "intake", "service", "kafka"}),
    "columns": frozenset({"missing", "rules"}),
    **{name: frozenset(kind.keys()) for name, kind in _SECTIONS.items()},
}
"""The keys that each table may have. ``input`` and ``intake`` say how foreign files and topics are read; the services
read them, and ``service`` and ``kafka``."""


@dataclass(frozen=True)
class DeclaredStream:
    """A stream as it is declared: the keys at the top of a definition file, and its tables.

    ``max_skew_milliseconds`` is the key ``max_skew``. ``columns``: the encoder of the table ``[columns]``, None if
    there is no such table.
    """

    name: str | None = None
    partitions: int | None = None
    partitioner: Any = None
    max_skew_milliseconds: int | None = None
    columns: Encoder | None = None
    features: DeclaredFeatures = field(default_factory=DeclaredFeatures)
    grid: DeclaredGrid = field(default_factory=DeclaredGrid)
    feature_map: DeclaredMap = field(default_factory=DeclaredMap)
    prior: DeclaredPrior = field(default_factory=DeclaredPrior)
    classes: DeclaredClasses = field(default_factory=DeclaredClasses)
    window: DeclaredWindow = field(default_factory=DeclaredWindow)
    solver: DeclaredSolver = field(default_factory=DeclaredSolver)

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """The stream that the tables of a definition file declare; what is None there is as if it were not there.

        Raises :class:`~deltaplane.errors.DefinitionError` if a key is not known, or a value is of another type.
        """
        check_keys(tables, KEYS)
        top = {key: None if (value := tables.get(key)) is None else read(value, key) for key, read in _TOP.items()}
        sections = {name: kind.of(tables.get(name) or {}) for name, kind in _SECTIONS.items()}
        return cls(
            name=top["name"],
            partitions=top["partitions"],
            partitioner=top["partitioner"],
            max_skew_milliseconds=top["max_skew"],
            columns=encoder_of(tables.get("columns") or {}),
            **cast("dict[str, Any]", sections),
        )
