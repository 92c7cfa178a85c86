"""A new grid fitted on the rows of a stream, and the definition of a new stream with this grid."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.refit import Refit, refit_grid
from deltaplane.maps.standards import SCALE_LARGEST, SCALE_SMALLEST
from deltaplane.stream.component_tables import grid_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.messages import SAMPLES, Record

__all__ = ["MOST_ROWS", "RowsSeen", "check_new", "refitted_tables", "rows_of_file"]

MOST_ROWS = limits.GRID_FIT_ROWS
"""The most rows kept that fit the old grid, and the most that do not."""


class RowsSeen:
    """The newest rows that fit the old grid, the extremes of all such rows, and the newest rows that do not fit."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.fit = self.refused = 0
        self._definition = definition
        features = len(definition.features)
        self._newest, self._outside = np.empty((0, features)), np.empty((0, features))
        self._extremes = np.empty((0, features))

    def add(self, rows: Floats) -> None:
        """Add raw rows float64[n, d]."""
        _, fits = self._definition.grid.quantize(np.where(np.isnan(rows), self._definition.grid.offsets, rows))
        inside, outside = rows[fits], rows[~fits]
        self.fit += len(inside)
        self.refused += len(outside)
        self._newest = np.concatenate([self._newest, inside])[-MOST_ROWS:]
        self._outside = np.concatenate([self._outside, outside])[-MOST_ROWS:]
        if len(inside):
            every = np.concatenate([self._extremes, inside])
            self._extremes = np.vstack([np.fmin.reduce(every), np.fmax.reduce(every)])

    def add_records(self, records: Iterable[Record]) -> None:
        """Add the rows of samples records, including those that the stream refused; unreadable records are skipped."""
        codec = codec_of(self._definition)
        for record in records:
            if record.topic != SAMPLES:
                continue
            samples = codec.rows(record)
            if isinstance(samples, Undecodable):
                continue
            # A row that the encoder refuses has no feature values that a grid could be fitted on.
            self.add(np.delete(samples.features, list(samples.unread), axis=0))

    def refit(self) -> Refit:
        """The grid fitted on all these rows. Raises :class:`DefinitionError` if no feature has outgrown its grid."""
        live = np.concatenate([self._newest, self._extremes])
        found = refit_grid(self._definition.grid, self._definition.features, live, self._outside)
        if not found.outgrown:
            raise DefinitionError(
                f"grid: no feature has outgrown it; of {self.fit + self.refused:,} rows {self.refused:,} were refused,"
                " for values that are missing, infinite, or out of all proportion"
            )
        return found


def refitted_tables(tables: dict[str, Any], old: StreamDefinition, found: Refit, name: str) -> dict[str, Any]:
    """The tables of a definition with a new name and the new grid; a feature map stays the same function."""
    changed = {**tables, "name": name, "grid": grid_table(found.grid)}
    if old.feature_map.kind != "none":
        ratio = old.grid.steps / found.grid.steps
        centers = old.grid.offsets + old.grid.steps * np.array(old.feature_map.centers, dtype=np.float64)
        scales = np.clip(np.array(old.feature_map.scales) * ratio, SCALE_SMALLEST, SCALE_LARGEST)
        quantized = np.rint((centers - found.grid.offsets) / found.grid.steps)
        changed["feature_map"] = {
            **tables["feature_map"],
            "centers": [int(center) for center in quantized.tolist()],
            "scales": scales.tolist(),
        }
    StreamDefinition.from_tables(changed)
    return changed


def rows_of_file(source: str, file: DefinitionFile, definition: StreamDefinition) -> RowsSeen:
    """The rows of a data file, read as the definition says. Raises :class:`DefinitionError` if its features differ."""
    from deltaplane_services.produce.feed_options import reader_options
    from deltaplane_services.readers import open_rows

    seen = RowsSeen(definition)
    options = reader_options(file)
    with open_rows(source, options) as reader:
        if reader.feature_names != definition.features:
            raise DefinitionError(
                f"{source}: expected the features {', '.join(definition.features[:8])}, got"
                f" {', '.join(reader.feature_names[:8])}"
            )
        for block in reader:
            seen.add(block.features)
    return seen


def check_new(out: Path, name: str, old: StreamDefinition) -> None:
    """Raise :class:`DefinitionError` if the file ``out`` exists, or if ``name`` is that of the old stream."""
    if out.exists():
        raise DefinitionError(f"grid refit: {str(out)!r} is there already; name a file that is not")
    if name == old.name:
        raise DefinitionError(f"grid refit: the new grid makes a new stream; give it another name than {old.name!r}")
