"""Bytes on the topics: Avro single-object encoding of the records in ``deltaplane_schemas``.

Each record has one ``write`` and one ``read`` function. A writer refuses what no reader would take. A reader raises
:class:`deltaplane.errors.WireError`, which says what came instead, for anything but its record, trailing bytes
included. It raises :class:`deltaplane.errors.DefinitionMismatch` if a record was made under another stream definition.
Bad input raises nothing else, and a reader allocates no more than a multiple of the message.
"""

from __future__ import annotations

from deltaplane.wire.inputs import (
    query_id,
    read_query,
    read_retirement,
    read_samples,
    single_samples,
    write_query,
    write_retirement,
    write_sample,
    write_sample_batch,
)
from deltaplane.wire.models import read_model, write_model
from deltaplane.wire.named_rows import (
    NamedSamples,
    most_named_rows,
    named_features,
    subjects_of,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
)
from deltaplane.wire.partials import read_partial, write_partial
from deltaplane.wire.replies import (
    read_answer,
    read_dead_letter,
    read_prediction,
    read_receipt,
    read_unanswered,
    write_dead_letter,
    write_prediction,
    write_receipt,
    write_unanswered,
)
from deltaplane.wire.singles import SingleSamples
from deltaplane.wire.states import (
    read_checkpoint,
    read_claim_or_delta,
    write_checkpoint,
    write_claim,
    write_delta,
    write_source_order,
)

__all__ = [
    "NamedSamples",
    "SingleSamples",
    "most_named_rows",
    "named_features",
    "query_id",
    "read_answer",
    "read_checkpoint",
    "read_claim_or_delta",
    "read_dead_letter",
    "read_model",
    "read_partial",
    "read_prediction",
    "read_query",
    "read_receipt",
    "read_retirement",
    "read_samples",
    "read_unanswered",
    "single_samples",
    "subjects_of",
    "write_checkpoint",
    "write_claim",
    "write_dead_letter",
    "write_delta",
    "write_model",
    "write_named_query",
    "write_named_sample",
    "write_named_sample_batch",
    "write_partial",
    "write_prediction",
    "write_query",
    "write_receipt",
    "write_retirement",
    "write_sample",
    "write_sample_batch",
    "write_source_order",
    "write_unanswered",
]
