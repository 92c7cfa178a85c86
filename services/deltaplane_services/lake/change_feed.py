"""The change data feed of a Delta table, version by version: the rows that a version brought, and those that it took.

A version is read as the table was then, so that its rows have the types of their time. Where the feed was off, where
files are gone, or where a column that is read has another type than before, nothing is concluded: it is said at which
version the table must be summed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from deltaplane.log.partial import Partial
from deltaplane.public_names import extra_needed
from deltaplane_services.lake.block_sums import admitted_of_block, check_features, partial_of_admitted
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, check_readable, files_of
from deltaplane_services.processors.history_source import VersionChange
from deltaplane_services.readers.arrow_columns import ArrowRows

__all__ = ["FEED_PROPERTY", "ChangeFeed", "IsOut"]

FEED_PROPERTY = "delta.enableChangeDataFeed"
"""The property of a table that has its changes written."""

_KIND = "_change_type"
_OF_THE_FEED = ("_commit_version", "_commit_timestamp")
_SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
_SHOWN_IDS = 3

IsOut = Callable[[str], bool]
"""Whether the rows of an id do not count."""


class ChangeFeed:
    """The changes of the Delta table at a path, read as ``columns`` say."""

    def __init__(self, name: str, columns: ColumnsOfTable) -> None:
        with extra_needed("a Delta table", "lake"):
            import deltalake
        self._table: Callable[..., Any] = deltalake.DeltaTable
        self.name, self._definition, self._options = name, columns.definition, columns.options
        self._needed = list(dict.fromkeys(columns.needed))

    def newest(self) -> int:
        """The newest version of the table. Raises :class:`LakeError` where it cannot be read."""
        try:
            return int(self._table(self.name).version())
        except Exception as fault:
            # The library raises several kinds of errors of its own.
            raise LakeError(f"{self.name}: the Delta table cannot be read: {fault}") from fault

    def change(self, version: int, is_out: IsOut) -> VersionChange:
        """What a version changed, but for rows whose ids are out.

        Raises :class:`LakeError` where the feed does not tell, where a column is not what it was, and where an id has
        two rows that count; and :class:`ReaderError` where columns and definition do not go together.
        """
        table, definition = self._at(version), self._definition
        self._check(table, version)
        brought = taken = Partial.zero(definition)
        ids = _IdChanges()
        rows, first_row = None, 1
        for batch in self._batches(table, version):
            rows = rows or self._rows(batch.schema)
            for sign, part in _by_sign(batch, f"{self.name}: version {version}"):
                block = rows.block(part, first_row)
                if block.ids is not None:
                    block = block.where(np.array([not is_out(one) for one in block.ids], dtype=np.bool_))
                admitted, refused = admitted_of_block(definition, block)
                if self._id is not None:
                    ids.add(part.column(self._id).take(admitted.rows - first_row), sign)
                summed = partial_of_admitted(definition, block, admitted, refused, f"version {version}: ")
                brought, taken = (brought + summed, taken) if sign > 0 else (brought, taken + summed)
                first_row += part.num_rows
        if rows is not None:
            self._check_ids(table, version, ids.added(), rows)
        return VersionChange(version, brought, taken)

    def _at(self, version: int) -> Any:
        try:
            return self._table(self.name, version=version)
        except Exception as fault:
            raise self._anew(version, f"the log of the table no longer has it ({_first_line(fault)})") from fault

    def _check(self, table: Any, version: int) -> None:
        """Raise :class:`LakeError` unless a version can be followed from the one before."""
        check_readable(self.name, table, self._needed)
        if table.metadata().configuration.get(FEED_PROPERTY) != "true":
            raise self._anew(
                version,
                f"the change data feed was off then; set {FEED_PROPERTY} = true (ALTER TABLE … SET TBLPROPERTIES"
                f" ('{FEED_PROPERTY}' = 'true'))",
            )
        now, before = (_types(one) for one in (table, self._at(version - 1)))
        for name in self._needed:
            if now.get(name) != before.get(name):
                raise self._anew(
                    version, f"its column {name!r} holds {now.get(name, 'nothing')}, and {before.get(name)} before"
                )

    def _batches(self, table: Any, version: int) -> Iterator[Any]:
        """The changes of a version, with the columns of the table and their kind, and texts of the plain type."""
        import pyarrow as pa

        try:
            stream = pa.RecordBatchReader.from_stream(table.load_cdf(version, version))
            wanted = [name for name in stream.schema.names if name not in _OF_THE_FEED]
            for batch in stream:
                yield _plain(batch.select(wanted))
        except Exception as fault:
            raise self._anew(
                version, f"its changes cannot be read, as when their files were vacuumed away ({_first_line(fault)})"
            ) from fault

    def _rows(self, schema: Any) -> ArrowRows:
        import pyarrow as pa

        plain = pa.schema([field for field in schema if field.name != _KIND])
        rows = ArrowRows.of_schema(plain, self._options, self.name)
        check_features(self._definition, rows.feature_names, self.name)
        return rows

    @property
    def _id(self) -> str | None:
        """The column of ids, as the table calls it."""
        options = self._options
        old_names = {new: old for old, new in options.renamed}
        return None if options.id is None else old_names.get(options.id, options.id)

    def _check_ids(self, table: Any, version: int, added: Any, rows: ArrowRows) -> None:
        """Raise :class:`LakeError` where an id that was ``added`` has two rows that count in a version."""
        import pyarrow as pa

        if not len(added):
            return
        try:
            if sum(batch.num_rows for batch in self._rows_of(table, added, [self._id])) <= len(added):
                return
            # Rows that the definition refuses may have the id of another.
            seen = Counter[str]()
            for batch in self._rows_of(table, added):
                admitted, _ = admitted_of_block(self._definition, rows.block(batch, 1))
                seen.update(admitted.ids)
        except (pa.ArrowException, OSError) as fault:
            raise LakeError(f"{self.name}: version {version} of the table cannot be read: {fault}") from fault
        if repeated := sorted(one for one, count in seen.items() if count > 1):
            shown = ", ".join(map(repr, repeated[:_SHOWN_IDS]))
            raise LakeError(
                f"{self.name}: at version {version} {len(repeated):,} ids have several rows that count ({shown}), and a"
                " change feed does not tell which of them is the last. Delete the others from the table, and follow a"
                " history that is computed after that; or compute the history again at each version that you want"
                " (deltaplane bootstrap compute --last-by time)"
            )

    def _rows_of(self, table: Any, ids: Any, columns: list[str | None] | None = None) -> Iterator[Any]:
        """The rows of a version whose ids are among some, as record batches of these columns, or of all."""
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        files = [str(file.path) for file in files_of(self.name, table)]
        for batch in ds.dataset(files, format="parquet").to_batches(columns=columns) if files else ():
            plain = _plain(batch)
            yield plain.filter(pc.is_in(_spelled(plain.column(self._id)), value_set=ids))

    def _anew(self, version: int, why: str) -> LakeError:
        """That a version cannot be followed."""
        newest = self.newest()
        return LakeError(
            f"{self.name}: version {version} of the table cannot be followed: {why}. Compute the history anew at"
            f" version {newest} or later (deltaplane bootstrap compute --version {newest}), remove this source"
            " (deltaplane source remove), publish the new history as another one (--source), and follow that"
        )


class _IdChanges:
    """How many rows more, or fewer, ids have by the changes of a version."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, int]] = []

    def add(self, ids: Any, sign: int) -> None:
        """Take a column of ids, whose rows came (1) or went (-1)."""
        self._parts.append((_spelled(ids), sign))

    def added(self) -> Any:
        """The ids that have more rows than before, as an Arrow array."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._parts:
            return pa.array([], pa.large_string())
        ids = pa.chunked_array([part for part, _ in self._parts])
        signs = pa.chunked_array([pa.array(np.full(len(part), sign)) for part, sign in self._parts])
        total = pa.table({"id": ids, "sign": signs}).group_by("id").aggregate([("sign", "sum")])
        return total.filter(pc.greater(total["sign_sum"], 0))["id"].combine_chunks()


def _spelled(ids: Any) -> Any:
    """A column of ids in a spelling in which ids are equal if they are equal texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
        return pc.utf8_trim_whitespace(ids.cast(pa.large_string()))
    return ids


def _plain(batch: Any) -> Any:
    """A record batch with texts of the types that can be filtered: views cannot."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    fields = [field.with_type(plain.get(field.type, field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields))


def _by_sign(batch: Any, where: str) -> Iterator[tuple[int, Any]]:
    """(1 for rows that came and -1 for those that went, these rows without the column that says so)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = batch.column(_KIND)
    if unknown := sorted(set(pc.unique(kinds).to_pylist()) - _SIGNS.keys()):
        raise LakeError(f"{where}: expected changes of the kinds {', '.join(_SIGNS)}, got {unknown[0]!r}")
    for sign in (1, -1):
        names = pa.array([kind for kind, of_kind in _SIGNS.items() if of_kind == sign], kinds.type)
        part = batch.filter(pc.is_in(kinds, value_set=names)).drop_columns([_KIND])
        if part.num_rows:
            yield sign, part


def _types(table: Any) -> dict[str, str]:
    """Column to its type, as words."""
    return {field.name: str(field.type) for field in table.schema().fields}


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]
