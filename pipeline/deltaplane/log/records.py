"""Records that processes exchange: checkpoints, queries, predictions, receipts, dead letters.

The Avro schemas of the same names document all fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaplane.arrays import Floats
from deltaplane.log.delta import Source, SourceState

__all__ = ["Checkpoint", "DeadLetter", "NamedQuery", "Prediction", "Query", "Receipt", "Unanswered"]


@dataclass(frozen=True)
class Checkpoint:
    """A source's state, and the first offset of its deltas partition that is not in it."""

    state: SourceState
    next_offset: int
    stream_fingerprint: bytes


@dataclass(frozen=True, eq=False)
class Query:
    """A raw row float64[d] to be classified."""

    id: str
    features: Floats
    data_fingerprint: bytes


@dataclass(frozen=True, eq=False)
class NamedQuery:
    """A row to be classified, as cells by the columns of its table, before the definition's encoder has encoded it."""

    id: str
    cells: Mapping[str, Any]
    data_fingerprint: bytes


@dataclass(frozen=True)
class Prediction:
    """The answer to the query at (topic, partition, offset).

    ``probabilities`` of the classes, and ``reasons``, are empty unless the query asked for them and they are known.
    ``reasons``: the columns with the largest contributions to the decision value of the predicted class, and these.
    """

    id: str
    predicted: str
    decisions: Mapping[str, float]
    model_version: int
    topic: str
    partition: int
    offset: int
    probabilities: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Unanswered:
    """The reply to the query at (topic, partition, offset) that cannot be answered: a reason, and no class.

    ``id``: that of the query, or if the query does not decode, the key of its record, which should be the same.
    ``kind``: a short name of the kind of fault, from a small set. ``key``: the beginning of the record's key, or None.
    """

    id: str
    model_version: int
    topic: str
    partition: int
    offset: int
    kind: str
    reason: str
    key: bytes | None


@dataclass(frozen=True)
class Receipt:
    """The outcome of the retirement at ``offset`` of a source's retirements log; see ``receipt.avsc``.

    It is valid if the tile ``sequence`` of its ``writer`` was accepted. Other receipts are of writers that had lost the
    source and did not know it. A retirement that waited gets another receipt when its sample comes: the later tile
    counts.
    """

    stream_fingerprint: bytes
    id: str
    outcome: str
    source: Source
    offset: int
    writer: str
    sequence: int
    samples_to: int
    retirements_to: int
    digest_before: str
    digest_after: str


@dataclass(frozen=True)
class DeadLetter:
    """A record, or one row of a batch, that was refused: its position, the reason, and the beginning of its bytes.

    ``rest``: if the letter stands for several rows of a batch, kind of fault to number of rows; otherwise empty.
    """

    topic: str
    partition: int
    offset: int
    row: int | None
    kind: str
    reason: str
    key: bytes | None
    value: bytes | None
    size: int
    rest: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows or records that the letter stands for."""
        return sum(self.rest.values()) if self.rest else 1
