"""The label values of metrics: closed sets, and limits on the classes and features that have series of their own."""

from __future__ import annotations

from deltaplane.stream.sample import WRONG_PARTITION
from deltaplane.window.outcomes import SampleOutcome
from deltaplane_services.processors.intake import NO_ROWS
from deltaplane_services.processors.refused_records import MORE_RECORDS, MORE_ROWS

__all__ = [
    "DEAD_LETTER_REASONS",
    "MOST_CLASSES",
    "MOST_FEATURES",
    "OTHER",
    "PREQUENTIAL_SAMPLES",
    "REFUSED",
    "REJECTIONS",
    "REMOVALS",
    "SPANS",
    "TABLE_CHANGES",
    "word",
]

PREQUENTIAL_SAMPLES = 5000
"""The number of last scored samples behind the measures of span ``recent``: 50 of a class of one in a hundred."""

MOST_CLASSES = 16
"""The most classes with series of their own; the rest are ``other``. Pairs of classes are the square of this."""

MOST_FEATURES = 16
"""The number of features, the first of the definition, whose weights and rounding have series of their own."""

OTHER = "other"
"""Stands for all classes without series of their own, and for reasons that this version does not know."""

SPANS = ("all", "recent")
"""All samples ever scored, and the last :data:`PREQUENTIAL_SAMPLES` of them."""


def word(text: str) -> str:
    """An outcome as a label value: ``retired id`` → ``retired_id``."""
    return text.replace(" ", "_")


REFUSED = (
    "bad id",
    WRONG_PARTITION,
    "bad label",
    "unknown class",
    "too many classes",
    "bad value",
    "bogus time",
    "bad record",
    "other definition",
    NO_ROWS,
)
"""Kinds of refused samples and retirements; a delta counts them as ``refused <kind>``."""

REJECTIONS = (*map(word, REFUSED), word(SampleOutcome.LATE), word(SampleOutcome.RETIRED_ID), OTHER)
DEAD_LETTER_REASONS = (*REJECTIONS, "bad_header", "impossible_change", word(MORE_ROWS), word(MORE_RECORDS))
TABLE_CHANGES = ("came", "went", "refused")
"""What a version of a table that is followed does with a row."""

REMOVALS = ("expired", "withdrawn", "replaced", "retired")
