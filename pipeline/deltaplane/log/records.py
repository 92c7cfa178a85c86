"""What travels between processes and has no other home: checkpoints, queries, predictions, receipts, dead letters.

The field documentation is that of the Avro schemas of the same names.
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
    """A row to be classified, by the columns of its table: what the definition's encoder has not encoded yet."""

    id: str
    cells: Mapping[str, Any]
    data_fingerprint: bytes


@dataclass(frozen=True)
class Prediction:
    """The answer to the query at (topic, partition, offset).

    ``probabilities`` of the classes, and ``reasons``, the columns that contribute most to the decision value of the
    predicted class with what they contribute, are there if the query asked for them, and there are any.
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
    """What the query at (topic, partition, offset) gets that cannot be answered: the reason, and no class.

    ``id`` as far as it is known: where the query does not decode, the key of its record, which ought to be the same.
    ``kind`` is short, from a small set; ``key`` how the key of its record begins, None where it has none.
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
    """What became of the retirement at ``offset`` of a source's retirements log; see ``receipt.avsc``.

    It is true if the tile ``sequence`` of its ``writer`` was accepted. Others are of writers that had lost the source
    and did not know it. A retirement that waited has another receipt when its sample comes: the later tile counts.
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
    """A record, or one row of a batch, that was refused: where it came from, why, and how it began.

    ``rest``: of a letter that stands for several rows of a batch, how many of each kind; empty for any other.
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
        """The rows or records that it stands for."""
        return sum(self.rest.values()) if self.rest else 1
