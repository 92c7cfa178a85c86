"""A history of rows as a source of a stream: published once, and retired from by id, whatever is killed on the way.

A history is one tile, written under its own name: the hash of its file. The accepted state of the source is read
before anything is written, so that what is there already is not claimed again and nobody is fenced. A retirement is a
further tile, whose change is the negative sum of the rows. Which ids are out already is told by the receipts, which are
acknowledged before their tile is sent. A receipt counts only if its tile was accepted: accepted tiles form a chain,
since each receipt has the digests of its source before and after, from that of the history to that of the state.

A history may follow its table: each later version of the table becomes a tile, whose change is what the version brought
minus what it took, of rows whose ids are not out. It moves the samples' position on by one, so that a position says
which version is in. Its receipt is of no row, and is a link of the same chain.

Killed at any step and run again, a call finds the same state and the same records to write: a tile is accepted once,
and a receipt that is written twice overwrites itself.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from deltaplane.errors import DeltaplaneError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.log.records import Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome, SampleOutcome
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.processors.acceptance import next_state
from deltaplane_services.processors.codec import outgoing
from deltaplane_services.processors.messages import DELTAS, RECEIPTS, Outgoing, receipt_key, source_key

__all__ = [
    "FOLLOWED",
    "WRITER",
    "HistoryLog",
    "HistoryRefused",
    "HistorySource",
    "RowsOf",
    "Standing",
    "VersionChange",
    "retired_ids_of",
]

WRITER = "history-"
"""How the name of every writer of a history begins; no worker's does."""

FOLLOWED = "followed"
"""The outcome in the receipt of a tile that is a version of the table; it has no row, and its id names the version."""


@dataclass(frozen=True)
class Standing:
    """The position of a history that is a source: its accepted ``state``, and the ids whose rows are ``out`` of it.

    ``followed``: how many versions of its table it has followed since it was computed; ``version``: the newest of
    these, or that of the history; None if its table has no versions.
    """

    state: SourceState
    out: frozenset[str]
    followed: int
    version: int | None


@dataclass(frozen=True)
class VersionChange:
    """The rows that one ``version`` of a table ``brought``, and those that it ``took``, as far as they count."""

    version: int
    brought: Partial
    taken: Partial


RowsOf = Callable[[Sequence[str], Standing], tuple[Statistics, Sequence[str]]]
"""Some ids to (the statistics of their rows that count in a history, in each window; those that have such a row)."""


class HistoryRefused(DeltaplaneError):
    """A history cannot be published or retired from, and why; nothing was changed."""


class HistoryLog(Protocol):
    """The log of a stream, as far as a history needs it."""

    def state(self, source: Source) -> SourceState:
        """The accepted state of a source at the end of the log."""

    def receipts(self, source: Source) -> Sequence[Receipt]:
        """All receipts of a source, whether their tiles were accepted or not."""

    def append(self, *records: Outgoing) -> None:
        """Append records in order, and return once all are safe there."""


@dataclass(frozen=True)
class HistorySource:
    """One history as a source of one stream; ``name`` is the hash of its file.

    Raises :class:`HistoryRefused` if the history is of another stream, or the stream has no window for it.
    """

    definition: StreamDefinition
    source: Source
    history: History
    name: str

    def __post_init__(self) -> None:
        if self.history.definition.stream_fingerprint != self.definition.stream_fingerprint:
            raise HistoryRefused(
                f"history {self.name}: it was computed for stream definition"
                f" {self.history.definition.stream_fingerprint.hex()}, and this is"
                f" {self.definition.stream_fingerprint.hex()}; compute it with the definition of the stream that it is"
                " for"
            )
        if not self.definition.nested_windows.endless:
            windows = ", ".join(map(str, self.definition.nested_windows.windows))
            raise HistoryRefused(
                f"history {self.name}: rows leave each window of the stream ({windows}), and a history cannot know when"
                " its rows do; only a window over everything ('all') takes one. Send the rows that a window still holds"
                " with deltaplane produce"
            )

    @property
    def writer(self) -> str:
        """The writer of the tile that is the history."""
        return f"{WRITER}{self.name}"

    @property
    def statistics(self) -> Statistics:
        """What the history puts into each window that is over everything."""
        return self.history.partial.in_windows(self.definition)

    def publish(self, log: HistoryLog) -> bool:
        """Make the history a source; False if it was one already, and nothing is written then.

        Raises :class:`HistoryRefused` if the source is somebody else's, was removed, or holds another history.
        """
        state = log.state(self.source)
        if self._holds(state):
            return False
        self._check_free(state)
        if out := _retired_in(log.receipts(self.source)):
            raise HistoryRefused(
                f"source {self.source}: {len(out):,} ids were retired from it before it was removed, and would come"
                " back; compute the history again without them (--retired-ids), and publish it as another source"
                " (--source)"
            )
        rows = self.history.partial.rows
        tile = Tile(state.sequence, 0, rows, 0, 0)
        labels = tuple(sorted(self.history.partial.statistics.counts())) if self.definition.classes.are_open else ()
        counts = {str(SampleOutcome.APPLIED): rows}
        watermark = self.history.partial.watermark
        delta = self._delta(self.writer, tile, self.statistics, counts, labels, (rows, watermark))
        self._claim(log, state, self.writer)
        log.append(self._outgoing(delta))
        after = log.state(self.source)
        if not self._holds(after):
            raise HistoryRefused(
                f"source {self.source}: the tile was appended and not accepted, since {after.owner!r} has claimed the"
                " source meanwhile; publish again, or as another source (--source)"
            )
        return True

    def retire(self, log: HistoryLog, ids: Sequence[str], rows_of: RowsOf, gone: frozenset[str]) -> dict[str, str]:
        """Take the rows of some ids out again: id to outcome (``retired``, ``duplicate``, ``unknown``).

        ``rows_of`` finds the rows in the table; ``gone``: those of the ids that the history never counted. Ids without
        a row are answered ``unknown``, those that are out already ``duplicate``, and change nothing. Raises
        :class:`HistoryRefused` if the source holds another history.
        """
        standing = self.standing(log)
        state, out = standing.state, standing.out | gone
        asked = [one for one in dict.fromkeys(ids) if one not in out]
        statistics, found = rows_of(asked, standing) if asked else (Statistics(self.definition.dimension), [])
        outcomes = {
            one: RetirementOutcome.DUPLICATE if one in out else RetirementOutcome.UNKNOWN for one in dict.fromkeys(ids)
        }
        if not found:
            return {one: str(outcome) for one, outcome in outcomes.items()}
        outcomes |= dict.fromkeys(found, RetirementOutcome.RETIRED)
        self._take_out(log, state, sorted(found), statistics)
        return {one: str(outcome) for one, outcome in outcomes.items()}

    def standing(self, log: HistoryLog) -> Standing:
        """The position of the history. Raises :class:`HistoryRefused` if the source does not hold it."""
        state = log.state(self.source)
        self.check_held(state)
        return self.standing_at(state, log.receipts(self.source))

    def standing_at(self, state: SourceState, receipts: Sequence[Receipt]) -> Standing:
        """The position of the history at an accepted state, if these are the receipts of its source.

        Raises :class:`HistoryRefused` if nobody can tell which ids are out.
        """
        out = retired_ids_of(state, receipts, self.definition, self.statistics)
        version, followed = self.history.facts.get("version"), state.samples_position - self.history.partial.rows
        return Standing(state, out, followed, None if version is None else version + followed)

    def check_held(self, state: SourceState) -> None:
        """Raise :class:`HistoryRefused` unless the source holds this history, with or without some of its rows."""
        if not self._holds(state):
            raise HistoryRefused(
                f"source {self.source}: it does not hold history {self.name}; publish it, or give the file that was"
                " published"
            )

    def follow(self, log: HistoryLog, standing: Standing, change: VersionChange) -> SourceState:
        """Make the next version of the table a tile; the accepted state then.

        It has followed the version if this tile was accepted, or that of another process for the same version; and has
        not if rows were retired meanwhile. Raises :class:`StateMismatch` if the version takes rows that never were
        in, and :class:`HistoryRefused` if it is not the next one or somebody else has the source.
        """
        state = standing.state
        if standing.version is None or change.version != standing.version + 1:
            raise HistoryRefused(
                f"source {self.source}: expected the version after {standing.version} of its table, got"
                f" {change.version}; follow one version after the other"
            )
        difference = change.brought.in_windows(self.definition) - change.taken.in_windows(self.definition)
        after = state.statistics + difference
        where = f"source {self.source} at version {change.version} of its table"
        after.check_rows_exist(where, self.definition.plane_grid.range)
        writer, place = f"{self.writer}-version-{change.version}", state.retirements_position
        tile = Tile(state.sequence, state.samples_position, state.samples_position + 1, place, place)
        labels = tuple(sorted(change.brought.statistics.counts().keys() - set(state.labels)))
        counts = {str(SampleOutcome.APPLIED): change.brought.rows, str(SampleOutcome.REPLACED): change.taken.rows}
        slots = state.rebuild.slots_to + change.brought.rows
        delta = self._delta(
            writer,
            tile,
            difference,
            {outcome: count for outcome, count in counts.items() if count},
            labels if self.definition.classes.are_open else (),
            (slots, max(state.rebuild.watermark, change.brought.watermark)),
        )
        # What every reader would pass over is not published, and would be published again for ever.
        next_state(self.definition, replace(state, owner=writer), delta)
        self._claim(log, state, writer)
        log.append(self._receipt(f"version {change.version}", FOLLOWED, place, delta, (state.statistics, after)))
        log.append(self._outgoing(delta))
        now = log.state(self.source)
        self.check_held(now)
        return now

    def _take_out(self, log: HistoryLog, state: SourceState, ids: Sequence[str], statistics: Statistics) -> None:
        """Publish the receipts of a tile that takes rows out, and then the tile."""
        after = state.statistics - statistics
        after.check_rows_exist(f"source {self.source} without {len(ids)} rows", self.definition.plane_grid.range)
        marks = hashlib.sha256("".join(f"{one}\0" for one in ids).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        writer, first = f"{self.writer}-without-{marks}", state.retirements_position
        tile = Tile(state.sequence, state.samples_position, state.samples_position, first, first + len(ids))
        change = Statistics(self.definition.dimension) - statistics
        count = {f"retirements {RetirementOutcome.RETIRED}": len(ids)}
        delta = self._delta(writer, tile, change, count, (), (state.rebuild.slots_to, state.rebuild.watermark))
        ends, outcome = (state.statistics, after), str(RetirementOutcome.RETIRED)
        self._claim(log, state, writer)
        receipts = [self._receipt(one, outcome, place, delta, ends) for place, one in enumerate(ids, first)]
        log.append(*receipts)
        log.append(self._outgoing(delta))
        now = log.state(self.source)
        if now.owner != writer or now.sequence == state.sequence:
            raise HistoryRefused(
                f"source {self.source}: the tile was appended and not accepted, since {now.owner!r} has claimed the"
                " source meanwhile; nothing was taken out: retire again"
            )

    def _holds(self, state: SourceState) -> bool:
        """Whether a source is this history, with or without some of its rows."""
        return not state.removed and state.begun and f"{state.owner}-".startswith(f"{self.writer}-")

    def _check_free(self, state: SourceState) -> None:
        """Raise :class:`HistoryRefused` unless nobody else has the source."""
        if state.removed:
            raise HistoryRefused(
                f"source {self.source} was removed, and nothing of it is accepted; publish the history as another"
                " source (--source), or admit it first (deltaplane source admit)"
            )
        # A claim would fence whoever has it: a worker of a site of that name, for one.
        if state.begun or (state.owner and not state.owner.startswith(WRITER)):
            raise HistoryRefused(
                f"source {self.source} is owned by {state.owner!r}, with {state.samples_position:,} samples read;"
                " publish the history as another source (--source)"
            )

    def _claim(self, log: HistoryLog, state: SourceState, writer: str) -> None:
        """Claim the source, unless it is this writer's already."""
        if state.owner != writer:
            log.append(self._outgoing(Claim(self.source, writer, self.definition.stream_fingerprint)))

    def _delta(
        self,
        writer: str,
        tile: Tile,
        change: Statistics,
        counts: Mapping[str, int],
        labels: tuple[str, ...],
        end: tuple[int, int],
    ) -> Delta:
        """A tile of this writer; ``end``: the rows that have come by its end, and the watermark of all of them."""
        slots, watermark = end
        # Event times of a history are those of long ago, or nobody's: they must not move the windows of others.
        timed = self.definition.nested_windows.timed
        rebuild = Rebuild(0, 0, 0, slots, NO_WATERMARK if timed else watermark)
        return Delta(
            self.source,
            writer,
            self.definition.stream_fingerprint,
            tile,
            rebuild,
            change,
            counts=counts,
            labels=labels,
        )

    def _receipt(
        self, sample_id: str, outcome: str, place: int, delta: Delta, ends: tuple[Statistics, Statistics]
    ) -> Outgoing:
        """A receipt of a tile, at a ``place`` of retirements; ``ends``: the statistics before and after the tile."""
        tile = delta.tile
        before, after = (one.digest(self.definition.data_fingerprint) for one in ends)
        said = Receipt(
            stream_fingerprint=self.definition.stream_fingerprint,
            id=sample_id,
            outcome=outcome,
            source=self.source,
            offset=place,
            writer=delta.writer,
            sequence=tile.sequence,
            samples_to=tile.samples_to,
            retirements_to=tile.retirements_to,
            digest_before=before,
            digest_after=after,
        )
        key = receipt_key(self.source.partition, place, delta.writer, tile.sequence)
        return outgoing(RECEIPTS, self.source.partition % self.definition.partitions, key, said)

    def _outgoing(self, message: Claim | Delta) -> Outgoing:
        return outgoing(DELTAS, self.source.partition % self.definition.partitions, source_key(self.source), message)


class _End(NamedTuple):
    """The digest of a history and its positions, at the end of one of its tiles."""

    digest: str
    samples: int
    retirements: int


class _Link(NamedTuple):
    """What the receipts of one tile have in common."""

    writer: str
    digest_before: str
    end: _End
    followed: bool


def retired_ids_of(
    state: SourceState, receipts: Sequence[Receipt], definition: StreamDefinition, published: Statistics
) -> frozenset[str]:
    """The ids whose rows were taken out of a history that was ``published`` and is in ``state`` now.

    The chain is walked from the state back to the tile that is the history. Raises :class:`HistoryRefused` if the
    receipts of a tile are gone, or there are two answers.
    """
    tiles: defaultdict[int, defaultdict[_Link, set[str]]] = defaultdict(lambda: defaultdict(set))
    for receipt in receipts:
        end = _End(receipt.digest_after, receipt.samples_to, receipt.retirements_to)
        link = _Link(receipt.writer, receipt.digest_before, end, receipt.outcome == FOLLOWED)
        tiles[receipt.sequence][link].add(receipt.id)
    rows = sum(published.counts(definition.nested_windows.longest).values())
    # A history that follows its table may have the digest of its beginning again, but never the same positions.
    begin = _End(published.digest(definition.data_fingerprint), rows, 0)
    at = _End(state.statistics.digest(definition.data_fingerprint), state.samples_position, state.retirements_position)
    out, sequence = frozenset[str](), state.sequence
    while at != begin:
        sequence -= 1
        answers = {_before(link, ids) for link, ids in tiles[sequence].items() if link.end == at}
        if len(answers) != 1:
            raise HistoryRefused(
                f"source {state.source}: {len(answers)} sets of receipts of tile {sequence} lead to digest {at.digest},"
                " expected one; receipts are gone, so that nobody can tell which ids are out. Remove the source, and"
                " publish the history again as another one, computed with --retired-ids"
            )
        ((at, ids),) = answers
        out |= ids
    return out


def _before(link: _Link, ids: Collection[str]) -> tuple[_End, frozenset[str]]:
    """(where a tile of this link begins, the ids that it took out)."""
    end = link.end
    if link.followed:
        return _End(link.digest_before, end.samples - 1, end.retirements), frozenset()
    return _End(link.digest_before, end.samples, end.retirements - len(ids)), frozenset(ids)


def _retired_in(receipts: Sequence[Receipt]) -> frozenset[str]:
    """The ids of the rows that some receipts are of."""
    return frozenset(receipt.id for receipt in receipts if receipt.outcome != FOLLOWED)
