"""What the labels of metrics may say: closed sets, and how many classes and features have series of their own."""

from __future__ import annotations

from deltaplane.stream.sample import WRONG_PARTITION
from deltaplane.window.outcomes import SampleOutcome
from deltaplane_services.processors.intake import NO_ROWS
from deltaplane_services.processors.messages import MORE_RECORDS, MORE_ROWS

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
    "word",
]

PREQUENTIAL_SAMPLES = 5000
"""Scored samples that the measures of span ``recent`` look back on. A class of one in a hundred has fifty of them."""

MOST_CLASSES = 16
"""Classes with series of their own; the others together are ``other``. Pairs of them are the square of this."""

MOST_FEATURES = 16
"""Features, the first of the definition, whose weights and rounding have series of their own."""

OTHER = "other"
"""All classes that have no series of their own, and reasons that this version does not know."""

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
"""Kinds of samples and retirements that a worker refuses; counted in a delta as ``refused <kind>``."""

REJECTIONS = (*map(word, REFUSED), word(SampleOutcome.LATE), word(SampleOutcome.RETIRED_ID), OTHER)
DEAD_LETTER_REASONS = (*REJECTIONS, "bad_header", "impossible_change", word(MORE_ROWS), word(MORE_RECORDS))
REMOVALS = ("expired", "withdrawn", "replaced", "retired")
