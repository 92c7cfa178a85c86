"""The hashes of all ids of a table: in memory as long as they fit, else in a file on disk that DuckDB sorts.

Which rows may share an id is told in parts, so that the ids themselves, which are read again, fit in memory: all rows
of an id have its hash, and so are in one part.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.public_names import extra_needed
from deltaplane_services.lake.last_versions import suspects_of

__all__ = ["MOST_IN_MEMORY", "ROWS_OF_A_PART", "HashesOfIds"]

MOST_IN_MEMORY = 200_000_000
"""Rows whose hashes are held in memory, 16 bytes each while they are sorted: 3 GB."""

ROWS_OF_A_PART = 10_000_000
"""Rows whose ids are read again at once, about a hundred bytes each: 1 GB."""

_MEMORY = "3GB"


class HashesOfIds:
    """The hashes of the ids of each file's rows, by the number of the file; nobody adds a file twice.

    What lies on disk goes with it.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._held: dict[int, Int64s] | None = {}
        self._database: Any = None

    def add(self, file: int, hashes: Int64s) -> None:
        """Take the hashes int64[rows] of the rows of a file.

        Raises :class:`ExtraMissing` where they no longer fit in memory, and the library that sorts them is not there.
        """
        self._rows += len(hashes)
        if self._held is not None:
            self._held[file] = hashes
            if self._rows <= MOST_IN_MEMORY:
                return
            self._open()
            for number, of_file in self._held.items():
                self._write(number, of_file)
            self._held = None
        else:
            self._write(file, hashes)

    def suspects(self, wanted: Int64s) -> Iterator[Mapping[int, Int64s]]:
        """In parts: number of a file to the ordinals int64[n], which ascend, of its rows that may share an id.

        These are rows whose hash comes twice, or is one of those ``wanted`` int64[k]. Rows of one hash are in one part.
        """
        if self._held is not None:
            numbers = sorted(self._held)
            found = suspects_of([self._held[number] for number in numbers], wanted)
            yield {number: at for number, at in zip(numbers, found, strict=True) if len(at)}
            return
        self._want(wanted)
        self._database.execute(
            "CREATE OR REPLACE TABLE suspects AS SELECT hash, file, place FROM hashes WHERE hash IN"
            " (SELECT hash FROM hashes GROUP BY hash HAVING count(*) > 1) OR hash IN (SELECT hash FROM wanted)"
        )
        ((rows,),) = self._database.execute("SELECT count(*) FROM suspects").fetchall()
        parts = -(-rows // ROWS_OF_A_PART)
        for part in range(parts):
            of_part = "SELECT file, place FROM suspects WHERE (hash % $1 + $1) % $1 = $2 ORDER BY file, place"
            yield self._by_file(of_part, [parts, part])

    def having(self, wanted: Int64s) -> Mapping[int, Int64s]:
        """Number of a file to the ordinals int64[n], which ascend, of its rows whose hash is among those int64[k]."""
        if self._held is not None:
            found = {file: np.flatnonzero(np.isin(hashes, wanted)) for file, hashes in sorted(self._held.items())}
            return {file: at.astype(np.int64) for file, at in found.items() if len(at)}
        self._want(wanted)
        return self._by_file("SELECT file, place FROM hashes SEMI JOIN wanted USING (hash) ORDER BY file, place")

    def _open(self) -> None:
        with extra_needed(f"a table of more than {MOST_IN_MEMORY:,} rows with ids", "lake"):
            import duckdb
        place = mkdtemp(prefix="deltaplane-")
        weakref.finalize(self, rmtree, place, ignore_errors=True)
        self._database = duckdb.connect(str(Path(place) / "hashes.duckdb"))
        self._database.execute(f"SET memory_limit = '{_MEMORY}'")
        # Rows are put in order where they are asked for.
        self._database.execute("SET preserve_insertion_order = false")
        self._database.execute("CREATE TABLE hashes (hash BIGINT, file BIGINT, place BIGINT)")

    def _write(self, file: int, hashes: Int64s) -> None:
        import pyarrow as pa

        places = np.arange(len(hashes), dtype=np.int64)
        self._database.register("part", pa.table({"hash": hashes, "place": places}))
        self._database.execute("INSERT INTO hashes SELECT hash, $1, place FROM part", [file])
        self._database.unregister("part")

    def _want(self, wanted: Int64s) -> None:
        import pyarrow as pa

        self._database.register("part", pa.table({"hash": wanted}))
        self._database.execute("CREATE OR REPLACE TABLE wanted AS SELECT DISTINCT hash FROM part")
        self._database.unregister("part")

    def _by_file(self, query: str, parameters: Sequence[int] = ()) -> Mapping[int, Int64s]:
        found = self._database.execute(query, list(parameters)).fetchnumpy()
        files, places = (np.asarray(found[name], dtype=np.int64) for name in ("file", "place"))
        numbers, begins = np.unique(files, return_index=True)
        return dict(zip(numbers.tolist(), np.split(places, begins[1:]), strict=True)) if len(numbers) else {}
