"""What some rows of a table add up to, as bytes: between the processes of an engine, and in a file of history."""

from __future__ import annotations

import math

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire.frame import Fields, read_record, write_record
from deltaplane.wire.parts import check_name, counts_of, statistics_fields, statistics_of

__all__ = ["read_partial", "write_partial"]


def write_partial(partial: Partial) -> bytes:
    """One ``Partial`` message; equal partials give equal bytes."""
    return write_record(
        "partial",
        {
            "stream_fingerprint": partial.stream_fingerprint,
            "watermark": partial.watermark,
            "dimension": partial.statistics.dimension,
            "statistics": statistics_fields(partial.statistics),
            "rounding": partial.rounding.tolist(),
            "counts": dict(sorted(partial.counts.items())),
            "refusals": dict(sorted(partial.refusals.items())),
            "examples": dict(sorted(partial.examples.items())),
        },
    )


def read_partial(data: bytes | None, definition: StreamDefinition) -> Partial:
    """The ``Partial`` in a message, of this definition.

    Raises :class:`WireError` for anything else, and :class:`DefinitionMismatch` for one of another definition.
    """
    name, fields = read_record(data, ("partial",))
    if fields["stream_fingerprint"] != definition.stream_fingerprint:
        raise DefinitionMismatch(
            f"partial: expected one of stream definition {definition.stream_fingerprint.hex()}, got"
            f" {fields['stream_fingerprint'].hex()}; give the definition that it was computed with",
            fields["stream_fingerprint"],
        )
    statistics = statistics_of(name, fields, "statistics", definition.dimension)
    if {window for (window, _), _ in statistics.items()} > {0}:
        raise WireError(f"{name}: expected statistics of window 0 alone, got others")
    return Partial(
        definition.stream_fingerprint,
        definition.data_fingerprint,
        definition.most_classes,
        statistics,
        _rounding_of(name, fields, len(definition.features)),
        _counts_from_0(name, fields, "counts"),
        _counts_from_0(name, fields, "refusals"),
        _examples_of(name, fields),
        fields["watermark"],
    )


def _rounding_of(name: str, fields: Fields, features: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rounding = fields["rounding"]
    if len(rounding) != features or not all(math.isfinite(one) and one >= 0.0 for one in rounding):
        raise WireError(f"{name}: expected the rounding of {features} features, each from 0, got {rounding[:5]}")
    return np.array(rounding, dtype=np.float64)


def _counts_from_0(name: str, fields: Fields, key: str) -> dict[str, int]:
    counts = counts_of(name, fields, key)
    if any(not 0 <= count <= limits.POSITION for count in counts.values()):
        raise WireError(f"{name}: expected {key} from 0, got others ({str(counts)[:200]})")
    return counts


def _examples_of(name: str, fields: Fields) -> dict[str, str]:
    examples: dict[str, str] = fields["examples"]
    if len(examples) > limits.OUTCOMES:
        raise WireError(f"{name}: expected up to {limits.OUTCOMES} examples, got {len(examples)}")
    for kind, reason in examples.items():
        check_name(name, "a kind of refusal", kind, limits.NAME_BYTES)
        check_name(name, "a reason", reason, 4 * limits.REASON_CHARACTERS)
    return examples
