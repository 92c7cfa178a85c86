"""A table in a file, in a folder of files, or in a Delta Lake: which files hold its rows, at which version.

The files of a folder are taken in the order of their names. Of a Delta table they are those of one version, which stays
what it is until somebody vacuums it away.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltaplane.errors import DeltaplaneError
from deltaplane.public_names import extra_needed
from deltaplane_services.definition_file.file_formats import FORMATS
from deltaplane_services.readers import format_of_name

__all__ = ["LakeError", "LakeFile", "LakeTable", "check_readable", "files_of", "open_table"]

_DELTA_LOG = "_delta_log"
_NOT_READ = ("deletionVectors", "columnMapping")
"""Features of Delta tables whose files do not hold the table's rows as they are."""


class LakeError(DeltaplaneError):
    """A table that cannot be read, and why."""


@dataclass(frozen=True)
class LakeFile:
    """One file of a table: where it is, and its name within the table."""

    path: Path
    name: str


@dataclass(frozen=True)
class LakeTable:
    """The files of a table, in order; ``version`` is None where the table has none."""

    name: str
    version: int | None
    files: tuple[LakeFile, ...]

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table, whose files are named at random."""
        return self.version is not None


def open_table(
    name: str, version: int | None, needed: Collection[str] = (), *, may_be_empty: bool = False
) -> LakeTable:
    """The table at a path; of a Delta table the given version, or the newest.

    ``needed``: the columns that will be read. ``may_be_empty``: whether a version of a Delta table may have no files,
    since its rows were deleted; a folder never may, since nobody can tell why it is empty. Raises :class:`LakeError`
    where there is no such table, and :class:`ExtraMissing` for a Delta table without the library that reads it.
    """
    path = Path(name)
    if (path / _DELTA_LOG).is_dir():
        return _delta_table(name, version, needed, may_be_empty=may_be_empty)
    if version is not None:
        raise LakeError(f"{name}: --version is of Delta tables, and this has no {_DELTA_LOG}; leave it out")
    if path.is_file():
        return LakeTable(name, None, (LakeFile(path, path.name),))
    if not path.is_dir():
        raise LakeError(f"{name}: there is no such file or folder; check the path")
    found = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    # Engines put markers and notes of their own beside the rows.
    found = [file for file in found if not any(part.startswith(("_", ".")) for part in file.parts)]
    if others := [str(file) for file in found if format_of_name(file.name) is None]:
        raise LakeError(
            f"{name}: the folder holds {others[0]!r}, whose name shows none of {', '.join(FORMATS)}; move it elsewhere,"
            " or begin its name with _ to have it left out"
        )
    if not found:
        raise LakeError(
            f"{name}: the folder holds no files of rows; they were taken away, or what holds them is not mounted: bring"
            " them back, or name another folder"
        )
    return LakeTable(name, None, tuple(LakeFile(path / file, str(file)) for file in found))


def _delta_table(name: str, version: int | None, needed: Collection[str], *, may_be_empty: bool) -> LakeTable:
    with extra_needed("a Delta table", "lake"):
        import deltalake
    try:
        table = deltalake.DeltaTable(name, version=version)
    except Exception as fault:
        # The library raises several kinds of errors of its own.
        raise LakeError(f"{name}: version {version} of the Delta table cannot be read: {fault}") from fault
    check_readable(name, table, needed)
    files = files_of(name, table)
    if not files and not may_be_empty:
        raise LakeError(f"{name}: version {table.version()} of the table has no rows; name another")
    if absent := [file.name for file in files if not file.path.exists()]:
        raise LakeError(
            f"{name}: {len(absent):,} of the {len(files):,} files of version {table.version()} are gone"
            f" ({absent[0]}, for one): the table was vacuumed since; bring them back, or name a version that it still"
            " has"
        )
    return LakeTable(name, table.version(), files)


def check_readable(name: str, table: Any, needed: Collection[str]) -> None:
    """Raise :class:`LakeError` unless the files of an opened Delta table hold its rows as they are."""
    try:
        features = set(table.protocol().reader_features or ())
        partitioned = table.metadata().partition_columns
    except Exception as fault:
        raise LakeError(f"{name}: version {table.version()} of the Delta table cannot be read: {fault}") from fault
    if unread := sorted(features.intersection(_NOT_READ)):
        raise LakeError(
            f"{name}: the Delta table has {', '.join(unread)}, so that its files do not hold its rows as they are;"
            " rewrite it (REORG TABLE … APPLY (PURGE)), or write the rows to a folder of Parquet files"
        )
    if inside := sorted(set(needed).intersection(partitioned)):
        raise LakeError(
            f"{name}: the table is partitioned by {', '.join(inside)}, which is in the names of its files and not in"
            " them; write the rows with that column to a folder of Parquet files"
        )


def files_of(name: str, table: Any) -> tuple[LakeFile, ...]:
    """The files of an opened Delta table, in the order of their names. Raises :class:`LakeError`."""
    try:
        uris = table.file_uris()
    except Exception as fault:
        raise LakeError(f"{name}: version {table.version()} of the Delta table cannot be read: {fault}") from fault
    root = Path(name).resolve()
    files = []
    for uri in sorted(uris):
        if urlsplit(uri).scheme not in ("", "file"):
            raise LakeError(f"{name}: {uri} is not on this machine; mount it, or use an engine that reads it")
        path = Path(unquote(urlsplit(uri).path) if uri.startswith("file:") else uri)
        files.append(LakeFile(path, str(path.relative_to(root)) if path.is_relative_to(root) else str(path)))
    return tuple(files)
