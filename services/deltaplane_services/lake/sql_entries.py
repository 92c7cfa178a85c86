"""Entries of the Gram matrices of a table by plain SQL, which shares no code with what has summed it.

DuckDB reads the Parquet files, puts each value on the grid, leaves out what a stream does not admit, takes the last
version of each id, and adds products up in integers of 128 bits. All that it is told of the stream is its definition.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from deltaplane import limits
from deltaplane.exact.statistics import Statistics
from deltaplane.public_names import extra_needed
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.lake.last_versions import LastBy
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, LakeTable
from deltaplane_services.readers import format_of_name

__all__ = ["Drawn", "Place", "SqlTable", "draw_places", "places_in_sql"]

Place = tuple[int, int]
"""Row and column of an entry of a Gram matrix, from 0; the last of both is the -1 that stands beside the features."""

_BLANKS = "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())
"""The signs that are taken off both ends of a text."""

_WHOLE = r"[+-]?(0|[1-9][0-9]{0,14})(\.0*)?"
"""Texts that are whole numbers below 2**53, which name the same class however they are written."""

_DECIMAL = r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = (*_INTEGERS, "FLOAT", "DOUBLE", "BOOLEAN")
_TEXTS = ("VARCHAR", *_INTEGERS, "BOOLEAN")
_MICROSECONDS = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS")
_TIMES = (*_MICROSECONDS, "TIMESTAMP_NS")


@dataclass(frozen=True)
class Drawn:
    """How many entries of each class are drawn, and the ``seed`` that they are drawn by."""

    entries: int
    seed: int


def places_in_sql(definition: StreamDefinition) -> list[int]:
    """The rows of a Gram matrix that SQL can compute, the last included: those of features that no map has bent."""
    plain = len(definition.features) if definition.feature_map.kind == "none" else definition.feature_map.beside
    return [*range(plain), definition.dimension - 1]


def draw_places(among: Sequence[int], drawn: Drawn) -> list[Place]:
    """So many different entries of a triangle, in order; no row is drawn a second time before each was drawn once."""
    every = len(among) * (len(among) + 1) // 2
    if drawn.entries >= every:
        return [(one, other) for at, one in enumerate(among) for other in among[at:]]
    generator, found = random.Random(drawn.seed), set[Place]()  # noqa: S311 - it is a sample, which is told.
    while len(found) < drawn.entries:
        waiting = list(among)
        generator.shuffle(waiting)
        while waiting and len(found) < drawn.entries:
            one = waiting.pop()
            with_itself = not waiting or generator.random() < 1 / len(among)
            other = one if with_itself else waiting.pop()
            found.add((min(one, other), max(one, other)))
    return sorted(found)


@dataclass(frozen=True)
class SqlTable:
    """A table as SQL reads it: the last version by ``last_by`` of each id counts, those of ``without`` do not.

    ``threads`` work at once.
    """

    table: LakeTable
    columns: ColumnsOfTable
    last_by: LastBy | None = None
    without: Collection[str] = ()
    threads: int = 1
    _types: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def differences(self, statistics: Statistics, window: int, places: Sequence[Place]) -> tuple[str, ...]:
        """Each entry of the ``statistics`` of a window that SQL finds otherwise, in words; counts of rows included.

        Raises :class:`LakeError` where SQL cannot read the table as the stream does, and :class:`ExtraMissing` without
        the library.
        """
        found = self.entries(places)
        grams = statistics.grams(window)
        faults = []
        for label in sorted(found.keys() | grams.keys()):
            rows, sums = found.get(label, (0, [0] * len(places)))
            count = grams[label].count if label in grams else 0
            if rows != count:
                faults.append(f"SQL counts {rows:,} rows of class {label!r}, the model contains {count:,}")
            for place, by_sql in zip(places, sums, strict=True):
                entry = grams[label].entry(*place) if label in grams else 0
                if by_sql != entry:
                    faults.append(
                        f"SQL finds {by_sql} at {self._place_in_words(place)} of class {label!r}, the model contains"
                        f" {entry}"
                    )
        return tuple(faults)

    def entries(self, places: Sequence[Place]) -> Mapping[str, tuple[int, list[int]]]:
        """Class to (its number of rows, its entries at some places), by SQL; errors as in :meth:`differences`."""
        with extra_needed("an audit by SQL", "lake"):
            import duckdb
        if not self.table.files:
            return {}
        self._check()
        with TemporaryDirectory() as spilled, duckdb.connect() as connection:
            connection.execute(f"SET threads = {self.threads}")
            connection.execute(f"SET temp_directory = {_text(spilled)}")
            connection.execute("SET TimeZone = 'UTC'")
            # A file's least and greatest number leave NaN out, so DuckDB concludes from them that no number is one.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            try:
                described = connection.execute(f"DESCRIBE SELECT * FROM {self._source}", self._files).fetchall()
                self._types.update((name, kind) for name, kind, *_ in described)
                connection.execute("CREATE TABLE without (id VARCHAR)")
                connection.execute("INSERT INTO without SELECT unnest($1::VARCHAR[])", [sorted(self.without)])
                found = connection.execute(self.query(places), self._files).fetchall()
            except duckdb.Error as fault:
                raise LakeError(f"{self.table.name}: DuckDB: {fault}") from fault
        return {label: (rows, [int(one or 0) for one in sums]) for label, rows, *sums in found}

    def query(self, places: Sequence[Place]) -> str:
        """The statement; its parameter is the list of files."""
        definition, options = self.columns.definition, self.columns.options
        features, last = range(len(definition.features)), definition.dimension - 1
        used = sorted({one for place in places for one in place} - {last})
        has_ids = options.id is not None
        conditions = ["class IS NOT NULL", *(f"abs(g{at}) < {definition.grid.range}" for at in features)]
        if has_ids:
            conditions.append(f"strlen(id) BETWEEN 1 AND {limits.ID_BYTES}")
        if options.time is not None:
            conditions.append("time IS NOT NULL")
        reading = ["file", "file_row_number AS place", f"{self._label()} AS label", *map(self._on_grid, features)]
        reading += [f"{self._as_text(options.id)} AS id"] if options.id is not None else []
        reading += [f"{self._time(options.time)} AS time"] if options.time is not None else []
        kept = [*(["id"] if has_ids else []), *(["time"] if options.time is not None else [])]
        kept += ["class", "file", "place", *(f"TRY_CAST(g{at} AS HUGEINT) AS q{at}" for at in used)]
        order = ["time DESC"] if self.last_by == "time" else []
        order += ["file DESC", "place DESC"]
        newest = f" QUALIFY row_number() OVER (PARTITION BY id ORDER BY {', '.join(order)}) = 1" if has_ids else ""
        counting = " ANTI JOIN without USING (id)" if has_ids else ""
        sums = [
            f"sum({' * '.join('(-1)::HUGEINT' if one == last else f'q{one}' for one in place)})" for place in places
        ]
        return "\n".join(
            (
                "WITH files AS (SELECT unnest($1) AS name, generate_subscripts($1, 1) AS file),",
                f"read AS (SELECT {', '.join(reading)} FROM {self._source} JOIN files ON filename = name),",
                f"named AS (SELECT *, {self._class()} AS class FROM read),",
                f"admitted AS (SELECT {', '.join(kept)} FROM named WHERE {' AND '.join(conditions)}),",
                f"newest AS (SELECT * FROM admitted{newest})",
                f"SELECT {', '.join(['class', 'count(*)', *sums])} FROM newest{counting} GROUP BY class",
            )
        )

    # What a stream does with one value --------------------------------------------------------------------------------

    def _on_grid(self, at: int) -> str:
        """The feature of a place on the grid, as whole DOUBLE; NULL or NaN where it is missing."""
        definition, options = self.columns.definition, self.columns.options
        name = definition.features[at]
        number = f"CAST({self._column(name, _NUMBERS, 'features')} AS DOUBLE)"
        for missing in sorted(options.number_form.missing_numbers):
            number = f"nullif({number}, {_number(missing)})"
        offset = _number(float(definition.grid.offsets[at]))
        if definition.missing == "offset":
            number = f"coalesce(nullif({number}, 'NaN'::DOUBLE), {offset})"
        return f"round_even(({number} - {offset}) / {_number(float(definition.grid.steps[at]))}, 0) AS g{at}"

    def _label(self) -> str:
        """The label of a row, in the one spelling that it has; NULL where it is missing."""
        options = self.columns.options
        assert options.label is not None, "it was needed to sum the table"
        text = self._as_text(options.label, more=("FLOAT", "DOUBLE"))
        if self._types[self._in_file(options.label)] in ("FLOAT", "DOUBLE"):
            number = f"CAST({_name(self._in_file(options.label))} AS DOUBLE)"
            text = f"CASE WHEN isnan({number}) THEN NULL WHEN {number} <> trunc({number}) OR abs({number}) >= 2^53"
            text += f" THEN {_fraction(number)} ELSE CAST(CAST({number} AS BIGINT) AS VARCHAR) END"
        declared = sorted(options.declared_labels)
        whole = f"CAST(CAST(CAST({text} AS DOUBLE) AS BIGINT) AS VARCHAR)"
        numbers = [
            f"WHEN {whole} = {_text(str(int(float(name))))} THEN {_text(name)}"
            for name in declared
            if re.fullmatch(_WHOLE, name)
        ]
        whole = f"CASE {' '.join(numbers)} ELSE {whole} END" if numbers else whole
        missing = sorted({*options.na, ""} - {*declared})
        cases = [f"WHEN {text} IN ({', '.join(map(_text, declared))}) THEN {text}"] if declared else []
        cases.append(f"WHEN {text} IN ({', '.join(map(_text, missing))}) THEN NULL")
        cases.append(f"WHEN regexp_full_match({text}, '[+-]?nan', 'i') THEN NULL")
        if options.labels != "text":
            cases.append(f"WHEN regexp_full_match({text}, {_text(_WHOLE)}) THEN {whole}")
            cases.append(f"WHEN regexp_full_match({text}, '[+-]?[0-9]+') THEN {text}")
            cases.append(f"WHEN regexp_full_match({text}, {_text(_DECIMAL)}) THEN {_fraction(text)}")
        return f"CASE {' '.join(cases)} ELSE {text} END"

    def _class(self) -> str:
        """The class of a label; NULL where the stream does not admit it."""
        classes = self.columns.definition.classes
        named = "label"
        if classes.positive is not None:
            positive = _text(classes.positive)
            named = (
                f"CASE WHEN label IS NULL THEN NULL WHEN label = {positive} THEN label ELSE {_text(classes.rest)} END"
            )
        known = [f"strlen(label) <= {limits.LABEL_BYTES}"]
        if classes.names:
            known.append(f"label IN ({', '.join(map(_text, classes.names))})")
        return f"CASE WHEN {' AND '.join(known)} THEN {named} END"

    def _time(self, name: str) -> str:
        """The event time of a row in milliseconds, rounded as the stream does; NULL where it is missing."""
        column = self._column(name, _TIMES, "times")
        nano = self._types[self._in_file(name)] == "TIMESTAMP_NS"
        ticks, unit = (f"epoch_ns({column})", 10**6) if nano else (f"epoch_us({column})", 10**3)
        rest = f"((({ticks} % {unit}) + {unit}) % {unit})"
        whole = f"(({ticks} - {rest}) // {unit})"
        return f"{whole} + CAST(2 * {rest} > {unit} OR (2 * {rest} = {unit} AND {whole} % 2 <> 0) AS BIGINT)"

    def _as_text(self, name: str, more: Collection[str] = ()) -> str:
        column = self._column(name, (*_TEXTS, *more), "texts")
        return f"trim(CAST({column} AS VARCHAR), {_text(_BLANKS)})"

    def _column(self, name: str, kinds: Collection[str], what: str) -> str:
        """The column of a name, quoted. Raises :class:`LakeError` unless it is of one of some types."""
        there = self._in_file(name)
        kind = self._types.get(there)
        if kind is None:
            raise LakeError(f"{self.table.name}: its files have no column {there!r}")
        if kind.startswith("ENUM"):
            kind = "VARCHAR"
        if kind not in kinds:
            raise LakeError(
                f"{self.table.name}: the column {there!r} holds {kind}, which SQL would read otherwise than the stream;"
                f" for --sql, {what} must be one of {', '.join(kinds)}"
            )
        return _name(there)

    # ------------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise :class:`LakeError` for a table whose rows SQL cannot make."""
        others = [file.name for file in self.table.files if format_of_name(file.name) != "parquet"]
        options = self.columns.options
        for refused, why in (
            (bool(others), f"SQL reads files of Parquet, and the table has {', '.join(others[:1])}"),
            (self.columns.definition.columns is not None, "SQL does not know the rules of [columns]"),
            (options.time_zone is not None, "SQL does not know the zone of local times"),
        ):
            if refused:
                raise LakeError(f"{self.table.name}: {why}; audit it without --sql")

    @property
    def _files(self) -> list[Any]:
        return [[str(file.path) for file in self.table.files]]

    @property
    def _source(self) -> str:
        return (
            "read_parquet($1, filename = true, file_row_number = true, union_by_name = true, hive_partitioning = false)"
        )

    def _in_file(self, name: str) -> str:
        """What the files call a column."""
        return {new: old for old, new in self.columns.options.renamed}.get(name, name)

    def _place_in_words(self, place: Place) -> str:
        names = (*self.columns.definition.plane_features, "-1")
        return f"({names[place[0]]}, {names[place[1]]})"


def _text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    """A name in SQL."""
    return '"' + value.replace('"', '""') + '"'


def _fraction(label: str) -> str:
    """An expression that ends the statement: SQL does not know which labels are the same fraction."""
    return f"error('a label is the fraction ' || CAST({label} AS VARCHAR) || '; audit it without --sql')"


def _number(value: float) -> str:
    """A number in SQL, exactly."""
    return f"{_text(repr(value))}::DOUBLE"
