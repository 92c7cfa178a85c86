"""The proof of a model: it is computed again from the deltas that it claims to contain, and compared.

Everyone who may write models can write any plane. But a model is a function of the statistics at its positions, of the
definition, and in the automatic mode of the hits of the candidates before: of the last model and of the prequential
counts in the deltas since. So the model is computed again, and compared with the record field by field, bit for bit.

Sums, counts and positions are integers, and equal everywhere. Planes are float64, and equal bit for bit with the same
kind of processor and the same library of linear algebra. With others the last digits differ: differences within the
rounding that the condition of the problem explains count as equal, and the largest of them is reported.
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
from deltaplane.log.model import Model, SourcePosition, furthest
from deltaplane.solve.aims import Aim
from deltaplane.solve.candidates import Blend, Fitted, blended, weigh
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["MOST_ROUNDING", "ROUNDING", "ModelProof", "SourcePrequentialCounts", "position_faults", "prove_model"]

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""The largest difference that another processor may make in a well-conditioned plane, relative to its largest weight
per grid step."""

MOST_ROUNDING = 1e-6
"""The largest relative difference that counts as rounding, however ill-conditioned a plane is."""


@dataclass(frozen=True)
class SourcePrequentialCounts:
    """The prequential counts of a source's accepted deltas.

    ``of``: sequence of the tile to (counts, version of the model that was tried). ``begins``: the sequence from which
    on no delta is missing.
    """

    begins: int = 0
    of: Mapping[int, tuple[PrequentialCounts, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelProof:
    """The result of the proof of a model.

    ``faults``: the fields in which the model is wrong, in the order of the checks. ``unproved``: the parts that cannot
    be checked with the records that the logs still hold. ``rounding``: the largest relative difference of values that
    count as equal; 0.0 if all are equal bit for bit.
    """

    faults: tuple[str, ...]
    unproved: tuple[str, ...]
    rounding: float = 0.0


def position_faults(position: SourcePosition, state: SourceState, *, owner_known: bool = True) -> Iterator[str]:
    """The differences between a model's position in a source and the sum of the source's deltas, in words.

    ``owner_known``: whether ``state`` is the sum of exactly the deltas that the model says it has read.
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
    """The proof of ``model``: it is computed again and compared.

    ``earlier``: the models before it in the log, the oldest first. ``merger`` must contain all deltas up to the model's
    positions and no others; ``prequential_counts`` are those of these deltas. ``statistics``: those that the planes are
    solved from.
    """
    proof = _Proof(model, earlier, prequential_counts, statistics, definition)
    proof.compare_figures(merger)
    proof.compare_planes()
    return ModelProof(tuple(proof.faults), tuple(proof.unproved), proof.rounding)


class _Proof:
    """The proof of one model, field by field."""

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
        """Compare the fields that are sums over deltas."""
        model, definition = self.model, self.definition
        self._same("data_fingerprint", model.data_fingerprint.hex(), definition.data_fingerprint.hex())
        self._same("digest", model.digest, merger.statistics.digest(definition.data_fingerprint))
        # Outcomes that count 0 may be listed or not.
        totals = {name: count for name, count in merger.outcomes().items() if count}
        told = {name: count for name, count in model.totals.items() if count}
        if len(merger.totals) > limits.OUTCOMES:
            totals = {name: count for name, count in totals.items() if name in told}
        self._same("totals", told, totals)
        self._same("scores", model.scores.counts, of_largest(merger.scores, definition.most_classes).counts)
        counts = of_modelled_classes(self.statistics, definition).counts(definition.nested_windows.longest)
        self._same("counts", dict(model.counts), counts)
        # A watermark that the model's merger ignored may be believed when its delta is read again.
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
        """Compare the fields that are solved from the statistics."""
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
        """Compare a model whose statistics determine no plane: it must keep the last good plane."""
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
        # Models of earlier versions have no units and no means. If a model has them, they must be right.
        if told.units is not None and found.units is not None:
            self._close("plane.units", told.units, found.units, 1.0 + float(np.abs(found.units).max()))
        if told.means is not None and found.means is not None:
            # Means are quotients of integers, which every machine rounds alike, so they are equal bit for bit.
            for at, (mine, theirs) in enumerate(zip(told.means.tolist(), found.means.tolist(), strict=False)):
                self._same(f"plane.means[{at}]", mine, theirs)
            self._same("plane.means", told.means.shape, found.means.shape)
        self._same("plane.sigmas", sorted(told.sigmas), sorted(found.sigmas))
        if told.sigmas.keys() == found.sigmas.keys():
            mine, theirs = (np.array([of.sigmas[label] for label in sorted(of.sigmas)]) for of in (told, found))
            self._close("plane.sigmas", mine, theirs)

    def _close(self, name: str, told: Floats, found: Floats, size: float = 0.0) -> None:
        """Note a fault unless two arrays are equal, or differ only by the rounding of another machine."""
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
        """The plane that is blended of all candidates. Raises :class:`SolveRefused` if there is none."""
        told, choices = self.model.blend, self.definition.choices_tried
        self._tolerance = min(MOST_ROUNDING, ROUNDING * max(1.0, fitted.condition))
        self._same("objective", str(self.model.objective), str(self.definition.objective))
        fresh = self._weigh(fitted, None, None)
        # Which classes have a plane does not depend on the past. If too few do, candidates were kept as they were.
        plane = blended(fitted, fresh)
        if told is None or told.choices != choices or told.of.keys() != fresh.of.keys():
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
        """Compare the thresholds of a blend, and the units of its scores."""
        self._same("objective.unmet", told.unmet, found.unmet)
        for target, history in found.of.items():
            self._close(f"scores[{target!r}].units", told.of[target].units, history.units)
            self._same(f"scores[{target!r}].threshold", told.of[target].threshold, history.threshold)

    def _weigh(self, fitted: Fitted, before: Blend | None, prequential_counts: PrequentialCounts | None) -> Blend:
        definition = self.definition
        objective, watermark = definition.objective, self.model.watermark
        return weigh(fitted, definition.choices_tried, before, prequential_counts, objective, watermark)

    def _weighed(self, fitted: Fitted, told: Blend) -> Blend:
        """The candidates with the hits that follow from an earlier model and the deltas since.

        If no such hits are those of the model, the model's own are taken.
        """
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
        # Without new counts, hits do not fade.
        return self._weigh(fitted, Blend(choices, hits, told.aim), None)

    def _pasts(self) -> Iterator[tuple[Blend | None, PrequentialCounts | None]]:
        """Pairs of an earlier blend and the counts since that the model may follow from; the newest models first.

        A merger continues from its own last model. If it has started since, that may be one whose plane was refused.
        It leaves out the counts up to where all models had come when it started, since its candidates may have them.
        Models that readers passed over, since their version did not rise, are not among these.
        """
        pasts: list[tuple[Model, list[dict[Source, int]]]] = []
        come_to: list[dict[Source, int]] = [{}]
        highest = 0
        for model in self.earlier:
            at = model.come_to
            if model.version > highest and (further := furthest(come_to[-1], at)) != come_to[-1]:
                come_to.append(further)
            highest = max(highest, model.version)
            starts = [at]
            for one in reversed(come_to):
                if (start := furthest(one, at)) not in starts:
                    starts.append(start)
            pasts.append((model, starts))
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
        """Whether the model before and all counts since are in the logs.

        The model before is the last one that readers took, or one after it that they passed over: its merger may have
        gone on from that.
        """
        if not self.earlier:
            return self.model.version == 1 and self._knows_all_since({})
        versions = [one.version for one in self.earlier]
        last_taken = versions.index(max(versions))
        return all(self._knows_all_since(one.come_to) for one in self.earlier[last_taken:])

    def _knows_all_since(self, start: Mapping[Source, int]) -> bool:
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
    """The largest difference, relative to the largest value or to ``size``; infinite if only one value is NaN."""
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
    """Whether a model has the plane and the candidates of another, or no candidates, since settings have changed."""
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
