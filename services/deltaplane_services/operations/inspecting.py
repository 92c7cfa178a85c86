"""A rule for each column of a file, decided from its first rows, and the definition with the reasons."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from deltaplane import limits
from deltaplane.columns.cells import plain_cell, text_of
from deltaplane.columns.encoder import Cells, CodedCells
from deltaplane.columns.inference import Inferred, Overrides
from deltaplane.errors import DefinitionError
from deltaplane.stream.automatic_map import why_flat
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.component_tables import fit_feature_map, grid_table
from deltaplane.stream.declared import DeclaredMap
from deltaplane.stream.nested_windows import AUTOMATIC_LONGEST, NestedWindows
from deltaplane_services.definition_file.toml_writer import as_toml, inline_toml
from deltaplane_services.produce.column_choice import inferred_of
from deltaplane_services.readers import Looked, ReaderError, ReaderOptions, open_rows
from deltaplane_services.readers.cells import AS_NUMBERS
from deltaplane_services.system.printable import plain

__all__ = ["FirstRows", "Inspected", "Roles", "definition_text", "first_rows", "inspect"]


@dataclass(frozen=True)
class FirstRows:
    """Column name to the cells of the first rows; ``passed_over`` counts rows with a different number of cells."""

    columns: Mapping[str, list[Any]]
    passed_over: int = 0


@dataclass(frozen=True)
class Roles:
    """The columns that are not features: those with the class, the id and the event time of a row."""

    label: str | None = None
    id: str | None = None
    time: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Role to column, for the roles that are given."""
        roles = {"label": self.label, "id": self.id, "time": self.time}
        return {role: column for role, column in roles.items() if column is not None}


@dataclass(frozen=True)
class Inspected:
    """The decisions made from ``rows`` rows, and the counts of their labels, the most frequent first.

    ``feature_map``: the table ``[feature_map]`` of the map ``auto``, fitted on the rows. ``flat_because``: why it is no
    map; None if it is one.
    """

    inferred: Inferred
    roles: Roles
    rows: int
    passed_over: int
    labels: tuple[tuple[str, int], ...]
    feature_map: Mapping[str, Any]
    flat_because: str | None


def first_rows(source: str | BinaryIO, options: ReaderOptions | None = None, named: Iterable[str] = ()) -> FirstRows:
    """All columns of the first rows of a file, read by the readers of ``replay``.

    ``options`` say how the file is written, and ``named`` are columns that the caller knows. Raises ReaderError if it
    cannot be read, has no rows, or is LIBSVM.
    """
    seen: list[FirstRows] = []

    def look(columns: Mapping[str, Cells], passed_over: int) -> None:
        seen.append(FirstRows({name: _listed(cells) for name, cells in columns.items()}, passed_over))

    try:
        # Opening is enough: the reader calls ``look``, then raises Looked.
        with open_rows(source, replace(options or ReaderOptions(), look=look, looked_for=tuple(named))):
            pass
    except Looked:
        return seen[0]
    raise ReaderError(
        f"{source if isinstance(source, str) else 'The file'} is LIBSVM, whose features are numbers: there is nothing"
        " to decide on; replay it as it is."
    )


def _listed(cells: Cells) -> list[Any]:
    if isinstance(cells, CodedCells):
        return [cells.cells[code] for code in cells.codes.tolist()]
    return list(cells.tolist() if isinstance(cells, np.ndarray) else cells)


def inspect(first: FirstRows, roles: Roles, overrides: Overrides) -> Inspected:
    """A rule for each column without a role, decided from the rows that have a label, or from all if no label is named.

    Raises DefinitionError for a column that does not exist, and for a label column that is empty.
    """
    columns = dict(first.columns)
    taken = {role: columns.pop(_known(name, role, columns)) for role, name in roles.named.items()}
    labels = None
    if "label" in taken:
        labels = [_label(cell) for cell in taken["label"]]
        kept = [row for row, text in enumerate(labels) if text]
        if not kept:
            raise DefinitionError(f"label: column {roles.label!r} is missing in every row")
        columns = {name: [cells[row] for row in kept] for name, cells in columns.items()}
        labels = [labels[row] for row in kept]
    counts: dict[str, int] = {}
    for text in labels or ():
        counts[text] = counts.get(text, 0) + 1
    ordered = tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    rows = len(next(iter(columns.values()), ()))
    inferred = inferred_of(columns, labels, overrides)
    feature_map, flat_because = _map(inferred, columns, len(ordered))
    return Inspected(inferred, roles, rows, first.passed_over, ordered, feature_map, flat_because)


def _map(inferred: Inferred, columns: Mapping[str, Cells], classes: int) -> tuple[dict[str, Any], str | None]:
    """The table of the map ``auto`` for the automatic windows, and why it is no map; ``classes`` is 0 if not known."""
    if not classes:
        return {"kind": "none"}, "no label is named, and how many classes there are decides on it; name it with --label"
    encoded = inferred.encoder.encode(columns)
    rows, windows = encoded.features[encoded.fits], NestedWindows.automatic(AUTOMATIC_LONGEST)
    fitted = fit_feature_map(DeclaredMap(kind="auto"), inferred.grid, rows, windows, classes)
    return fitted.table, why_flat(rows.shape[1], len(rows), classes, windows)


def _known(name: str, role: str, columns: Mapping[str, Any]) -> str:
    if name in columns:
        return name
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(list(columns)[:20])}"
    raise DefinitionError(f"{role}: there is no such column {name!r}{hint}")


def _label(cell: Any) -> str:
    plain_one = plain_cell(cell)
    try:
        return "" if plain_one is None else AS_NUMBERS(text_of(plain_one, limits.LABEL_BYTES))
    except ValueError as fault:
        raise DefinitionError(f"label: {plain_one!r:.60} {fault}") from fault


def definition_text(inspected: Inspected, name: str = "stream", said: Mapping[str, Any] | None = None) -> str:
    """A stream definition in TOML, with the reason in a comment above each rule; reading it gives the same rules.

    ``said`` are the entries of ``[input]`` on how the file is written.
    """
    found = inspected.inferred
    table = encoder_table(found.encoder)
    rules = {rule["column"]: rule for rule in table["rules"]}
    known_better = "Change what you know better; then fit grid and map anew."
    lines = [f"# Decided from the first {inspected.rows:,} rows. {known_better}"]
    ignored = [decision.column for decision in found.decisions if decision.rule is None]
    roles = {**inspected.roles.named, **({"ignore": ignored} if ignored else {}), **(said or {})}
    lines += as_toml({"name": name, **({"input": roles} if roles else {})}).splitlines()
    lines += ["", "[columns]", as_toml({"missing": table["missing"]}).strip(), "rules = ["]
    for decision in found.decisions:
        lines.append(f"  # {plain(f'{decision.column}: {decision.reason}')}")
        if decision.warning:
            lines.append(f"  # LOOK: {plain(decision.warning)}")
        if decision.column in rules:
            lines.append("  " + inline_toml(rules[decision.column]) + ",")
    lines += ["]", as_toml({"grid": grid_table(found.grid)})]
    if inspected.flat_because is None:
        lines += ["# Curved candidates beside the flat ones, at about five times the processor time. Without the table"]
        lines += ['# all are flat. With kind = "auto" and nothing else, replay fits it anew.']
        lines += [as_toml({"feature_map": inspected.feature_map})]
    else:
        lines += [f"# No curved candidates, and so no table [feature_map]: {plain(inspected.flat_because)}.", ""]
    return "\n".join(lines)
