"""What some rows of a table add up to, so that the parts of a table may be summed anywhere, in any order.

A history of rows is too long to be sent through a log, and lies in files. Any engine may cut it up: each piece becomes
a :class:`Partial`, and pieces are added in whatever tree of additions the engine likes. Every field adds up to the same
bits whatever the cut, the order and the tree, so that processes which are killed and run again change nothing. All that
is counted rides in the value: a counter beside it would count a piece twice that ran twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionMismatch, LimitExceeded
from deltaplane.exact.statistics import Statistics, moments_of_pieces
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import TOO_MANY_CLASSES, AdmittedSamples, Refusal, Samples, admit
from deltaplane.window.outcomes import SampleOutcome
from deltaplane.window.sliding import NO_WATERMARK

__all__ = ["Partial"]

_APPLIED, _MISSING = str(SampleOutcome.APPLIED), "missing values"


@dataclass(frozen=True, eq=False)
class Partial:
    """The exact sum of some rows; a value that adds, commutes and associates, bit for bit.

    ``statistics``: Gram matrices by class, as of one window over everything (number 0). ``counts``: outcome to rows
    (``applied``), or to values (``missing values``, those that were filled in). ``refusals``: kind to rows that the
    definition refuses; ``examples``: kind to the first of its reasons in the order of texts, so that it does not depend
    on who came first. ``rounding`` float64[d]: the largest distance to the grid of each feature. ``watermark``: the
    largest event time, in milliseconds. Two partials of one ``stream_fingerprint`` can be added, and no others.
    """

    stream_fingerprint: bytes
    data_fingerprint: bytes
    most_classes: int
    statistics: Statistics
    rounding: Floats
    counts: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    watermark: int = NO_WATERMARK

    @classmethod
    def zero(cls, definition: StreamDefinition) -> Partial:
        """What no rows add up to."""
        return cls(
            definition.stream_fingerprint,
            definition.data_fingerprint,
            definition.most_classes,
            Statistics(definition.dimension),
            np.zeros(len(definition.features)),
        )

    @classmethod
    def of(cls, definition: StreamDefinition, samples: Samples, where: str = "") -> Partial:
        """What the rows of a batch add up to that the definition admits; the others are counted by their reasons.

        ``where`` names the batch in the examples of reasons. Raises :class:`LimitExceeded` for more classes than the
        definition tells apart.
        """
        return cls.of_admitted(definition, *admit(samples, definition), where)

    @classmethod
    def of_admitted(
        cls, definition: StreamDefinition, admitted: AdmittedSamples, refused: Sequence[Refusal] = (), where: str = ""
    ) -> Partial:
        """What rows that are admitted already add up to, and what was ``refused`` beside them."""
        if any(refusal.kind == TOO_MANY_CLASSES for refusal in refused):
            _refuse_classes(definition.most_classes)
        counts = {_APPLIED: len(admitted), _MISSING: admitted.missing}
        moments = moments_of_pieces(admitted.mapped(), admitted.codes, admitted.labels)
        return cls(
            definition.stream_fingerprint,
            definition.data_fingerprint,
            definition.most_classes,
            Statistics(definition.dimension, {(0, label): part for label, part in moments.items()}),
            admitted.rounding,
            {name: count for name, count in counts.items() if count},
            watermark=int(admitted.event_times.max(initial=NO_WATERMARK)),
        ).with_refused((one.kind, f"{where}row {one.row}: {one.reason}") for one in refused)

    def with_refused(self, refused: Iterable[tuple[str, str]]) -> Partial:
        """The same with more rows that were refused, each as (kind, where and why)."""
        refusals, examples = dict(self.refusals), dict(self.examples)
        for kind, reason in refused:
            refusals[kind] = refusals.get(kind, 0) + 1
            _keep_first(examples, kind, reason[: limits.REASON_CHARACTERS])
        return replace(self, refusals=refusals, examples=examples)

    def __add__(self, other: Partial) -> Partial:
        """The sum of two partials.

        Raises :class:`DefinitionMismatch` for partials of two stream definitions, and :class:`LimitExceeded` for more
        classes than the definition tells apart.
        """
        if other.stream_fingerprint != self.stream_fingerprint:
            raise DefinitionMismatch(
                f"partial: expected one of stream definition {self.stream_fingerprint.hex()}, got"
                f" {other.stream_fingerprint.hex()}; compute all parts of a history with the same definition",
                other.stream_fingerprint,
            )
        statistics = self.statistics + other.statistics
        if len(statistics) > self.most_classes:
            _refuse_classes(self.most_classes)
        examples = dict(self.examples)
        for kind, reason in other.examples.items():
            _keep_first(examples, kind, reason)
        return replace(
            self,
            statistics=statistics,
            rounding=np.maximum(self.rounding, other.rounding),
            counts=dict(Counter(self.counts) + Counter(other.counts)),
            refusals=dict(Counter(self.refusals) + Counter(other.refusals)),
            examples=examples,
            watermark=max(self.watermark, other.watermark),
        )

    def without(self, statistics: Statistics, outcomes: Mapping[str, int]) -> Partial:
        """The same after rows of these ``statistics`` were taken out again; ``outcomes`` count them by the reason.

        Rounding and watermark stay: they are bounds of what was ever summed.
        """
        counts = Counter(self.counts) + Counter(outcomes) - Counter({_APPLIED: sum(outcomes.values())})
        return replace(self, statistics=self.statistics - statistics, counts=dict(counts))

    def __eq__(self, other: object) -> bool:
        """Bitwise equality of every field."""
        if not isinstance(other, Partial):
            return NotImplemented
        return (
            self.stream_fingerprint == other.stream_fingerprint
            and self.statistics == other.statistics
            and self.rounding.tobytes() == other.rounding.tobytes()
            and (self.counts, self.refusals, self.examples) == (other.counts, other.refusals, other.examples)
            and self.watermark == other.watermark
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def rows(self) -> int:
        """The number of rows in the statistics."""
        return sum(self.statistics.counts().values())

    def digest(self) -> str:
        """The digest of the statistics: that of a stream whose window is ``all``, and that holds just these rows."""
        return self.statistics.digest(self.data_fingerprint)

    def in_windows(self, definition: StreamDefinition) -> Statistics:
        """The statistics of these rows in each window that is over everything; no other can know when they leave."""
        windows = [at for at, window in enumerate(definition.nested_windows.windows) if window.endless]
        moments = {(at, label): part for (_, label), part in self.statistics.items() for at in windows}
        return Statistics(self.statistics.dimension, moments)


def _refuse_classes(most: int) -> None:
    raise LimitExceeded(
        f"history: expected at most {most} classes, which fit a message, got more; declare the classes"
        " (classes.names), or name another column as the label"
    )


def _keep_first(examples: dict[str, str], kind: str, reason: str) -> None:
    examples[kind] = min(reason, examples.get(kind, reason))
