"""Claims and deltas, and the one rule by which every reader of deltas accepts or drops them.

A delta is one atomic record that carries its result *and* its positions, so the two are always consistent. Fencing is a
record, too. For each source, in the order of the log:

    claim(w)                                           owner := w
    delta, writer = owner and its tile starts at the position        accepted; position := the tile's end
    any other delta                                    dropped and counted: stale writer, repeat, or gap
    remove                                             statistics := 0, owner := none, barred
    admit                                              not barred any more; begins anew
    claim or delta of a barred source                  dropped and counted

Accepted deltas tile the source's input: each sample and each retirement lies in exactly one accepted tile, whatever
process crashed or woke up late, and whatever record was delivered twice. The rule needs only an ordered log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.solve.calibration import Tallies
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome, SampleOutcome
from deltaplane.window.sliding import NO_WATERMARK

__all__ = [
    "TAKEN_ALONG",
    "UNKNOWN_TOPICS",
    "Claim",
    "Delta",
    "Rebuild",
    "Source",
    "SourceOrder",
    "SourceState",
    "Tile",
    "TopicIds",
    "Verdict",
    "accept",
    "check_declared",
    "check_state",
    "still_waiting",
]


@dataclass(frozen=True, order=True)
class Source:
    """The source of statistics: one partition of one site's samples."""

    site: str
    partition: int

    def __str__(self) -> str:
        return f"{self.site}/{self.partition}"


class TopicIds(NamedTuple):
    """Kafka's identifiers of the topics that a source is read from; empty if not known.

    Offsets need them: a topic that is deleted and created again under the same name starts at offset 0 again.
    """

    samples: str = ""
    retirements: str = ""

    def or_else(self, others: TopicIds) -> TopicIds:
        """These identifiers; one that is not known is taken from ``others``."""
        return TopicIds(self.samples or others.samples, self.retirements or others.retirements)

    def differ(self, others: TopicIds) -> list[str]:
        """The names of the topics whose identifiers are known in both and differ."""
        pairs = zip(self._fields, self, others, strict=True)
        return [name for name, mine, other in pairs if mine and other and mine != other]


UNKNOWN_TOPICS = TopicIds()


@dataclass(frozen=True)
class Tile:
    """Half-open spans of both inputs of a source: samples [from, to) and retirements [from, to), as log offsets.

    ``sequence`` numbers the accepted tiles of a source from 0. A tile may cover no input (only time moved, and rows
    expired). Without a number, a repetition of such a tile would start at the same position, and be applied twice.
    """

    sequence: int
    samples_from: int
    samples_to: int
    retirements_from: int
    retirements_to: int


@dataclass(frozen=True)
class Rebuild:
    """The positions that a worker needs to restore the state at the end of a tile, from the log alone.

    ``window_from``: the offset of the oldest row inside a window, which must still exist. ``memory_from``: the offset
    of the oldest row held, used if it still exists. ``retirements_window_from``: the offset of the oldest retirement
    remembered. ``slots_to``: the number of samples admitted. ``watermark``: the largest event time applied, in
    milliseconds.
    """

    window_from: int = 0
    memory_from: int = 0
    retirements_window_from: int = 0
    slots_to: int = 0
    watermark: int = NO_WATERMARK


@dataclass(frozen=True)
class Claim:
    """A record that ``writer`` owns the source from here on, and reads it from these topics."""

    source: Source
    writer: str
    stream_fingerprint: bytes
    topics: TopicIds = UNKNOWN_TOPICS


@dataclass(frozen=True)
class Delta:
    """The exact change of a source over one tile, with the scores of its samples before they were learned.

    ``scores``: the confusion of the tile's new samples under the model of version ``scored_by``, which existed before
    the tile (0: there was none, and nothing was scored). ``counts``: outcome to number. ``prequential_counts``: in the
    automatic mode, the hits of each candidate of that model on the same samples. ``tallies``: if that model is
    calibrated, histograms of the scores of its plane. ``labels``: if classes are open, those that the tile was the
    first to admit, in order.
    """

    source: Source
    writer: str
    stream_fingerprint: bytes
    tile: Tile
    rebuild: Rebuild
    change: Statistics
    scores: Confusion = field(default_factory=Confusion)
    scored_by: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    prequential_counts: PrequentialCounts | None = None
    labels: tuple[str, ...] = ()
    tallies: Tallies = field(default_factory=Tallies)


@dataclass(frozen=True)
class SourceOrder:
    """An order that a source leaves the stream and stays out (``removed``), or is admitted again from its beginning."""

    source: Source
    removed: bool
    reason: str
    stream_fingerprint: bytes


class Verdict(StrEnum):
    """The result of the rule for one record."""

    CLAIMED = "claimed"
    ACCEPTED = "accepted"
    STALE_WRITER = "stale writer"
    REPEAT = "repeat"
    GAP = "gap"
    REMOVED = "removed"
    ADMITTED = "admitted"
    BARRED = "barred"


@dataclass(frozen=True)
class SourceState:
    """The sum of the accepted deltas of one source. ``sequence`` is the number of the next tile.

    ``topics``: the topics that its offsets belong to, as given by the claim under which it was first read.
    ``dropped``: verdict to number of records dropped. A ``removed`` source has no statistics and no owner, and none of
    its records are accepted. ``labels``: if classes are open, all that it has ever admitted, in that order; their rows
    may have left every window.
    """

    source: Source
    statistics: Statistics
    owner: str = ""
    sequence: int = 0
    samples_position: int = 0
    retirements_position: int = 0
    rebuild: Rebuild = field(default_factory=Rebuild)
    scores: Confusion = field(default_factory=Confusion)
    counts: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    removed: bool = False
    labels: tuple[str, ...] = ()
    topics: TopicIds = UNKNOWN_TOPICS

    @property
    def begun(self) -> bool:
        """Whether any record of the source's logs has been read."""
        return self.samples_position > 0 or self.retirements_position > 0


def accept(
    state: SourceState,
    record: Claim | Delta | SourceOrder,
    stream_fingerprint: bytes,
    grid_range: int = limits.GRID_RANGE,
) -> tuple[SourceState, Verdict]:
    """The state after the next record of a source in log order, and the verdict on the record.

    ``grid_range`` is that of the plane's grid. Raises :class:`DefinitionMismatch` if the record is of another stream
    definition: that is a configuration error, and not a stale worker. Raises :class:`StateMismatch` if the change takes
    out rows that were never in, the tile ends before it begins, a label is admitted twice, a count is below zero, or
    the state is larger than a checkpoint can be. Every reader skips such a record, so all readers keep the same state.
    """
    if record.stream_fingerprint != stream_fingerprint:
        raise DefinitionMismatch(
            f"source {record.source}: expected deltas of stream definition {stream_fingerprint.hex()}, got"
            f" {record.stream_fingerprint.hex()} from {getattr(record, 'writer', 'an operator')!r};"
            " give every worker the same definition",
            record.stream_fingerprint,
        )
    if isinstance(record, SourceOrder):
        return _obey(state, record)
    if state.removed:
        return replace(state, dropped=_added(state.dropped, {str(Verdict.BARRED): 1})), Verdict.BARRED
    if isinstance(record, Claim):
        # The offsets of a state belong to the topics that it was read from, whoever claims the source later.
        topics = state.topics.or_else(record.topics) if state.begun else record.topics
        return replace(state, owner=record.writer, topics=topics), Verdict.CLAIMED
    verdict = _judge(state, record)
    if verdict is not Verdict.ACCEPTED:
        return replace(state, dropped=_added(state.dropped, {str(verdict): 1})), verdict
    tile, where = record.tile, f"delta {record.tile.sequence} of source {record.source}"
    if tile.samples_to < tile.samples_from or tile.retirements_to < tile.retirements_from:
        raise StateMismatch(
            f"{where}: expected a tile that ends at or after its beginning, got {tile}; rebuild from the log"
        )
    statistics = state.statistics + record.change
    scores, counts = state.scores + record.scores, _added(state.counts, record.counts)
    if any(count < 0 for count in record.counts.values()):
        raise StateMismatch(f"{where}: expected counts from 0, got {dict(record.counts)}; rebuild from the log")
    after = SourceState(
        source=state.source,
        statistics=statistics,
        owner=state.owner,
        sequence=state.sequence + 1,
        samples_position=tile.samples_to,
        retirements_position=tile.retirements_to,
        rebuild=record.rebuild,
        scores=scores,
        counts=counts,
        dropped=state.dropped,
        labels=state.labels + record.labels,
        topics=state.topics,
    )
    check_state(where, after, grid_range)
    return after, Verdict.ACCEPTED


def check_declared(definition: StreamDefinition, record: Claim | Delta | SourceOrder | SourceState) -> None:
    """Raise :class:`StateMismatch` if a delta or state has windows or classes that the definition does not declare.

    With them, checkpoints could become too large for their topic, and no merger could write one again. Every reader
    skips such a record.
    """
    if isinstance(record, Delta):
        where, statistics = f"delta {record.tile.sequence} of source {record.source}", record.change
    elif isinstance(record, SourceState):
        where, statistics = f"checkpoint of source {record.source}", record.statistics
    else:
        return
    windows = len(definition.nested_windows.windows)
    if beyond := sorted({window for (window, _), _ in statistics.items() if window >= windows}):
        raise StateMismatch(
            f"{where}: expected statistics of {windows} windows, got others ({beyond[:5]});"
            " another than a worker made them; rebuild from the log"
        )
    if definition.classes.are_open:
        return
    met = {label for (_, label), _ in statistics.items()} | {one for pair in record.scores.counts for one in pair}
    if record.labels or not met <= definition.classes.known:
        others = sorted(met - definition.classes.known)[:5] or list(record.labels[:5])
        raise StateMismatch(
            f"{where}: expected the classes of the definition, got others ({others});"
            " another than a worker made them; rebuild from the log"
        )


def check_state(where: str, state: SourceState, grid_range: int = limits.GRID_RANGE) -> None:
    """Raise :class:`StateMismatch` if no accepted deltas can add up to a state, or if no message can carry it."""
    state.statistics.check_rows_exist(where, grid_range)
    many = {
        name for counts in (state.counts, state.dropped) for name, n in counts.items() if not 0 <= n <= limits.COUNT
    }
    many |= {f"score {pair}" for pair, count in state.scores.counts.items() if count > limits.COUNT}
    if many:
        raise StateMismatch(
            f"{where}: expected counts from 0, and up to {limits.COUNT} in all, got others of {sorted(many)[:5]};"
            " another than a worker made them; rebuild from the log"
        )
    if max(len(state.counts), len(state.dropped)) > limits.OUTCOMES:
        raise StateMismatch(
            f"{where}: expected up to {limits.OUTCOMES} outcomes in all, got {len(state.counts)};"
            " another than a worker made them; rebuild from the log"
        )
    if len(set(state.labels)) < len(state.labels) or len(state.labels) > limits.CLASSES:
        raise StateMismatch(
            f"{where}: expected up to {limits.CLASSES} labels, each admitted once, got {len(state.labels)}, of which"
            f" {len(set(state.labels))} differ; another than a worker made them; rebuild from the log"
        )
    _check_size(where, state)


def _check_size(where: str, after: SourceState) -> None:
    """Raise :class:`StateMismatch` if the checkpoint would be larger than a message: no merger could write it."""
    entries, matrices = after.statistics.dimension * (after.statistics.dimension + 1) // 2, len(after.statistics)
    room = limits.MESSAGE_BYTES - limits.DELTA_BYTES_BESIDE - 16 * entries * matrices
    named = matrices + len(after.labels) + 2 * len(after.scores.counts)
    if room >= named * (limits.CLASS_BYTES + limits.CELL_BYTES // 2):
        return
    # Most labels are shorter than the limit. They are measured only if labels of the largest length would not fit.
    names = [label for (_, label), _ in after.statistics.items()] + [*after.labels]
    names += [label for pair in after.scores.counts for label in pair]
    if room < sum(len(name.encode()) + limits.CELL_BYTES // 2 for name in names):
        raise StateMismatch(
            f"{where}: expected statistics and scores that fit a message, got {matrices} Gram matrices of dimension"
            f" {after.statistics.dimension} and {len(after.scores.counts)} scores; another than a worker made them;"
            " rebuild from the log"
        )


TAKEN_ALONG = "retirements taken along"
"""The outcome of retirements that waited in a source when it was removed. They are read again if it is admitted."""


def still_waiting(counts: Mapping[str, int]) -> int:
    """The number of retirements that wait: no sample has met them since, and their source has not been removed."""
    waited = counts.get(f"retirements {RetirementOutcome.WAITING}", 0)
    return waited - counts.get(str(SampleOutcome.ANNIHILATED), 0) - counts.get(TAKEN_ALONG, 0)


def _obey(state: SourceState, order: SourceOrder) -> tuple[SourceState, Verdict]:
    """The state after an order. Counts stay, and the sequence goes on, so that no tile can be accepted twice."""
    if order.removed == state.removed:
        return state, Verdict.REMOVED if order.removed else Verdict.ADMITTED
    waiting = still_waiting(state.counts)
    after = SourceState(
        source=state.source,
        statistics=Statistics(state.statistics.dimension),
        sequence=state.sequence + 1,
        scores=state.scores,
        counts=_added(state.counts, {TAKEN_ALONG: waiting} if order.removed and waiting > 0 else {}),
        dropped=state.dropped,
        removed=order.removed,
    )
    return after, Verdict.REMOVED if order.removed else Verdict.ADMITTED


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    total = dict(counts)
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
    return total


def _judge(state: SourceState, delta: Delta) -> Verdict:
    # Before the first claim the owner is empty. So an empty writer must never count as the owner.
    if not delta.writer or delta.writer != state.owner:
        return Verdict.STALE_WRITER
    begins = (delta.tile.sequence, delta.tile.samples_from, delta.tile.retirements_from)
    if begins == (state.sequence, state.samples_position, state.retirements_position):
        return Verdict.ACCEPTED
    return Verdict.REPEAT if delta.tile.sequence < state.sequence else Verdict.GAP
