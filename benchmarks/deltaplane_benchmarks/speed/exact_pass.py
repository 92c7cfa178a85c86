"""One pass of rows through the exact statistics, which every measurement of their speed shares."""

from __future__ import annotations

from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane_benchmarks.speed.made_rows import LABELS, Rows

__all__ = ["CHUNK_ROWS", "exact"]

CHUNK_ROWS = 4096


def exact(rows: Rows, grid: Grid) -> bool:
    """Every row enters and leaves, chunk by chunk; True where nothing is left."""
    total = Statistics(rows.features.shape[1] + 1)
    for start in range(0, len(rows), CHUNK_ROWS):
        here = slice(start, start + CHUNK_ROWS)
        quantized, fits = grid.quantize(rows.features[here])
        assert fits.all(), "the grid was fitted on such rows"
        codes = rows.codes[here]
        entering = {(0, label): part for label, part in moments_by_class(quantized, codes, list(LABELS)).items()}
        # They leave as they came: a window keeps rows as the grid places them.
        leaving = {(0, label): part for label, part in moments_by_class(quantized, codes, list(LABELS)).items()}
        total = total + Statistics(total.dimension, entering) - Statistics(total.dimension, leaving)
    return total == Statistics(total.dimension)
