"""A made fraud table of mixed columns, by a seed: what people have, and a label that follows from it with noise.

Numbers with heavy tails, three text columns of which one has 5,000 levels, booleans, dates, 5 % missing, ids, labels
as words, one fraud in about 200 rows.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from typing import IO, Any

import numpy as np

__all__ = ["BEGIN", "CHANNELS", "COUNTRIES", "mixed_table", "write_csv"]

COUNTRIES = ("DE", "FR", "NL", "PL", "ES", "IT", "GB", "US", "BR", "NG", "CN", "TR")
CHANNELS = ("web", "app", "phone", "branch")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def mixed_table(rows: int, seed: int, fraud: float = 1 / 200) -> tuple[dict[str, list[Any]], list[str]]:
    """Column to cells as a CSV file has them, None where missing, and the labels ``fraud`` and ``ok``."""
    random = np.random.default_rng(seed)
    amount = np.round(np.exp(random.normal(3.5, 1.6, rows)), 2)
    age_days = np.floor(random.exponential(400, rows))
    country, channel = random.integers(0, len(COUNTRIES), rows), random.integers(0, len(CHANNELS), rows)
    merchant = random.integers(0, 5000, rows)
    known, chip = random.random(rows) < 0.8, random.random(rows) < 0.6
    minutes = np.sort(random.integers(0, 60 * 24 * 90, rows))
    hour = minutes // 60 % 24
    gone = {name: random.random(rows) < 0.05 for name in ("amount", "country", "known", "age")}
    risk = 1.1 * (np.log1p(amount) - 3.5) + 1.8 * np.isin(country, [9, 10, 11]) + 1.2 * (channel == 2)
    risk += -1.6 * known - 1.0 * chip + 1.5 * ((hour < 5) | (hour > 22)) + 0.8 * (merchant % 50 == 7)
    risk += 1.5 * gone["age"] - 0.8 * np.log1p(age_days) / 3
    threshold = np.quantile(risk + random.logistic(0, 0.7, rows), 1 - fraud)
    labels = np.where(risk + random.logistic(0, 0.7, rows) > threshold, "fraud", "ok")

    def cells(values: Any, name: str = "") -> list[Any]:
        absent = gone.get(name, np.zeros(rows, dtype=np.bool_)).tolist()
        return [None if missing else value for value, missing in zip(values, absent, strict=True)]

    table: dict[str, list[Any]] = {
        "tx_id": [f"tx{number:08d}" for number in random.permutation(rows)],
        "row": list(range(rows)),
        "amount": cells(amount.tolist(), "amount"),
        "account_age_days": cells(age_days.astype(int).tolist(), "age"),
        "country": cells([COUNTRIES[at] for at in country], "country"),
        "channel": [CHANNELS[at] for at in channel],
        "merchant": [f"m{at:04d}" for at in merchant],
        "known_device": cells(["yes" if one else "no" for one in known], "known"),
        "chip": ["true" if one else "false" for one in chip],
        "time": [(BEGIN + timedelta(minutes=int(one))).isoformat() for one in minutes],
        "currency": ["EUR"] * rows,
    }
    return table, list(map(str, labels))


def write_csv(file: IO[str], table: dict[str, list[Any]], labels: list[str]) -> None:
    """Write a table as people have it: names, then rows, the label last, and an empty cell where one is missing."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*table, "label"])
    for *cells, label in zip(*table.values(), labels, strict=True):
        rows.writerow([*("" if cell is None else cell for cell in cells), label])
