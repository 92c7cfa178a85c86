"""What a model must be, worked out again from what it says that it was made of, and where it is something else.

Whoever may write models can write any plane. But a model is a function of the statistics at its positions, of the
definition, and in the automatic mode of what became of the candidates before: of the last model and of the trials in
the deltas since. So it is made again, and held against the record, field by field and bit by bit.

Sums, counts and positions are integers, and equal everywhere. Planes are float64, and equal bit for bit on one kind of
processor and library of linear algebra. On another the last digits differ: what is within the rounding that the
condition of the problem explains is taken as equal, and it is said how far it is apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import SolveRefused
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceState
from deltaplane.log.merger import Merger, fit_candidates, of_largest, of_modelled_classes, plane_of, with_means
from deltaplane.log.model import Model, SourcePosition
from deltaplane.solve.aims import Aim
from deltaplane.solve.candidates import Blend, Fitted, blended, weigh
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["MOST_ROUNDING", "ROUNDING", "ModelProof", "SourcePrequentialCounts", "position_faults", "prove_model"]

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""What another processor may make of a well-conditioned plane, relative to its largest weight in steps of the grid."""

MOST_ROUNDING = 1e-6
"""However ill-conditioned a plane is, what differs by more is another plane."""


@dataclass(frozen=True)
class SourcePrequentialCounts:
    """Trials of a source's accepted deltas by the sequence of their tiles, with the version that was tried.

    ``begins``: all from this sequence on are here.
    """

    begins: int = 0
    of: Mapping[int, tuple[PrequentialCounts, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelProof:
    """``faults``: fields in which a model is not what it must be, the first of them first.

    ``unproved``: what nobody can tell from what the logs still hold. ``rounding``: how far planes are apart that count
    as equal, relative to their size; 0.0 where they are equal bit for bit.
    """

    faults: tuple[str, ...]
    unproved: tuple[str, ...]
    rounding: float = 0.0


def position_faults(position: SourcePosition, state: SourceState, *, owner_known: bool = True) -> Iterator[str]:
    """Where a model's word on a source is another than what the source's deltas add up to.

    ``owner_known``: whether ``state`` is as of exactly the deltas that the model says it has read.
    """
    for name, said, found in (
        ("tile", position.sequence, state.sequence),
        ("samples", position.samples, state.samples_position),
        ("retirements", position.retirements, state.retirements_position),
        ("watermark", position.watermark, state.rebuild.watermark),
        ("removed", position.removed, state.removed),
        ("owner", position.owner, state.owner if owner_known else position.owner),
    ):
        if said != found:
            yield f"{name}: the model says {said}, its deltas add up to {found}"


def prove_model(
    model: Model,
    earlier: Sequence[Model],
    merger: Merger,
    prequential_counts: Mapping[Source, SourcePrequentialCounts],
    statistics: Statistics,
    definition: StreamDefinition,
) -> ModelProof:
    """Make a model again, and say where it differs.

    ``earlier``: the models that lie before it on the log, the oldest first. ``merger`` has been given all deltas at the
    model's positions, and nothing else; ``prequential_counts`` are those of these deltas. ``statistics`` are what the
    planes are solved from.
    """
    proof = _Proof(model, earlier, prequential_counts, statistics, definition)
    proof.compare_figures(merger)
    proof.compare_planes()
    return ModelProof(tuple(proof.faults), tuple(proof.unproved), proof.rounding)


class _Proof:
    """One model, field by field."""

    def __init__(
        self,
        model: Model,
        earlier: Sequence[Model],
        prequential_counts: Mapping[Source, SourcePrequentialCounts],
        statistics: Statistics,
        definition: StreamDefinition,
    ) -> None:
        self.model = model
        self.earlier = [one for one in earlier if one.version < model.version]
        self.prequential_counts = prequential_counts
        self.statistics = statistics
        self.definition = definition
        self.faults: list[str] = []
        self.unproved: list[str] = []
        self.rounding = 0.0
        self._tolerance = ROUNDING

    # Integers --------------------------------------------------------------------------------------------------------

    def compare_figures(self, merger: Merger) -> None:
        """What is a sum over deltas."""
        model, definition = self.model, self.definition
        self._same("data_fingerprint", model.data_fingerprint.hex(), definition.data_fingerprint.hex())
        self._same("digest", model.digest, merger.statistics.digest(definition.data_fingerprint))
        # A count of nothing may be there or not.
        totals = {name: count for name, count in merger.outcomes().items() if count}
        told = {name: count for name, count in model.totals.items() if count}
        if len(merger.totals) > limits.OUTCOMES:
            totals = {name: count for name, count in totals.items() if name in told}
        self._same("totals", told, totals)
        self._same("scores", model.scores.counts, of_largest(merger.scores, definition.most_classes).counts)
        counts = of_modelled_classes(self.statistics, definition).counts(definition.nested_windows.longest)
        self._same("counts", dict(model.counts), counts)
        # One that was passed over as it came may be believed when it is read again.
        if merger.ignored_watermarks == 0 or model.watermark > merger.watermark:
            self._same("watermark", model.watermark, merger.watermark)

    def _same(self, name: str, told: object, found: object) -> None:
        if told == found:
            return
        if isinstance(told, Mapping) and isinstance(found, Mapping):
            apart = [key for key in (*told, *found) if told.get(key, 0) != found.get(key, 0)] or [*told, *found]
            name, told, found = f"{name}[{apart[0]!r}]", told.get(apart[0], 0), found.get(apart[0], 0)
        self.faults.append(f"{name}: the model says {told}, it must be {found}")

    # Planes ----------------------------------------------------------------------------------------------------------

    def compare_planes(self) -> None:
        """What is solved from the statistics."""
        model, definition = self.model, self.definition
        self._same("options", model.options, definition.solver)
        self._same("blend", model.blend is not None, definition.automatic and model.blend is not None)
        try:
            if definition.automatic:
                blend_plane = self._blended(fit_candidates(self.statistics, definition))
                found = with_means(blend_plane, self.statistics, definition)
            else:
                found = plane_of(self.statistics, definition)
        except SolveRefused as refused:
            self._compare_refused(str(refused))
            return
        self._same("refusal", model.refusal, None)
        self._same("plane_version", model.plane_version, model.version)
        self._tolerance = min(MOST_ROUNDING, ROUNDING * max(1.0, found.condition))
        self._compare_plane(found)

    def _compare_refused(self, reason: str) -> None:
        """Where the statistics determine no plane, the model keeps the last good one."""
        model = self.model
        if model.refusal is None:
            self.faults.append(f"refusal: the model has none, its statistics determine no plane: {reason}")
            return
        if model.plane is None:
            self._same("plane_version", model.plane_version, 0)
            return
        if not 0 < model.plane_version < model.version:
            self.faults.append(
                f"plane_version: the model says {model.plane_version}, it must be below {model.version}, since its"
                " statistics determine no plane"
            )
            return
        kept = [one for one in self.earlier if one.version == model.plane_version and one.plane is not None]
        if kept and not any(_keeps_plane(model, one) for one in kept):
            self.faults.append(
                f"plane: the model has another, or other candidates, than model {model.plane_version}, where it is from"
            )
        self.unproved.append(
            f"the plane and the candidates of model {model.plane_version}, which are kept: its statistics are gone"
        )

    def _compare_plane(self, found: Plane) -> None:
        told, steps = self.model.plane, self.definition.plane_grid.steps
        if told is None:
            self.faults.append("plane: the model has none, its statistics determine one")
            return
        for name in ("classes", "positive", "counts"):
            self._same(f"plane.{name}", getattr(told, name), getattr(found, name))
        self._close("plane.weights", told.weights * steps, found.weights * steps)
        offsets = np.abs(found.weights * self.definition.plane_grid.offsets).sum(axis=1)
        self._close("plane.biases", told.biases, found.biases, 1.0 + float(offsets.max()))
        for name in ("C", "condition"):
            self._close(f"plane.{name}", np.array([getattr(told, name)]), np.array([getattr(found, name)]))
        # What answers need beside the plane came with this version: where a model has it, it must be true.
        if told.units is not None and found.units is not None:
            self._close("plane.units", told.units, found.units, 1.0 + float(np.abs(found.units).max()))
        if told.means is not None and found.means is not None:
            # Means are quotients of integers, which every machine rounds alike: each is the same bits.
            for at, (mine, theirs) in enumerate(zip(told.means.tolist(), found.means.tolist(), strict=False)):
                self._same(f"plane.means[{at}]", mine, theirs)
            self._same("plane.means", told.means.shape, found.means.shape)
        self._same("plane.sigmas", sorted(told.sigmas), sorted(found.sigmas))
        if told.sigmas.keys() == found.sigmas.keys():
            mine, theirs = (np.array([of.sigmas[label] for label in sorted(of.sigmas)]) for of in (told, found))
            self._close("plane.sigmas", mine, theirs)

    def _close(self, name: str, told: Floats, found: Floats, size: float = 0.0) -> None:
        """Whether two arrays are equal, or as good as equal where they have been worked out elsewhere."""
        if told.shape != found.shape:
            self.faults.append(f"{name}: the model says {told.shape}, it must be {found.shape}")
        elif not np.array_equal(told, found, equal_nan=True):
            apart = _apart(told, found, size)
            if apart <= self._tolerance:
                self.rounding = max(self.rounding, apart)
                return
            differ = np.argwhere(~((told == found) | (np.isnan(told) & np.isnan(found))))
            first = tuple(differ[0])
            self.faults.append(
                f"{name}{[int(at) for at in first]}: the model says {told[first]!r}, it must be {found[first]!r}"
                f" ({len(differ)} of {told.size} differ)"
            )

    # The automatic mode ----------------------------------------------------------------------------------------------

    def _blended(self, fitted: Fitted) -> Plane:
        """The plane of all candidates, each weighed by what has become of it. Raises :class:`SolveRefused`."""
        told, choices = self.model.blend, self.definition.choices_tried
        self._tolerance = min(MOST_ROUNDING, ROUNDING * max(1.0, fitted.condition))
        self._same("objective", str(self.model.objective), str(self.definition.objective))
        fresh = self._weigh(fitted, None, None)
        if told is None or told.choices != choices or told.of.keys() != fresh.of.keys():
            plane = blended(fitted, fresh)
            self._same("blend.choices", None if told is None else told.choices, choices)
            self._same("blend.targets", [] if told is None else list(told.of), list(fresh.of))
            return plane
        found = self._weighed(fitted, told)
        plane = blended(fitted, found)
        steps = self.definition.plane_grid.steps
        for target, candidates in found.of.items():
            mine = told.of[target]
            self._close(f"candidates[{target!r}].weights", mine.weights * steps, candidates.weights * steps)
            self._close(f"candidates[{target!r}].biases", mine.biases, candidates.biases, 1.0)
            self._close(f"candidates[{target!r}].shares", mine.shares, candidates.shares)
        if told.aim is not None and found.aim is not None:
            self._compare_aims(told.aim, found.aim)
        return plane

    def _compare_aims(self, told: Aim, found: Aim) -> None:
        """Where a blend is cut for what is asked for."""
        self._same("objective.unmet", told.unmet, found.unmet)
        for target, history in found.of.items():
            self._close(f"scores[{target!r}].units", told.of[target].units, history.units)
            self._same(f"scores[{target!r}].threshold", told.of[target].threshold, history.threshold)

    def _weigh(self, fitted: Fitted, before: Blend | None, prequential_counts: PrequentialCounts | None) -> Blend:
        definition = self.definition
        objective, watermark = definition.objective, self.model.watermark
        return weigh(fitted, definition.choices_tried, before, prequential_counts, objective, watermark)

    def _weighed(self, fitted: Fitted, told: Blend) -> Blend:
        """Candidates with the hits and rows that follow from a model before and from trials; else with those told."""
        choices = self.definition.choices_tried
        for before, prequential_counts in self._pasts():
            found = self._weigh(fitted, before, prequential_counts)
            apart = max(_apart_in_prequential_counts(told, found, target) for target in told.of)
            if apart <= ROUNDING:
                self.rounding = max(self.rounding, apart)
                return found
        if self._knows_the_past():
            after = f"the {len(self.earlier)} models before it and the trials since" if self.earlier else "all trials"
            self.faults.append(f"candidates.hits: what the model says of its candidates does not follow from {after}")
        else:
            self.unproved.append("the hits and rows of the candidates: the model before it, or trials since, are gone")
        hits = {
            target: replace(candidates, hits=told.of[target].hits, rows=told.of[target].rows)
            for target, candidates in self._weigh(fitted, None, None).of.items()
        }
        # With no trials since, what was known stays as it is.
        return self._weigh(fitted, Blend(choices, hits, told.aim), None)

    def _pasts(self) -> Iterator[tuple[Blend | None, PrequentialCounts | None]]:
        """What may have been known before, and the trials since: by the newest models first.

        A merger goes on from a model of its own; from one whose plane was refused, if it has started since; or, for
        a moment, behind another merger, whose trials it leaves out.
        """
        seen: dict[Source, int] = {}
        pasts: list[tuple[Model, list[dict[Source, int]]]] = []
        for model in self.earlier:
            at = {position.source: position.sequence for position in model.positions}
            seen = seen | {source: max(sequence, seen.get(source, 0)) for source, sequence in at.items()}
            pasts.append((model, [at] if at == seen else [at, seen]))
        changed = 0
        for before, after in zip(self.earlier, self.earlier[1:], strict=False):
            changed = after.version if before.options != after.options else changed
        for model, starts in reversed(pasts):
            same = model.options == self.definition.solver
            for start in starts:
                for scored_from in sorted({0, changed}) if same else (model.version + 1,):
                    yield model.blend if same else None, self._prequential_counts_since(start, scored_from)
        if not self.earlier:
            yield None, self._prequential_counts_since({}, 0)

    def _knows_the_past(self) -> bool:
        """Whether the model before, and all trials since, are there."""
        start: Mapping[Source, int] = {}
        if self.earlier:
            start = {position.source: position.sequence for position in self.earlier[-1].positions}
        elif self.model.version > 1:
            return False
        return all(
            prequential_counts.begins <= start.get(source, 0)
            for source, prequential_counts in self.prequential_counts.items()
        )

    def _prequential_counts_since(self, start: Mapping[Source, int], scored_from: int) -> PrequentialCounts | None:
        windows, choices = len(self.definition.nested_windows.windows), self.definition.choices_tried
        found = [
            prequential_counts
            for source, of in self.prequential_counts.items()
            for sequence, (prequential_counts, scored_by) in of.of.items()
            if sequence >= start.get(source, 0)
            and scored_by >= scored_from
            and prequential_counts.fits(windows, choices)
        ]
        return functools.reduce(PrequentialCounts.__add__, found) if found else None


def _apart(told: Floats, found: Floats, size: float = 0.0) -> float:
    """The largest difference, relative to the largest value or to ``size``; infinite where one is not a number."""
    if told.shape != found.shape or (np.isnan(told) != np.isnan(found)).any():
        return float("inf")
    with np.errstate(all="ignore"):
        largest = max(size, float(np.abs(np.nan_to_num(found)).max(initial=0.0)))
        difference = float(np.abs(np.nan_to_num(told) - np.nan_to_num(found)).max(initial=0.0))
    return 0.0 if difference == 0.0 else difference / largest if largest else float("inf")


def _apart_in_prequential_counts(told: Blend, found: Blend, target: str) -> float:
    mine, theirs = told.of[target], found.of[target]
    apart = max(_apart(mine.hits, theirs.hits), _apart(mine.rows, theirs.rows))
    if told.aim is None or found.aim is None:
        return apart if told.aim is found.aim else float("inf")
    said, worked_out = (np.array([aim.milliseconds, aim.watermark], dtype=np.float64) for aim in (told.aim, found.aim))
    counts = _apart(told.aim.of[target].counts, found.aim.of[target].counts)
    return max(apart, counts, _apart(said, worked_out))


def _keeps_plane(model: Model, before: Model) -> bool:
    """Whether a model has the plane of another, and the candidates; none, where other settings have dropped them."""
    mine, theirs = model.plane, before.plane
    assert mine is not None
    assert theirs is not None
    equal = (mine.classes, mine.positive) == (theirs.classes, theirs.positive)
    equal = equal and np.array_equal(mine.weights, theirs.weights) and np.array_equal(mine.biases, theirs.biases)
    if not equal or model.blend is None or before.blend is None:
        return equal and model.blend is None
    of, others = model.blend.of, before.blend.of
    return (
        model.blend.choices == before.blend.choices
        and of.keys() == others.keys()
        and all(
            np.array_equal(getattr(of[target], name), getattr(others[target], name), equal_nan=True)
            for target in of
            for name in ("weights", "biases", "hits", "rows", "shares")
        )
        and _keeps_aim(model.blend.aim, before.blend.aim)
    )


def _keeps_aim(mine: Aim | None, theirs: Aim | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    figures = [(aim.objective, aim.milliseconds, aim.watermark, aim.unmet, aim.of.keys()) for aim in (mine, theirs)]
    return figures[0] == figures[1] and all(
        one.threshold == other.threshold
        and np.array_equal(one.units, other.units, equal_nan=True)
        and np.array_equal(one.counts, other.counts)
        for one, other in ((mine.of[target], theirs.of[target]) for target in mine.of)
    )
