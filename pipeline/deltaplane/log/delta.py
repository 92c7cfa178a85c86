"""Claims and deltas, and the one rule by which every reader of deltas accepts or drops them.

A delta is one atomic record that carries its result *and* its positions, so offset and result can never part. Fencing
is a record, too. Per source, in the order of the log:

    claim(w)                                           owner := w
    delta, writer = owner and its tile starts at the position        accepted; position := the tile's end
    any other delta                                    dropped and counted: stale writer, repeat, or gap
    remove                                             statistics := 0, owner := none, barred
    admit                                              not barred any more; begins anew
    claim or delta of a barred source                  dropped and counted

Accepted deltas tile the source's input: each sample and each retirement lies in exactly one accepted tile, whatever
crashed, was delivered twice, or woke up late. The rule needs only an ordered log.
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
    """Where statistics come from: one partition of one site's samples."""

    site: str
    partition: int

    def __str__(self) -> str:
        return f"{self.site}/{self.partition}"


class TopicIds(NamedTuple):
    """Kafka's identifiers of the topics that a source is read from; empty where nobody has told them.

    Offsets mean nothing without them: a topic that is deleted and made again under its name begins at offset 0 anew.
    """

    samples: str = ""
    retirements: str = ""

    def or_else(self, others: TopicIds) -> TopicIds:
        """These, and where one is not known that of ``others``."""
        return TopicIds(self.samples or others.samples, self.retirements or others.retirements)

    def differ(self, others: TopicIds) -> list[str]:
        """The names of the topics that have one identifier here and another there."""
        pairs = zip(self._fields, self, others, strict=True)
        return [name for name, mine, other in pairs if mine and other and mine != other]


UNKNOWN_TOPICS = TopicIds()


@dataclass(frozen=True)
class Tile:
    """Half-open spans of both inputs of a source: samples [from, to) and retirements [from, to), as log offsets.

    ``sequence`` numbers the accepted tiles of a source from 0. A tile may cover no input at all (only time moved, and
    rows expired); without a number its repetition would start where it starts itself, and be applied twice.
    """

    sequence: int
    samples_from: int
    samples_to: int
    retirements_from: int
    retirements_to: int


@dataclass(frozen=True)
class Rebuild:
    """What a worker needs to find the state at the end of a tile again, from the log alone.

    ``window_from`` is the offset of the oldest row inside a window and must still exist; ``memory_from`` that of the
    oldest row held and is used if it does; ``retirements_window_from`` that of the oldest retirement remembered.
    ``slots_to`` is the number of samples admitted, ``watermark`` the largest event time applied, in milliseconds.
    """

    window_from: int = 0
    memory_from: int = 0
    retirements_window_from: int = 0
    slots_to: int = 0
    watermark: int = NO_WATERMARK


@dataclass(frozen=True)
class Claim:
    """``writer`` owns the source from here on, and reads it from these topics."""

    source: Source
    writer: str
    stream_fingerprint: bytes
    topics: TopicIds = UNKNOWN_TOPICS


@dataclass(frozen=True)
class Delta:
    """The exact change of a source over one tile, with what its samples scored before they were learned.

    ``scores`` compares the truth of the tile's new samples with the predictions of ``scored_by``, the version of the
    model that existed before the tile (0: none, and nothing was scored). ``prequential_counts``: in the automatic mode,
    what each candidate of that model made of the same samples. ``tallies``: where that model is calibrated, how the
    scores of its plane are spread. ``labels``: where classes are open, those that the tile was the
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
    """A whole source leaves the stream and stays out (``removed``), or may come in again, from its beginning."""

    source: Source
    removed: bool
    reason: str
    stream_fingerprint: bytes


class Verdict(StrEnum):
    """What the rule said of one record."""

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
    """All that the accepted deltas of one source add up to; ``sequence`` numbers the tile that comes next.

    ``topics``: those that its offsets are of, as the first claim said under which anything was read.

    A ``removed`` source has been removed: it has no statistics, no owner, and nothing of it is accepted. ``labels``:
    where classes are open, all that it has ever admitted, in that order; their rows may have left every window.
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
        """Whether anything of the source's logs has been read."""
        return self.samples_position > 0 or self.retirements_position > 0


def accept(
    state: SourceState,
    record: Claim | Delta | SourceOrder,
    stream_fingerprint: bytes,
    grid_range: int = limits.GRID_RANGE,
) -> tuple[SourceState, Verdict]:
    """Apply the rule to the next record of a source, in log order; ``grid_range`` is that of the plane's grid.

    Raises :class:`DefinitionMismatch` for a record of another stream definition: that is a mistake of whoever set the
    stream up and must not be mistaken for a stale worker. Raises :class:`StateMismatch` for a change that takes out
    rows that never were in, a tile that ends before it begins, labels that are known already, or more of anything than
    a checkpoint can carry. Every reader skips such a record, and so stays where all others are.
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
        # The offsets of a state are those of the topics that it was read from, whoever claims it later.
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
    """Raise :class:`StateMismatch` for a delta or state of windows, or of declared classes, that its stream has not.

    Its checkpoints could outgrow their topic, and no merger would ever write one again. Every reader skips it.
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
    """Raise :class:`StateMismatch` for what no accepted deltas add up to, or what no message could ever carry on."""
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
    """Refuse what would make the source's checkpoint larger than a message: no merger could ever write it."""
    entries, matrices = after.statistics.dimension * (after.statistics.dimension + 1) // 2, len(after.statistics)
    room = limits.MESSAGE_BYTES - limits.DELTA_BYTES_BESIDE - 16 * entries * matrices
    named = matrices + len(after.labels) + 2 * len(after.scores.counts)
    if room >= named * (limits.CLASS_BYTES + limits.CELL_BYTES // 2):
        return
    # The names of most classes are shorter than they may be; only here is it worth while to measure them.
    names = [label for (_, label), _ in after.statistics.items()] + [*after.labels]
    names += [label for pair in after.scores.counts for label in pair]
    if room < sum(len(name.encode()) + limits.CELL_BYTES // 2 for name in names):
        raise StateMismatch(
            f"{where}: expected statistics and scores that fit a message, got {matrices} Gram matrices of dimension"
            f" {after.statistics.dimension} and {len(after.scores.counts)} scores; another than a worker made them;"
            " rebuild from the log"
        )


TAKEN_ALONG = "retirements taken along"
"""The outcome of retirements that waited in a source when it was removed; it begins anew, and they are read again."""


def still_waiting(counts: Mapping[str, int]) -> int:
    """Retirements that were answered ``waiting``, and have neither been met since nor gone with their source."""
    waited = counts.get(f"retirements {RetirementOutcome.WAITING}", 0)
    return waited - counts.get(str(SampleOutcome.ANNIHILATED), 0) - counts.get(TAKEN_ALONG, 0)


def _obey(state: SourceState, order: SourceOrder) -> tuple[SourceState, Verdict]:
    """Remove or admit a whole source. Its counts stay; its sequence goes on, so that no tile fits twice."""
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
    # Before the first claim the owner is empty, and an empty writer is nobody.
    if not delta.writer or delta.writer != state.owner:
        return Verdict.STALE_WRITER
    begins = (delta.tile.sequence, delta.tile.samples_from, delta.tile.retirements_from)
    if begins == (state.sequence, state.samples_position, state.retirements_position):
        return Verdict.ACCEPTED
    return Verdict.REPEAT if delta.tile.sequence < state.sequence else Verdict.GAP
