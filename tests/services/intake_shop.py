"""A made shop: payments and chargebacks in JSON, with names and keys that are not ours, and what must come of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaplane.stream.column_tables import encoder_of
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.intake_table import IntakeDefinition, intake_of
from deltaplane_services.processors.messages import Record

DAY = 86_400_000
FIRST_TIME = 1_700_000_000_000

COLUMNS: Mapping[str, Any] = {
    "rules": [
        {"column": "amount", "kind": "number", "fill": 20.0},
        {"column": "country", "kind": "category", "levels": ["DE", "FR", "NG"]},
        {"column": "known", "kind": "boolean", "missing": "fill"},
    ]
}
FEATURES = len(getattr(encoder_of(COLUMNS), "features", ()))

INTAKE: Mapping[str, Any] = {
    "topic": "payments",
    "id": "tx.ref",
    "time": "tx.created",
    "time_unit": "ms",
    "row": "tx",
    "fields": {"amount": "tx.sum.value"},
    "labels": {"topic": "chargebacks", "id": "payment", "label": "verdict", "after": "30d", "otherwise": "ok"},
}

SHOP: Mapping[str, Any] = {
    "name": "shop",
    "partitions": 2,
    "columns": COLUMNS,
    "grid": {"steps": [2.0**-20] * FEATURES},
    "classes": {"names": ["fraud", "ok"], "positive": "fraud"},
    "window": {"length": "all"},
    "solver": {"C": 1.0},
    "intake": INTAKE,
}


def shop(intake: Mapping[str, Any] | None = None, **tables: Any) -> tuple[StreamDefinition, IntakeDefinition]:
    """The stream of the shop and its intake, with tables laid over; a key of ``intake`` that is None is left out."""
    merged = {key: value for key, value in {**INTAKE, **(intake or {})}.items() if value is not None}
    whole = {**SHOP, **tables, "intake": merged}
    definition = StreamDefinition.from_tables(whole)
    found = intake_of(whole, definition)
    assert found is not None
    return definition, found


def payment(ref: str, time: int, amount: Any = 12.5, country: Any = "DE", **more: Any) -> bytes:
    """The value of a record of ``payments``."""
    tx = {"ref": ref, "created": time, "sum": {"value": amount, "currency": "EUR"}, "country": country, "known": True}
    return json.dumps({"tx": {**tx, **more}, "meta": {"version": 3}}).encode()


def chargeback(ref: str, verdict: str | None = "fraud") -> bytes:
    """The value of a record of ``chargebacks``."""
    return json.dumps({"id": "cb", "payment": ref, "verdict": verdict}).encode()


def record(
    topic: str, partition: int, offset: int, value: bytes | None, log_time: int = FIRST_TIME, key: bytes | None = b"k"
) -> Record:
    """A record of a log of the shop's."""
    return Record(topic, partition, offset, log_time, key, value)
