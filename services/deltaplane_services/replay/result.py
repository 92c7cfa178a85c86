"""What a replay has to show for itself: in the end, and while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaplane.arrays import Floats
from deltaplane.columns.inference import Decision
from deltaplane.errors import DeltaplaneError
from deltaplane.exact.ordinary import FillValue
from deltaplane.log.confusion import Confusion
from deltaplane.log.model import Model
from deltaplane.log.prequential import Point
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.produce.refused_rows import Refusals
from deltaplane_services.replay.oracle import Verification
from deltaplane_services.replay.predictions import Predictions
from deltaplane_services.replay.verdict import Verdict
from deltaplane_services.replay.yardsticks import Yardsticks

__all__ = ["ReplayError", "ReplayResult", "Snapshot"]


class ReplayError(DeltaplaneError):
    """The file was read to its end and holds nothing that a classifier can be made of."""


@dataclass(frozen=True)
class Snapshot:
    """How far a replay is. ``fraction`` of the file read is None where its size is not known."""

    rows: int
    refused: int
    seconds: float
    fraction: float | None
    recent: Confusion
    model: Model | None


@dataclass(frozen=True)
class ReplayResult:
    """All that a replay has to show. ``seconds`` is the time between the first row fed and the last model.

    ``positive`` is the class whose recall is the sensitivity, None of more than two; ``positive_chosen``: nobody has
    named it. ``ended_early`` is None, or why the file was not read to its end. ``notes``: what was found out about the
    file, or taken for granted. ``marks``: values of the first rows, where a grid was fitted on them, that are likely to
    mean that there is none. ``first_event_time_milliseconds``: the earliest of the rows fed, None where they have none.
    """

    source: str
    definition: StreamDefinition
    options: ReplayOptions
    model: Model
    rows: int
    seconds: float
    points: list[Point]
    refusals: Refusals
    thinned: int
    rounding_error: Floats | None
    marks: list[FillValue]
    verification: Verification | None
    ended_early: str | None
    positive: str | None
    positive_chosen: bool
    verdict: Verdict
    notes: tuple[str, ...] = ()
    """What was recognised in the file and not told, and what somebody should look at."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """Rows that were read of each label, as the file has it, refused and thinned ones too; the most frequent first."""
    deviations: Floats | None = None
    """Of the features over the live rows behind the model, float64[d] in raw units, where they are known here."""
    data: str | None = None
    """What tells the rows of this file, in their order, from others; None where some of them came in another run."""
    yardsticks: Yardsticks = field(kw_only=True)
    """Curves and baselines, empty where the predictions of rows were made elsewhere, and drift."""
    decisions: tuple[Decision, ...] = ()
    """The rules that were decided on for its columns; none if they were declared, or all are numbers."""
    predictions: Predictions | None = None
    """What was predicted of each row before it was learned, if that was to be kept."""
    first_event_time_milliseconds: int | None = None
