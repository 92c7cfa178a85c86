"""What each topic carries: the Avro schemas, loaded from the ``.avsc`` files beside this one."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

__all__ = ["NAMES", "load"]

NAMES = (
    "sample",
    "sample_batch",
    "named_sample",
    "named_sample_batch",
    "retirement",
    "claim",
    "source_order",
    "delta",
    "checkpoint",
    "partial",
    "labelled",
    "anchored",
    "tallied",
    "binned",
    "model",
    "aimed",
    "calibrated",
    "query",
    "named_query",
    "prediction",
    "full_prediction",
    "unanswered",
    "receipt",
    "dead_letter",
)
"""Every schema of the product; ``sample_batch`` is the file ``sample_batch.avsc``."""


def load(name: str) -> dict[str, Any]:
    """The Avro schema of one record type as parsed JSON. Raises KeyError for a name not in :data:`NAMES`."""
    if name not in NAMES:
        raise KeyError(f"schemas: expected one of {', '.join(NAMES)}, got {name!r}")
    schema: dict[str, Any] = json.loads(resources.files(__name__).joinpath(f"{name}.avsc").read_text("utf-8"))
    return schema
