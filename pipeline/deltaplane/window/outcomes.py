"""The outcomes of samples and of retirements, and the notes in which a step reports them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LETTERS_DUE", "RetirementNote", "RetirementOutcome", "SampleNote", "SampleOutcome"]

LETTERS_DUE = "letters due "
"""The prefix of counts of a delta that record when the next dead letter is due; these count no rows."""


class SampleOutcome(StrEnum):
    """The outcome of an admitted sample.

    - ``applied``: it is counted.
    - ``duplicate``, ``replaced``: an older version of its id, equal or not, was inside the window.
    - ``late``: it lies outside every window; an older version of its id is taken out all the same.
    - ``annihilated``: its id was retired before any sample of that id came.
    - ``retired id``: its id was retired after an earlier sample of that id had come.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    REPLACED = "replaced"
    LATE = "late"
    ANNIHILATED = "annihilated"
    RETIRED_ID = "retired id"


@dataclass(frozen=True)
class SampleNote:
    """The outcome of one sample that was not simply applied; ``row`` is its place among the admitted of a batch."""

    row: int
    outcome: SampleOutcome


class RetirementOutcome(StrEnum):
    """The outcome of a retirement.

    - ``retired``: its row was taken out, or its sample came later and was never counted.
    - ``waiting``: no sample of its id is known; one that comes is annihilated.
    - ``duplicate``: its id is retired already.
    - ``expired``: the last version of its id lies outside the longest window.
    - ``unknown``: the stream keeps no rows, so that none can be taken out.
    """

    RETIRED = "retired"
    WAITING = "waiting"
    DUPLICATE = "duplicate"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class RetirementNote:
    """The outcome of the retirement of an id, which lies at ``offset`` of the retirements log."""

    id: str
    offset: int
    outcome: RetirementOutcome
