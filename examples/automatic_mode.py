"""The automatic mode in Python, without a stream: nothing to tune, each row predicted before it is learned.

pip install '.[estimators]'
python examples/automatic_mode.py
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

import deltaplane

with gzip.open(Path(__file__).parent / "electricity.csv.gz", "rt") as file:
    table = list(csv.DictReader(file))[:20_000]
names = [name for name in table[0] if name.startswith("feat_")]
X = np.array([[float(row[name]) for name in names] for row in table])
y, ids = np.array([row["target"] for row in table]), [row["event_time"] for row in table]

# Test, then train, from the very first row: the first hundred have no prediction, since there is no plane yet.
model = deltaplane.AutomaticProximalSVM()
predicted = model.predict_then_fit(X, y, ids=ids)
recalls = [np.mean(predicted[100:][y[100:] == label] == label) for label in model.classes_]
print(f"{len(X):,} half-hours, G-mean {np.sqrt(np.prod(recalls)):.3f}")

# Withdraw a day: what is left is what there would be had it never come.
day = [one for one in ids if one.startswith(ids[-1][:10])]
model.retire(day)
print(f"{sum(outcome == 'retired' for outcome in model.retirements_.values())} of {len(day)} half-hours withdrawn")
print("digest", model.digest()[:16], "of", f"{sum(model.model_.counts.values()):,}", "live rows")
