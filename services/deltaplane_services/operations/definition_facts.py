"""What follows from a stream's definition, for a producer that writes to its topics without our code."""

from __future__ import annotations

from typing import Any

from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import settings_of
from deltaplane.table_values import canonical_json
from deltaplane.wire.frame import header
from deltaplane_services.processors.messages import QUERIES, RETIREMENTS, SAMPLES

__all__ = ["EXAMPLE_IDS", "facts_of"]

_WRITTEN = {"sample": SAMPLES, "sample_batch": SAMPLES, "retirement": RETIREMENTS, "query": QUERIES}
_WRITTEN_BY_NAME = {"named_sample": SAMPLES, "named_sample_batch": SAMPLES, "named_query": QUERIES}
"""Further messages that may be written if a definition has ``[columns]``."""

_KEYS = {SAMPLES: "sample id", RETIREMENTS: "sample id", QUERIES: "query id"}
EXAMPLE_IDS = ("a", "order-17", "é")


def facts_of(definition: StreamDefinition) -> dict[str, Any]:
    """Fingerprints, features, first bytes of messages, topics and keys, and partitions of ids, as values for JSON."""
    data = definition.data_fingerprint.hex()
    written = _WRITTEN if definition.columns is None else {**_WRITTEN, **_WRITTEN_BY_NAME}
    quantized = {one: definition.partition_of(one) for one in EXAMPLE_IDS}
    return {
        "stream": definition.name,
        "data_fingerprint": data,
        "stream_fingerprint": definition.stream_fingerprint.hex(),
        "features": list(definition.features),
        "message_begins": {name: f"{header(name).hex()}{data}" for name in written},
        **({} if definition.columns is None else {"columns": list(definition.columns.columns)}),
        "topics": {f"{definition.name}.{topic}": f"key: {_KEYS[topic]}, in UTF-8" for topic in _KEYS},
        "partitions": definition.partitions,
        "partitioner": definition.partitioner,
        "partition_of_id": quantized,
        "settings": settings_of(definition),
        "data_fingerprint_text": canonical_json(definition.data_settings()),
    }
