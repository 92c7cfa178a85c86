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

from deltaplane import limits
from deltaplane.candidates import Trials
from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.metrics import Confusion
from deltaplane.statistics import Statistics
from deltaplane.window import NO_WATERMARK


@dataclass(frozen=True, order=True)
class Source:
    """Where statistics come from: one partition of one site's samples."""

    site: str
    partition: int

    def __str__(self) -> str:
        return f"{self.site}/{self.partition}"


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
    """``writer`` owns the source from here on."""

    source: Source
    writer: str
    stream_fingerprint: bytes


@dataclass(frozen=True)
class Delta:
    """The exact change of a source over one tile, with what its samples scored before they were learned.

    ``scores`` compares the truth of the tile's new samples with the predictions of ``scored_by``, the version of the
    model that existed before the tile (0: none, and nothing was scored). ``trials``: in the automatic mode, what each
    candidate of that model made of the same samples.
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
    trials: Trials | None = None


@dataclass(frozen=True)
class SourceOrder:
    """A whole source leaves the stream and stays out (``barred``), or may come in again, from its beginning."""

    source: Source
    barred: bool
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

    A ``barred`` source has been removed: it has no statistics, no owner, and nothing of it is accepted.
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
    barred: bool = False


def accept(
    state: SourceState, record: Claim | Delta | SourceOrder, stream_fingerprint: bytes
) -> tuple[SourceState, Verdict]:
    """Apply the rule to the next record of a source, in log order.

    Raises :class:`DefinitionMismatch` for a record of another stream definition: that is a mistake of whoever set the
    stream up and must not be mistaken for a stale worker. Raises :class:`StateMismatch` for a change that takes out
    rows that never were in, or a tile that ends before it begins. Every reader skips such a record, and so stays where
    all others are.
    """
    if record.stream_fingerprint != stream_fingerprint:
        raise DefinitionMismatch(
            f"source {record.source}: expected deltas of stream definition {stream_fingerprint.hex()}, got"
            f" {record.stream_fingerprint.hex()} from {getattr(record, 'writer', 'an operator')!r};"
            " give every worker the same definition"
        )
    if isinstance(record, SourceOrder):
        return _obey(state, record)
    if state.barred:
        return replace(state, dropped=_added(state.dropped, {str(Verdict.BARRED): 1})), Verdict.BARRED
    if isinstance(record, Claim):
        return replace(state, owner=record.writer), Verdict.CLAIMED
    verdict = _judge(state, record)
    if verdict is not Verdict.ACCEPTED:
        return replace(state, dropped=_added(state.dropped, {str(verdict): 1})), verdict
    tile, where = record.tile, f"delta {record.tile.sequence} of source {record.source}"
    if tile.samples_to < tile.samples_from or tile.retirements_to < tile.retirements_from:
        raise StateMismatch(
            f"{where}: expected a tile that ends at or after its beginning, got {tile}; rebuild from the log"
        )
    statistics = state.statistics + record.change
    statistics.check_rows_exist(where)
    scores, counts = state.scores + record.scores, _added(state.counts, record.counts)
    _check_counts(where, record, scores, counts)
    return (
        SourceState(
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
        ),
        Verdict.ACCEPTED,
    )


def _check_counts(where: str, delta: Delta, scores: Confusion, counts: Mapping[str, int]) -> None:
    """Refuse counts that no tile can have: their sums would not fit the messages that carry them, for ever after."""
    impossible = {name: count for name, count in delta.counts.items() if count < 0 or counts[name] > limits.COUNT}
    impossible |= {f"score {pair}": 0 for pair in delta.scores.counts if scores.counts[pair] > limits.COUNT}
    if impossible:
        raise StateMismatch(
            f"{where}: expected counts from 0, and up to {limits.COUNT} in all, got others of {sorted(impossible)[:5]};"
            " another than a worker made them; rebuild from the log"
        )


def _obey(state: SourceState, order: SourceOrder) -> tuple[SourceState, Verdict]:
    """Remove or admit a whole source. Its counts stay; its sequence goes on, so that no tile fits twice."""
    if order.barred == state.barred:
        return state, Verdict.REMOVED if order.barred else Verdict.ADMITTED
    after = SourceState(
        source=state.source,
        statistics=Statistics(state.statistics.dimension),
        sequence=state.sequence + 1,
        scores=state.scores,
        counts=state.counts,
        dropped=state.dropped,
        barred=order.barred,
    )
    return after, Verdict.REMOVED if order.barred else Verdict.ADMITTED


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
