"""The model: a plane, its origin, and its scores so far.

A model record has all that is needed to check it: the digest of its statistics, the position of every source in them,
and the options of the solver. If the newest statistics determine no plane, the model keeps the last good one, and
``refusal`` says why.
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

__all__ = ["Model", "SourcePosition", "furthest"]


def furthest(one: Mapping[Source, int], other: Mapping[Source, int]) -> dict[Source, int]:
    """The higher of two sequences for each source."""
    return {source: max(one.get(source, 0), other.get(source, 0)) for source in one.keys() | other.keys()}


@dataclass(frozen=True)
class SourcePosition:
    """The position up to which a model contains a source.

    ``sequence``, ``samples`` and ``retirements`` are those of the next tile. ``watermark``: the largest event time that
    the source has applied, in milliseconds. ``read_to``: the first offset of the source's deltas partition that the
    merger has not read. ``owner``: the writer whose deltas are accepted as of then. A ``removed`` source does not
    count.
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

    ``plane_version``: the version that first had this plane, lower than ``version`` if solving has been refused since.
    ``counts``: live rows by class. ``scores``: the prequential confusion of all samples so far. ``totals``: numbers of
    samples and retirements so far, by outcome. ``created`` and ``watermark`` are milliseconds since the epoch.
    ``blend``: in the automatic mode, the candidates that ``plane`` is made of. ``digest_of`` computes the digest of the
    statistics; that takes time, and few digests of a replay are used. ``calibration``: that of ``plane``, or None if
    probabilities are not wanted, or if there are too many classes for them.
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
        """float64[n, k]: the probability of each class of the plane, from decision values float64[n, p]; or None.

        It is None if there is no plane or no calibration, or if no class has been scored on both sides yet. See
        :meth:`deltaplane.solve.calibration.Calibration.probabilities`.
        """
        if self.plane is None or self.calibration is None:
            return None
        found = self.calibration.probabilities(self.plane, decisions)
        return found if self.calibration.curves else None

    @property
    def objective(self) -> Objective:
        """The objective that the plane was weighed, and its threshold set, for."""
        return GMEAN if self.blend is None or self.blend.aim is None else self.blend.aim.objective

    @property
    def unmet(self) -> str | None:
        """Why no threshold is within the bound of the objective, and what is done instead; None if one is."""
        return None if self.blend is None or self.blend.aim is None else self.blend.aim.unmet

    @property
    def leaning(self) -> Leaning | None:
        """The mean shares of the blend, or None if there is no blend."""
        return None if self.blend is None else self.blend.leaning

    @property
    def come_to(self) -> dict[Source, int]:
        """For each source, the sequence up to which the model contains its tiles."""
        return {position.source: position.sequence for position in self.positions}

    def replaces(self, other: Model | None) -> bool:
        """Whether a reader that has the ``other`` model takes this one, which came later: if its version is higher.

        Among models with the largest possible version, the last one counts. No merger reaches that version by counting,
        but otherwise a forged model of that version could not be replaced.
        """
        if other is None or self.version > other.version:
            return True
        return self.version == other.version == limits.MODEL_VERSION

    def check(self, definition: StreamDefinition) -> None:
        """Raise an error if the model cannot be used in a stream.

        :class:`DefinitionMismatch`: it is of another stream. :class:`WireError`: it claims to be of this stream but
        cannot be, since it has planes over other features, too many classes, or a watermark beyond all event times.
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
        """The largest possible watermark of the model and its sources, and the number of impossible ones.

        No stream admits a row more than ``max_skew`` ahead of the log. So a watermark more than that ahead of
        ``log_time``, when the model's record was appended (all in milliseconds), comes from no row, and no window may
        end by it.
        """
        given = [self.watermark, *(position.watermark for position in self.positions)]
        believed = [watermark for watermark in given if watermark - max_skew_milliseconds <= log_time]
        return max(believed, default=NO_WATERMARK), len(given) - len(believed)

    def contains(self, source: Source, sequence: int) -> bool:
        """Whether the tile with this sequence number of a source is in the model."""
        return any(position.source == source and position.sequence > sequence for position in self.positions)
