"""The model: a plane, what it was made from, and how it has done so far.

A model record says enough to be checked: the digest of the statistics behind it, the position of every source in
them, and the options it was solved with. Where the newest statistics determine no plane, the model keeps the last good
one and says so in ``refusal``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Source
from deltaplane.solve.calibration import Calibration
from deltaplane.solve.candidates import Blend, Leaning
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.sliding import NO_WATERMARK

__all__ = ["Model", "SourcePosition"]


@dataclass(frozen=True)
class SourcePosition:
    """How much of one source a model contains; ``watermark`` is the largest event time that source has applied.

    ``owner`` is the writer whose deltas count, as of ``read_to``, the first offset of the source's deltas partition
    that the merger has not read. Nothing of a ``removed`` source counts.
    """

    source: Source
    sequence: int
    samples: int
    retirements: int
    watermark: int
    owner: str = ""
    read_to: int = 0
    removed: bool = False


@dataclass(frozen=True, eq=False)
class Model:
    """One published state of the classifier.

    ``plane_version`` is the version that first had this plane: lower than ``version`` where solving has been refused
    since. ``counts`` are live rows by class, ``scores`` the prequential confusion of all samples so far, ``totals``
    outcomes of all samples and retirements so far. ``created`` and ``watermark`` are milliseconds since the epoch.
    ``blend``: in the automatic mode the candidates that ``plane`` is made of, refusals included. ``digest_of``
    works out the digest of the statistics, which takes time, and in a replay nobody looks at most of them.
    ``calibration``: what is known of the scores of ``plane``; None where probabilities are not wanted, or there are too
    many classes for them.
    """

    version: int
    stream_fingerprint: bytes
    data_fingerprint: bytes
    created: int
    plane: Plane | None
    plane_version: int
    refusal: str | None
    options: SolverOptions
    digest_of: Callable[[], str]
    counts: Mapping[str, int]
    positions: tuple[SourcePosition, ...]
    scores: Confusion
    totals: Mapping[str, int]
    watermark: int = NO_WATERMARK
    blend: Blend | None = None
    calibration: Calibration | None = None

    @property
    def digest(self) -> str:
        """The digest of the statistics that the model was made from: see :meth:`Statistics.digest`."""
        return self.digest_of()

    def probabilities(self, decisions: Floats) -> Floats | None:
        """float64[n, k]: the probability of each class of the plane, by decision values float64[n, p]; None without.

        See :meth:`deltaplane.solve.calibration.Calibration.probabilities`.
        """
        if self.plane is None or self.calibration is None:
            return None
        found = self.calibration.probabilities(self.plane, decisions)
        return found if self.calibration.curves else None

    @property
    def objective(self) -> Objective:
        """What the plane was weighed and cut for."""
        return GMEAN if self.blend is None or self.blend.aim is None else self.blend.aim.objective

    @property
    def unmet(self) -> str | None:
        """Why no threshold is within the bound of the objective, and what is done instead; None where one is."""
        return None if self.blend is None or self.blend.aim is None else self.blend.aim.unmet

    @property
    def leaning(self) -> Leaning | None:
        """What the blended plane leans to; None where no candidates are weighed."""
        return None if self.blend is None else self.blend.leaning

    def replaces(self, other: Model | None) -> bool:
        """Whether a reader that has another model takes this one, which came after it: its version is higher.

        Of models with the highest version that there can be, the last one counts. Nobody gets there by counting, but
        whoever forged a model of that version would otherwise have the last word for ever.
        """
        if other is None or self.version > other.version:
            return True
        return self.version == other.version == limits.MODEL_VERSION

    def check(self, definition: StreamDefinition) -> None:
        """Raise what is wrong with a model that is to be used in a stream.

        :class:`DefinitionMismatch` for one of another stream, :class:`WireError` for one that says it is of this stream
        and cannot be: planes over other features, more classes than are told apart, or a watermark beyond any calendar.
        """
        if self.stream_fingerprint != definition.stream_fingerprint:
            raise DefinitionMismatch(
                f"stream {definition.name!r}: its models are of stream definition {self.stream_fingerprint.hex()},"
                f" expected {definition.stream_fingerprint.hex()}; use the definition that the stream was made with, or"
                " give the new one another name",
                self.stream_fingerprint,
            )
        planes = [] if self.plane is None else [self.plane.weights]
        planes += [] if self.blend is None else [candidates.weights for candidates in self.blend.of.values()]
        widths = {weights.shape[-1] for weights in planes}
        if widths - {definition.dimension - 1}:
            raise WireError(
                f"model {self.version}: expected planes over {definition.dimension - 1} features, got {sorted(widths)};"
                " another than a merger of this stream made it"
            )
        classes = max(
            0 if self.plane is None else len(self.plane.classes), 0 if self.blend is None else len(self.blend.of)
        )
        if classes > definition.most_classes:
            raise WireError(
                f"model {self.version}: expected planes of up to {definition.most_classes} classes, got {classes};"
                " another than a merger of this stream made it"
            )
        if definition.nested_windows.timed and self.watermark >= limits.EVENT_TIME_MILLISECONDS:
            raise WireError(
                f"model {self.version}: expected a watermark below {limits.EVENT_TIME_MILLISECONDS} ms, got"
                f" {self.watermark}; another than a merger of this stream made it"
            )

    def believable_watermark(self, log_time: int, max_skew_milliseconds: int) -> tuple[int, int]:
        """The largest watermark that this model gives and that can be, and how many it gives that cannot.

        No stream admits a row more than ``max_skew`` ahead of the log. So a watermark, of the model or of one of its
        sources, that is more than that ahead of ``log_time``, when the model's record was appended (all in
        milliseconds), was made by no row: whoever made it up, nobody's window ends by it.
        """
        given = [self.watermark, *(position.watermark for position in self.positions)]
        believed = [watermark for watermark in given if watermark - max_skew_milliseconds <= log_time]
        return max(believed, default=NO_WATERMARK), len(given) - len(believed)

    def contains(self, source: Source, sequence: int) -> bool:
        """Whether the tile with this sequence number of a source is in the model."""
        return any(position.source == source and position.sequence > sequence for position in self.positions)
