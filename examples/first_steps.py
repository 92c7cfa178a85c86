"""First steps in Python, without a stream: learn a table, slide, retire, merge, predict, and be exact throughout.

    pip install '.[estimators]'
    python examples/first_steps.py [TABLE.csv[.gz] LABEL_COLUMN]

Without arguments it takes the electricity market beside this file. Columns that are no numbers are left out.
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np

import deltaplane

HERE = Path(__file__).parent
place, label = sys.argv[1:] or (str(HERE / "electricity.csv.gz"), "target")

# A table in: features float64[n, d], labels [n].
with gzip.open(place, "rt") if place.endswith(".gz") else Path(place).open(encoding="utf-8") as file:
    table = list(csv.DictReader(file))[:10_336]
numbers = [name for name in table[0] if name != label and table[0][name].replace(".", "", 1).lstrip("-").isdigit()]
X = np.array([[float(row[name]) for name in numbers] for row in table])
y = np.array([row[label] for row in table])
X, X_new, y, y_new = X[:-336], X[-336:], y[:-336], y[-336:]
print(f"{len(X):,} rows of {', '.join(numbers)}")

# All that is to be compared or merged lies on one grid: every value becomes a whole number of steps.
grid = deltaplane.fit_grid(X)

# An exact window: rows that have left it have left no trace.
window = deltaplane.SlidingProximalSVM(window=2000, C=1.0, grid=grid)
for start in range(0, len(X), 500):
    window.partial_fit(X[start : start + 500], y[start : start + 500])
fresh = deltaplane.ProximalSVM(C=1.0, grid=grid).fit(X[-2000:], y[-2000:])
print("window = fit on its last 2,000 rows:", window.digest() == fresh.digest())

# Retire a row: what is left is what there would be had it never come.
learned = deltaplane.ProximalSVM(C=1.0, grid=grid).fit(X, y)
learned.retire(X[:1], y[:1])
never = deltaplane.ProximalSVM(C=1.0, grid=grid).fit(X[1:], y[1:])
print("retired = never learned:", learned.digest() == never.digest())

# Merge two halves, learned apart: the sums, and the weights, are those of the whole, bit for bit.
half = len(X) // 2
merged = deltaplane.ProximalSVM(C=1.0, grid=grid).fit(X[1:half], y[1:half])
merged.merge(deltaplane.ProximalSVM(C=1.0, grid=grid).fit(X[half:], y[half:]))
print("merged = learned at once:", merged.digest() == never.digest(), np.array_equal(merged.coef_, never.coef_))

# Predict rows that nobody has learned.
right = np.mean(window.predict(X_new) == y_new)
print("a new row:", *window.predict(X_new[:1]), f"- right in {right:.0%} of the next week")
