"""A stream in memory as bytes: its definition, checkpoint, model, rows and retirements, as a restart would read them.

    sealed parts: facts (JSON), checkpoint, model (both as on their topics), retirements (JSON), batches of rows

Nothing in it is code: it is read as messages of a topic are, and refused by name if it is something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.errors import DeltaplaneError, WireError
from deltaplane.log.in_memory import InMemoryStream
from deltaplane.log.records import Checkpoint
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire.inputs import read_samples, write_sample_batch
from deltaplane.wire.models import read_model, write_model
from deltaplane.wire.sealed_parts import open_sealed, seal
from deltaplane.wire.states import read_checkpoint, write_checkpoint

__all__ = ["read_saved_stream", "write_saved_stream"]

_MAGIC = b"deltaplane stream in memory, 1\n"
_BATCH_BYTES = 2**22
_CURE = "give what save() has written, whole"


def write_saved_stream(stream: InMemoryStream, facts: Mapping[str, Any]) -> bytes:
    """The bytes of a stream that has a model, with ``facts`` in JSON of whoever saves it."""
    assert stream.model is not None, "a stream is saved once it has learned something"
    definition, rows = stream.definition, stream.held(live=False)
    head = {"facts": facts, "definition": definition.to_tables(), "offsets": rows.offsets.tolist()}
    retired = [[one.id, one.offset] for one in stream.partition.retired()]
    checkpoint = Checkpoint(stream.state, 0, definition.stream_fingerprint)
    parts = [_json(head), write_checkpoint(checkpoint), write_model(stream.model), _json(retired)]
    at_once = max(1, min(limits.BATCH_ROWS, _BATCH_BYTES // (8 * len(definition.features) + limits.ID_BYTES)))
    for begin in range(0, len(rows), at_once):
        batch = rows.chosen(np.arange(begin, min(begin + at_once, len(rows))))
        parts.append(write_sample_batch(batch, definition.data_fingerprint))
    return seal(_MAGIC, parts)


def read_saved_stream(data: bytes) -> tuple[dict[str, Any], InMemoryStream]:
    """(facts, stream) as they were written.

    Raises :class:`WireError` for what is no saved stream, is damaged, or does not hold together.
    """
    parts = list(open_sealed("saved stream", _MAGIC, data, _CURE))
    if len(parts) < 4:
        raise WireError(f"saved stream: expected 4 parts and rows, got {len(parts)} parts; {_CURE}")
    try:
        head, retired = json.loads(parts[0]), json.loads(parts[3])
        definition = StreamDefinition.from_tables(head["definition"])
        stream = InMemoryStream(definition)
        features, fingerprint = len(definition.features), definition.data_fingerprint
        batches = [read_samples(part, features, fingerprint, 0, 0) for part in parts[4:]]
        offsets = np.array(head["offsets"], dtype=np.int64)
        retirements = [Retirement(str(sample_id), "", int(offset)) for sample_id, offset in retired]
        checkpoint, model = read_checkpoint(parts[1], definition.dimensions), read_model(parts[2])
        model.check(definition)
        stream.restore(checkpoint.state, model, _joined(batches, features, offsets), retirements)
        return dict(head["facts"]), stream
    except DeltaplaneError as fault:
        raise WireError(f"saved stream: {fault}") from fault
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as fault:
        raise WireError(f"saved stream: its parts do not hold together ({str(fault)[:200]}); {_CURE}") from fault


def _joined(batches: list[Samples], features: int, offsets: Any) -> Samples:
    """The rows of all batches as one, each at its own offset."""
    if sum(map(len, batches)) != len(offsets):
        raise ValueError(f"{sum(map(len, batches))} rows and {len(offsets)} offsets")
    table = tuple(dict.fromkeys(label for batch in batches for label in batch.label_table))
    codes = [np.array([table.index(label) for label in one.label_table])[one.label_codes] for one in batches]
    nothing = np.zeros(len(offsets), dtype=np.int64)
    return Samples(
        ids=[sample_id for batch in batches for sample_id in batch.ids],
        event_times=np.concatenate([nothing[:0], *(batch.event_times for batch in batches)]),
        label_table=table,
        label_codes=np.concatenate([nothing[:0], *codes]).astype(np.int32),
        features=np.concatenate([np.zeros((0, features)), *(batch.features for batch in batches)]),
        offsets=offsets,
        rows=nothing,
        log_times=nothing,
    )


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
