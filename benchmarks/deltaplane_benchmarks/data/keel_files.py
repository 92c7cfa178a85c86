"""Every file of KEEL's repository that the package carries: balanced and imbalanced, of two classes and of more.

The files have rows and no header, so that each is given with the place of its last column, which is the label.
"""

from __future__ import annotations

import csv
import io
from collections import Counter

import numpy as np

from deltaplane_benchmarks.data.archives import Archive, Cache, DataDamaged
from deltaplane_benchmarks.data.catalogue import KEEL
from deltaplane_benchmarks.data.mixed_tables import MISSING, MixedTable

__all__ = ["LEAST_CHUNK", "MOST_CHUNK", "chunk_of", "files", "imbalance_of", "table_of"]

LEAST_CHUNK, MOST_CHUNK = 10, 1000
_FOLDER, _ENDING = "/raw/", ".dat"


def files(cache: Cache, archive: Archive = KEEL) -> dict[str, MixedTable]:
    """All files by name, as ``imbalanced/glass0``: sorted. Raises as :meth:`Cache.path`, and for rows of two widths."""
    members = [name for name in cache.names(archive) if _FOLDER in name and name.endswith(_ENDING)]
    contents = cache.members(archive, members)
    return {
        (name := f"{member.split('/')[-3]}/{member.split('/')[-1].removesuffix(_ENDING)}"): table_of(name, content)
        for member, content in zip(members, contents, strict=True)
    }


def table_of(name: str, content: bytes) -> MixedTable:
    """A file of rows without a header, the class last. Raises :class:`DataDamaged` for rows of several widths."""
    lines = content.decode("latin-1").splitlines()
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO("\n".join(lines)))]
    widths = Counter(map(len, rows))
    if len(widths) != 1 or any(line.startswith("@") for line in lines):
        raise DataDamaged(f"{name}: expected rows of one width and no header, got widths {dict(widths)}")
    width = next(iter(widths))
    cells = [[None if row[at] in MISSING else row[at] for row in rows] for at in range(width - 1)]
    labels = np.array([row[-1] for row in rows])
    keywords = {"label": str(width)}
    return MixedTable(name, content, _ENDING, keywords, cells, labels, chunk_of(len(rows)), name)


def chunk_of(rows: int) -> int:
    """How many rows are predicted, then learned: a tenth of the file, from 10 to 1,000.

    So the summary of a replay proposes where a file ends before its first model.
    """
    return min(max(rows // 10, LEAST_CHUNK), MOST_CHUNK)


def imbalance_of(table: MixedTable) -> float:
    """Rows of the most frequent class for each of the rarest."""
    counts = Counter(table.labels.tolist()).values()
    return max(counts) / min(counts)
