"""The result of a replay, and its state while it runs."""

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
    """The file was read, but no classifier can be made from its rows."""


@dataclass(frozen=True)
class Snapshot:
    """The progress of a replay. ``fraction`` is the part of the file that was read; None if its size is not known."""

    rows: int
    refused: int
    seconds: float
    fraction: float | None
    recent: Confusion
    model: Model | None


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay. ``seconds`` is the time from the start of feeding to the last model.

    ``positive`` is the class whose recall is the sensitivity; None if there are more than two classes.
    ``positive_chosen``: nobody named this class, the replay chose it. ``ended_early`` says why the file was not read to
    its end; None if it was. ``marks`` are values of the first rows that probably mean "missing", if a grid was fitted
    on these rows. ``first_event_time_milliseconds`` is the earliest event time of the rows fed; None if the rows have
    none.
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
    """What was recognised in the file although nobody declared it, and what the user should check."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """Rows read for each label as the file writes it, the most frequent first; refused and thinned rows count too."""
    deviations: Floats | None = None
    """Standard deviations float64[d] of the features over the live rows, in raw units; None if not known."""
    data: str | None = None
    """Text that identifies the rows of this file in their order; None if some rows came in an earlier run."""
    yardsticks: Yardsticks = field(kw_only=True)
    """Curves, baselines and drift. Curves and baselines are empty if another process predicted the rows."""
    decisions: tuple[Decision, ...] = ()
    """The rules that were decided for the columns; none if rules were declared, or if all columns are numbers."""
    predictions: Predictions | None = None
    """The prediction of each row before it was learned; None if predictions were not to be kept."""
    first_event_time_milliseconds: int | None = None
