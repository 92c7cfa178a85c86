"""Write ``made_payments.csv``: a made table of payments as people have them, one fraud in about 200.

    python examples/make_payments.py [ROWS [SEED]]
    deltaplane replay made_payments.csv --label label

It has numbers with heavy tails, three columns of texts of which one has 5,000 levels, truths, times, ids, a constant,
and gaps in a twentieth of the rows. Nothing has to be said of them. ``deltaplane bench tables`` sets ours beside a
pipeline that was built by hand on the same rows, whose module is the one used here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from deltaplane_benchmarks.data.made_mixed import mixed_table, write_csv

rows = int(sys.argv[1]) if len(sys.argv) > 1 else 24_000
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 11
table, labels = mixed_table(rows, seed)
with Path("made_payments.csv").open("w", newline="", encoding="utf-8") as file:
    write_csv(file, table, labels)
print(f"made_payments.csv: {rows:,} rows of {len(table)} columns, {labels.count('fraud')} frauds, seed {seed}")
