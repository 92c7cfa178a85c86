"""The merger: adds the accepted deltas of all sources and solves for the plane.

Sums are exact, so they equal those of a batch fit, whatever the number of sources and the order of their deltas (paper
1, Algorithm 5, eq. 36-39). The statistics of each source are also kept separately, so that each source has its own
checkpoint and a whole source can leave.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from deltaplane import limits
from deltaplane.errors import SolveRefused, StateMismatch
from deltaplane.exact.deviations import means
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Claim, Delta, Source, SourceOrder, SourceState, Verdict, accept, check_declared
from deltaplane.log.model import Model, SourcePosition, furthest
from deltaplane.solve.calibration import Calibration, Tallies
from deltaplane.solve.candidates import Blend, Fitted, blended, fit, weigh
from deltaplane.solve.flat_and_curved import Options, Windows, fit_flat_and_curved
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver import Plane, solve
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import LETTERS_DUE
from deltaplane.window.sliding import NO_WATERMARK

__all__ = ["Merger", "fit_candidates", "goes_on_from", "of_largest", "of_modelled_classes", "plane_of", "with_means"]

_NOTHING_READ: Mapping[Source, int] = MappingProxyType({})
_ANY_TIME = 2 * limits.EVENT_TIME_MILLISECONDS
"""The log time of records that come from no log: every watermark is possible by then."""


def of_modelled_classes(statistics: Statistics, definition: StreamDefinition) -> Statistics:
    """The statistics of the classes that a model tells apart: all of them, or those with the most rows.

    Each partition admits as many open classes as fit a message, and all partitions together may have more. Then a model
    has the classes with the most rows in the longest window, and of equal ones the first by name. That depends on the
    sum alone, and not on the order of addition. So thousands of made-up labels do not displace the classes with many
    rows. The digest, deltas and checkpoints are of all classes.
    """
    counts = statistics.counts(definition.nested_windows.longest)
    if len(counts) <= definition.most_classes:
        return statistics
    chosen = set(sorted(counts, key=lambda label: (-counts[label], label))[: definition.most_classes])
    kept = {key: moments for key, moments in statistics.items() if key[1] in chosen}
    return Statistics(statistics.dimension, kept)


def of_largest(scores: Confusion, most: int) -> Confusion:
    """The scores of the ``most`` classes with the most rows scored, and of equal ones the first by name."""
    if len(scores.classes) <= most:
        return scores
    rows = dict.fromkeys(scores.classes, 0) | scores.truths()
    chosen = set(sorted(rows, key=lambda label: (-rows[label], label))[:most])
    return Confusion({pair: count for pair, count in scores.counts.items() if chosen.issuperset(pair)})


def goes_on_from(states: Iterable[SourceState], model: Model, definition: StreamDefinition) -> bool:
    """Whether a merger that starts from checkpoints can continue with a model's candidates and calibration.

    It can if the model has read at least as far as each checkpoint: then the deltas that its candidates lack are read
    again. The last model is behind the checkpoints if a merger wrote it that was no longer elected. Then the
    prequential counts between the two would be lost, and counts that its candidates have already would be added again.
    """
    known = model.come_to
    return (
        (model.blend is not None) == definition.automatic
        and model.options == definition.solver
        and all(state.sequence <= known.get(state.source, 0) for state in states)
    )


def fit_candidates(statistics: Statistics, definition: StreamDefinition) -> Fitted:
    """Every candidate plane of the automatic mode. Raises :class:`SolveRefused` if there is none."""
    nested_windows, statistics = definition.nested_windows, of_modelled_classes(statistics, definition)
    grams = [statistics.grams(window) for window in range(len(nested_windows.windows))]
    positive, prior, beside = definition.classes.positive, definition.prior, definition.feature_map.beside
    grid, options = definition.plane_grid, definition.candidate_options
    if beside:
        windows = Windows(grams, nested_windows.longest, definition.dimensions)
        both = Options(options, definition.curved_options)
        return fit_flat_and_curved(windows, grid, beside, both, positive, prior)
    return fit(grams, nested_windows.longest, grid, options, positive, prior)


def plane_of(statistics: Statistics, definition: StreamDefinition, blend: Blend | None = None) -> Plane:
    """The plane of some statistics; in the automatic mode with the shares of a published ``blend``.

    Candidates are solved again; shares, and thresholds of an objective, are those of the blend. Raises
    :class:`SolveRefused` if the statistics determine no plane.
    """
    if blend is None:
        grams, positive = of_modelled_classes(statistics, definition).grams(), definition.classes.positive
        plane = solve(grams, definition.plane_grid, definition.solver, positive, definition.prior)
        return with_means(plane, statistics, definition)
    fitted = fit_candidates(statistics, definition)
    again = {
        target: replace(candidates, weights=fitted.weights[target], biases=fitted.biases[target])
        for target, candidates in blend.of.items()
    }
    return with_means(blended(fitted, replace(blend, of=again)), statistics, definition)


def with_means(plane: Plane, statistics: Statistics, definition: StreamDefinition) -> Plane:
    """The plane with the means of its features over the live rows of the classes that it tells apart."""
    live = of_modelled_classes(statistics, definition).grams(definition.nested_windows.longest)
    return replace(plane, means=means(live.values(), definition.plane_grid))


class Merger:
    """The sum over all sources, and the last good plane.

    It is changed by ``restore``, ``apply``, ``see_other`` and ``publish`` only. ``void_prequential_counts``: the number
    of deltas whose prequential counts were left out, since they are of other candidates than this merger's: solver
    settings may change on a live stream from one merger to the next. ``ignored_watermarks``: the number of watermarks
    of deltas and checkpoints that were left out of models, since they are farther ahead of the log than any row may be.
    """

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.version = 0
        self.statistics = Statistics(definition.dimension)
        self.scores = Confusion()
        self.totals: Counter[str] = Counter()
        self._sources: dict[Source, SourceState] = {}
        self._read_to: dict[Source, int] = {}
        self._watermarks: dict[Source, int] = {}
        self.ignored_watermarks = 0
        self._plane: Plane | None = None
        self._plane_version = 0
        self._blend: Blend | None = None
        self._prequential_counts: PrequentialCounts | None = None
        self._calibration = Calibration({})
        self._tallies = Tallies()
        self._weighed: dict[Source, int] = {}
        # The candidates of models before this version were solved with other options.
        self._candidates_from = 0
        self.void_prequential_counts = 0
        self._changed = True

    def restore(
        self,
        states: Iterable[SourceState],
        last: Model | None,
        read_to: Mapping[Source, int] = _NOTHING_READ,
        log_times: Mapping[Source, int] = _NOTHING_READ,
        weighed_by: Model | None = None,
        weighed_to: Mapping[Source, int] = _NOTHING_READ,
    ) -> None:
        """Start from checkpoints; versions continue from the ``last`` model, so that they always increase.

        ``weighed_by``: the model whose plane and candidates to continue with, if it is not the last; see
        :func:`goes_on_from`.
        ``weighed_to``: for each source, the sequence that models up to that one had come to. The candidates may have
        counts of tiles that their own model does not contain yet: a merger that starts from older checkpoints reads
        these tiles again, and may publish before it has come as far as the model whose candidates it goes on with.

        ``read_to``: for each source, the offset up to which its deltas are in its state. A worker believes a model that
        names another owner only if the merger has read as far as the worker's own claim. ``log_times``: when each
        source's checkpoint was appended, in milliseconds.
        """
        for state in states:
            self._sources[state.source] = state
            self._hear(state.source, state.rebuild.watermark, log_times.get(state.source, _ANY_TIME))
            self._read_to[state.source] = read_to.get(state.source, 0)
            self.statistics = self.statistics + state.statistics
            self.scores = self.scores + state.scores
            self.totals.update(state.counts)
        if last is not None:
            self.version = last.version
            # The model may contain deltas that are newer than the checkpoints. They are read again, but the candidates
            # have their prequential counts already.
            chosen = weighed_by or last
            self._blend = chosen.blend
            # While solving is refused, a model keeps plane and candidates, which must be of one and the same model.
            kept = last if chosen.plane is None else chosen
            self._plane, self._plane_version = kept.plane, kept.plane_version
            self._calibration = chosen.calibration or self._calibration
            self._weighed = furthest(weighed_to, chosen.come_to)
            if last.options != self.definition.solver:
                self._blend, self._candidates_from = None, last.version + 1
        self._changed = True

    def state(self, source: Source) -> SourceState:
        """The sum of the accepted deltas of a source; an empty state if the source is not known."""
        return self._sources.get(source) or SourceState(source, Statistics(self.definition.dimension))

    def sources(self) -> list[SourceState]:
        """The states of all sources, sorted."""
        return [self._sources[source] for source in sorted(self._sources)]

    def apply(self, record: Claim | Delta | SourceOrder, offset: int = -1, log_time: int = _ANY_TIME) -> Verdict:
        """The verdict on the next record of the log of deltas, at ``offset`` of its partition; applies the record.

        ``log_time``: when it was appended, in milliseconds. Its watermark is believed up to ``max_skew`` ahead of that.
        A delta with a larger one is accepted all the same, since its worker has applied it: only the windows of its own
        source end by it.

        Raises what :func:`deltaplane.log.delta.accept` and :func:`deltaplane.log.delta.check_declared` raise, and
        :class:`StateMismatch` if the source is one more than a model can name. Then statistics stay as they are.
        """
        if record.source not in self._sources and len(self._sources) >= limits.SOURCES:
            raise StateMismatch(
                f"source {record.source}: expected up to {limits.SOURCES} sources, and there are so many; sources"
                " that nobody uses go only with the stream: start it anew under another name"
            )
        self._read_to[record.source] = offset + 1
        before = self.state(record.source)
        check_declared(self.definition, record)
        after, verdict = accept(before, record, self.definition.stream_fingerprint, self.definition.plane_grid.range)
        if verdict is Verdict.ACCEPTED and isinstance(record, Delta):
            # With a single source, the sum is that of the source.
            alone = len(self._sources) == 1
            self.statistics = after.statistics if alone else self.statistics + record.change
            self.scores = after.scores if alone else self.scores + record.scores
            self.totals.update(record.counts)
            self._hear(record.source, record.rebuild.watermark, log_time)
            self._note_prequential_counts(record)
            self._changed = True
        elif isinstance(record, SourceOrder) or after.owner != before.owner:
            # Workers learn from the model who owns a source, and whether it has been removed.
            self.statistics = self.statistics + after.statistics - before.statistics
            self.totals.update(after.counts)
            self.totals.subtract(before.counts)
            if after.rebuild.watermark == NO_WATERMARK:
                self._watermarks.pop(record.source, None)
            self._changed = True
        self._sources[record.source] = after
        return verdict

    def _hear(self, source: Source, watermark: int, log_time: int) -> None:
        """Set the watermark of a source, unless it is too far ahead of the log."""
        if self.definition.nested_windows.timed and watermark - self.definition.max_skew_milliseconds > log_time:
            self.ignored_watermarks += 1
        else:
            self._watermarks[source] = watermark

    def _note_prequential_counts(self, delta: Delta) -> None:
        """Keep the counts and tallies of a delta until the next model; counts of other candidates are void."""
        prequential_counts = delta.prequential_counts
        if delta.tile.sequence < self._weighed.get(delta.source, 0):
            return
        self._tallies = self._tallies + delta.tallies
        if prequential_counts is None:
            return
        fits = prequential_counts.fits(len(self.definition.nested_windows.windows), self.definition.choices_tried)
        if not fits or delta.scored_by < self._candidates_from:
            # The solver was changed while the stream was live, so counts of the old candidates are of no use.
            self.void_prequential_counts += 1
            return
        self._prequential_counts = (
            prequential_counts if self._prequential_counts is None else self._prequential_counts + prequential_counts
        )

    def see_other(self, model: Model) -> None:
        """Continue above the version of another merger's model, and publish again if that model knows less, or lies.

        Two mergers may both believe that they are elected. Readers ignore versions that are not higher. So without this
        call, the model of a merger that is behind could stay with them for good: without rows, or with an owner whose
        source another has claimed since, or with a source that has been removed. The same holds for a record by one who
        is no merger, which says that event time has come further than the very same records have brought it. No other
        difference is answered, since two honest mergers may blend other planes, and would answer each other for ever.
        """
        if model.version < self.version:
            return
        known = {position.source: position for position in model.positions}
        self.version = model.version
        self._changed = (
            self._changed
            or any(self._knows_more(state, known.get(source)) for source, state in self._sources.items())
            or self._is_ahead_of_its_rows(model)
        )

    def _knows_more(self, state: SourceState, told: SourcePosition | None) -> bool:
        if told is None:
            return state.sequence > 0 or state.owner != "" or state.removed
        later = self._read_to.get(state.source, 0) > told.read_to
        return state.sequence > told.sequence or (later and (state.owner, state.removed) != (told.owner, told.removed))

    def _is_ahead_of_its_rows(self, model: Model) -> bool:
        """Whether a model that knows no record that is not known here says that event time has come further."""
        positions = model.positions
        if any(one.source not in self._sources or one.read_to > self._read_to.get(one.source, 0) for one in positions):
            return False
        return model.watermark > self.watermark or any(
            one.watermark > self._sources[one.source].rebuild.watermark for one in positions
        )

    @property
    def watermark(self) -> int:
        """The largest event time that any source has applied, in milliseconds, without ignored watermarks."""
        return max(self._watermarks.values(), default=NO_WATERMARK)

    def publish(self, now: int) -> Model | None:
        """The model of the current statistics, or None if nothing has changed since the last one.

        ``now``: milliseconds since the epoch. If solving is refused, the model keeps the last good plane and carries
        the refusal.
        """
        if not self._changed:
            return None
        self._changed = False
        self.version = min(self.version + 1, limits.MODEL_VERSION)
        refusal = None
        try:
            self._plane = self._blended() if self.definition.automatic else plane_of(self.statistics, self.definition)
            self._plane_version = self.version
        except SolveRefused as refused:
            refusal = str(refused)
        calibration = self._calibrated()
        return Model(
            version=self.version,
            stream_fingerprint=self.definition.stream_fingerprint,
            data_fingerprint=self.definition.data_fingerprint,
            created=now,
            plane=self._plane,
            plane_version=self._plane_version,
            refusal=refusal,
            options=self.definition.solver,
            digest_of=functools.partial(self.statistics.digest, self.definition.data_fingerprint),
            counts=of_modelled_classes(self.statistics, self.definition).counts(self.definition.nested_windows.longest),
            positions=tuple(self._position(state) for state in self.sources()),
            scores=of_largest(self.scores, self.definition.most_classes),
            totals=self.outcomes(),
            watermark=self.watermark,
            blend=self._blend if self.definition.automatic else None,
            calibration=calibration,
        )

    def _calibrated(self) -> Calibration | None:
        """The calibration of the plane with the new tallies, or None if the plane is not to be calibrated."""
        plane = self._plane
        if plane is None or plane.units is None or len(plane.classes) > self.definition.most_calibrated:
            return None
        self._calibration, self._tallies = self._calibration.remembers(plane.targets, self._tallies), Tallies()
        return self._calibration

    def outcomes(self) -> dict[str, int]:
        """The totals by outcome, without the times of due letters; at most ``limits.OUTCOMES``, the largest ones."""
        counted = Counter({name: n for name, n in self.totals.items() if not name.startswith(LETTERS_DUE)})
        return dict(counted.most_common(limits.OUTCOMES))

    def _blended(self) -> Plane:
        """The plane of the automatic mode; if it is refused, candidates and prequential counts stay as they are."""
        definition = self.definition
        fitted = fit_candidates(self.statistics, definition)
        choices, objective = definition.choices_tried, definition.objective
        blend = weigh(fitted, choices, self._blend, self._prequential_counts, objective, self.watermark)
        plane = with_means(blended(fitted, blend), self.statistics, definition)
        self._blend, self._prequential_counts = blend, None
        return plane

    def _position(self, state: SourceState) -> SourcePosition:
        return SourcePosition(
            source=state.source,
            sequence=state.sequence,
            samples=state.samples_position,
            retirements=state.retirements_position,
            watermark=state.rebuild.watermark,
            owner=state.owner,
            read_to=self._read_to.get(state.source, 0),
            removed=state.removed,
        )
