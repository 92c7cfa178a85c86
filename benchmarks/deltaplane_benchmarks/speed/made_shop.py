"""A made shop, whose payments come in JSON: the definition of its stream, its rows, and their events."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["event_of", "shop_rows", "shop_tables"]

_COLUMNS = {
    "rules": [
        *({"column": f"x{number}", "kind": "number", "fill": 0.0} for number in range(8)),
        {"column": "country", "kind": "category", "levels": ["DE", "FR", "NG", "PL"]},
        {"column": "known", "kind": "boolean", "missing": "fill"},
    ]
}
_FEATURES = 23
_STEP = 2.0**-10
"""The grid's step: amounts below a million are admitted, and the largest of millions of made ones is about 10,000."""
_FIRST_TIME = 1_700_000_000_000


def shop_tables(name: str, state_directory: str, *, late: bool) -> dict[str, Any]:
    """The tables of a definition file: labels are in their events or, if they are ``late``, in a topic of their own."""
    intake: dict[str, Any] = {"topic": f"{name}-events", "id": "tx.ref", "time": "tx.created", "time_unit": "ms"}
    intake |= {"row": "tx", "fields": {"x0": "tx.sum.value"}}
    intake |= {"labels": {"topic": f"{name}-labels", "id": "of", "label": "is"}} if late else {"label": "tx.kind"}
    return {
        "name": name,
        "columns": _COLUMNS,
        "grid": {"steps": [_STEP] * _FEATURES},
        "classes": {"names": ["fraud", "ok"], "positive": "fraud"},
        "window": {"length": "all"},
        "solver": {"C": 1.0},
        "input": {"id": "ref", "time": "created", "time_unit": "ms", "label": "kind"},
        "intake": intake,
        "service": {"state_directory": state_directory},
    }


def shop_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows: an id, a time, eight numbers, a country, whether the customer is known, and the truth."""
    chance = random.Random(seed)  # noqa: S311 - made rows.
    for number in range(count):
        row: dict[str, Any] = {"ref": f"{chance.getrandbits(64):016x}", "created": _FIRST_TIME + number}
        row |= {f"x{one}": round(chance.lognormvariate(3, 1), 2) for one in range(8)}
        fraud = chance.random() < 0.2
        yield {
            **row,
            "country": chance.choice(["DE", "FR", "NG"]),
            "known": not fraud,
            "kind": "fraud" if fraud else "ok",
        }


def event_of(row: Mapping[str, Any]) -> bytes:
    """The event of a row in JSON, as the shop publishes it."""
    return json.dumps({"tx": {**row, "sum": {"value": row["x0"], "currency": "EUR"}}, "source": "web"}).encode()
