"""What the first rows of a file show of its columns, and the definition that follows from it, with the reasons."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaplane import limits
from deltaplane.columns.cells import plain_cell, text_of
from deltaplane.columns.inference import Inferred, Overrides, infer
from deltaplane.errors import DefinitionError
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.component_tables import grid_table
from deltaplane_services.definition_file.toml_writer import as_toml, inline_toml
from deltaplane_services.readers import ReaderError
from deltaplane_services.readers.bounds import BLOCK_BYTES
from deltaplane_services.readers.byte_sources import ByteSource, open_source
from deltaplane_services.readers.layout import refuse_duplicates
from deltaplane_services.readers.parquet_format import MAGIC
from deltaplane_services.system.printable import plain

__all__ = ["FIRST_BYTES", "FirstRows", "Inspected", "Roles", "definition_text", "first_rows", "inspect"]

FIRST_BYTES = 64 * BLOCK_BYTES
"""Bytes of text that are read at most: longer rows make fewer of them."""


@dataclass(frozen=True)
class FirstRows:
    """Column to cells of the first rows of a file, and how many of these were passed over as no rows."""

    columns: Mapping[str, list[Any]]
    passed_over: int = 0


@dataclass(frozen=True)
class Roles:
    """Which columns are no features: those with the class, the id and the event time of a row."""

    label: str | None = None
    id: str | None = None
    time: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Role to column, for those that are given."""
        roles = {"label": self.label, "id": self.id, "time": self.time}
        return {role: column for role, column in roles.items() if column is not None}


@dataclass(frozen=True)
class Inspected:
    """What was decided about so many rows, and the labels that they have, the most frequent first."""

    inferred: Inferred
    roles: Roles
    rows: int
    passed_over: int
    labels: tuple[tuple[str, int], ...]


def first_rows(source: str, delimiter: str | None = None, rows: int = limits.GRID_FIT_ROWS) -> FirstRows:
    """The first rows of a CSV file, its cells as texts, or of a Parquet file. Raises ReaderError for others."""
    opened = open_source(source)
    try:
        return _of_parquet(opened, rows) if opened.peek(len(MAGIC)) == MAGIC else _of_csv(opened, delimiter, rows)
    finally:
        opened.close()


def _of_parquet(source: ByteSource, rows: int) -> FirstRows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(source.seekable_stream()).iter_batches(batch_size=rows)
        first = next(batches, None)
        if first is None or not first.num_rows:
            raise ReaderError(f"{source.name} has no rows.")
        refuse_duplicates(first.schema.names, source.name)
        return FirstRows({name: first.column(at).to_pylist() for at, name in enumerate(first.schema.names)})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as fault:
        raise ReaderError(f"{source.name} cannot be read as Parquet: {str(fault)[:200]}") from fault


def _of_csv(source: ByteSource, delimiter: str | None, rows: int) -> FirstRows:
    data, ended = bytearray(), False
    while data.count(b"\n") <= rows and len(data) < FIRST_BYTES and not ended:
        more = source.read(BLOCK_BYTES)
        data += more
        ended = not more
    try:
        # A letter that the end of what was read cuts in two belongs to a row that is left out in any case.
        text = bytes(data).decode("utf-8-sig", errors="strict" if ended else "ignore")
    except UnicodeDecodeError as fault:
        raise ReaderError(f"{source.name} is not UTF-8 text at byte {fault.start}; convert it first.") from fault
    header = text.lstrip("\r\n").partition("\n")[0]
    chosen = delimiter or max(",;\t", key=header.count)
    try:
        # One record more than is wanted: where the file goes on, the last one may be cut.
        records = [record for record in csv.reader(io.StringIO(text, newline=""), delimiter=chosen) if record]
    except csv.Error as fault:
        raise ReaderError(f"{source.name} cannot be read as CSV: {fault}.") from fault
    if len(records) < 2:
        raise ReaderError(f"{source.name} has no rows below a header of names.")
    names, body = [name.strip() for name in records[0]], records[1 : len(records) if ended else -1][:rows]
    refuse_duplicates(names, source.name)
    whole = [record for record in body if len(record) == len(names)]
    if not whole:
        raise ReaderError(f"{source.name} has {len(names)} names and no row of as many cells, cut at {chosen!r}.")
    columns = {name: [record[at] for record in whole] for at, name in enumerate(names)}
    return FirstRows(columns, len(body) - len(whole))


def inspect(first: FirstRows, roles: Roles, overrides: Overrides) -> Inspected:
    """Decide a rule for each column but those with a role, from the rows that have a label if there is one."""
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
    return Inspected(infer(columns, labels, overrides), roles, rows, first.passed_over, ordered)


def _known(name: str, role: str, columns: Mapping[str, Any]) -> str:
    if name in columns:
        return name
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(list(columns)[:20])}"
    raise DefinitionError(f"{role}: there is no such column {name!r}{hint}")


def _label(cell: Any) -> str:
    plain_one = plain_cell(cell)
    try:
        return "" if plain_one is None else text_of(plain_one, limits.LABEL_BYTES)
    except ValueError as fault:
        raise DefinitionError(f"label: {plain_one!r:.60} {fault}") from fault


def definition_text(inspected: Inspected, name: str = "stream") -> str:
    """A stream definition in TOML with a line of reason above each rule. It is read back as what was decided."""
    found = inspected.inferred
    table = encoder_table(found.encoder)
    rules = {rule["column"]: rule for rule in table["rules"]}
    lines = [f"# Decided from the first {inspected.rows:,} rows. Change what you know better; then fit the grid anew."]
    ignored = [decision.column for decision in found.decisions if decision.rule is None]
    roles = {**inspected.roles.named, **({"ignore": ignored} if ignored else {})}
    lines += as_toml({"name": name, **({"input": roles} if roles else {})}).splitlines()
    lines += ["", "[columns]", as_toml({"missing": table["missing"]}).strip(), "rules = ["]
    for decision in found.decisions:
        lines.append(f"  # {plain(f'{decision.column}: {decision.reason}')}")
        if decision.warning:
            lines.append(f"  # LOOK: {plain(decision.warning)}")
        if decision.column in rules:
            lines.append("  " + inline_toml(rules[decision.column]) + ",")
    return "\n".join([*lines, "]", as_toml({"grid": grid_table(found.grid)})])
