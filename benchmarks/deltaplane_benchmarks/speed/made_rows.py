"""The rows that are measured with: made from a seed, like forest cover types in shape, or those of a file.

One row in about five is an exact flag, the others are whole numbers of a few hundred to a few thousand: what the
benchmark's usual data set looks like, in any number of features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Int32s
from deltaplane.exact.grid import fit_grid
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples

__all__ = ["LABELS", "NUMERIC_SHARE", "Rows", "definition_for", "make_rows"]

LABELS = ("no", "yes")
NUMERIC_SHARE = 5
"""One feature in so many is a number, the others are flags."""


@dataclass(frozen=True, eq=False)
class Rows:
    """``features`` float64[n, d], ``codes`` int32[n] of :data:`LABELS`, and ids that no other row has."""

    features: Floats
    codes: Int32s

    def __len__(self) -> int:
        return len(self.codes)

    def samples(self, start: int, stop: int) -> Samples:
        """Rows from ``start`` to ``stop`` as a producer has them."""
        ids, times = list(map(str, range(start, stop))), np.arange(start, stop)
        return Samples.of_record(ids, times, LABELS, self.codes[start:stop], self.features[start:stop])


def make_rows(count: int, features: int, seed: int) -> Rows:
    """Two classes that a plane tells apart but for a tenth of them."""
    random = np.random.default_rng(seed)
    table = random.integers(0, 2, size=(count, features)).astype(np.float64)
    numeric = np.arange(0, features, NUMERIC_SHARE)
    table[:, numeric] = np.rint(random.gamma(4.0, 300.0, size=(count, len(numeric))))
    weights = random.standard_normal(features) / np.maximum(table.std(axis=0), 0.1)
    decisions = (table - table.mean(axis=0)) @ weights
    decisions += 0.3 * decisions.std() * random.standard_normal(count)
    return Rows(table, (decisions > 0.4 * decisions.std()).astype(np.int32))


def definition_for(
    rows: Rows, name: str, window: str, choice_of_c: float | str, partitions: int = 1
) -> StreamDefinition:
    """A stream for these rows, its grid fitted on the first of them."""
    grid = fit_grid(rows.features[:10_000])
    tables = {
        "name": name,
        "features": {"names": [f"f{at}" for at in range(rows.features.shape[1])]},
        "grid": {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()},
        "classes": {"names": list(LABELS), "positive": LABELS[1]},
        "window": {"length": window},
        "solver": {"C": choice_of_c},
        "partitions": partitions,
    }
    return StreamDefinition.from_tables(tables)
