"""What may become of a sample and of a retirement, and how a step says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LETTERS_DUE", "RetirementNote", "RetirementOutcome", "SampleNote", "SampleOutcome"]

LETTERS_DUE = "letters due "
"""How the counts of a delta begin that carry on at what pace dead letters are written; they count no rows."""


class SampleOutcome(StrEnum):
    """What became of a sample that was admitted.

    ``duplicate`` and ``replaced``: an older version of the id was inside the window, equal or not. ``late``: it lies
    outside every window, but its older version is taken out all the same. ``annihilated``: its id was retired before
    it came. ``retired id``: its id was retired, and samples under it had come before.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    REPLACED = "replaced"
    LATE = "late"
    ANNIHILATED = "annihilated"
    RETIRED_ID = "retired id"


@dataclass(frozen=True)
class SampleNote:
    """The outcome of one admitted sample that was not simply applied; ``row`` counts among the admitted."""

    row: int
    outcome: SampleOutcome


class RetirementOutcome(StrEnum):
    """What became of a retirement; ``unknown``: the stream keeps no rows, so that none can go."""

    RETIRED = "retired"
    WAITING = "waiting"
    DUPLICATE = "duplicate"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class RetirementNote:
    """The outcome of the retirement at ``offset`` of the retirements log."""

    id: str
    offset: int
    outcome: RetirementOutcome
