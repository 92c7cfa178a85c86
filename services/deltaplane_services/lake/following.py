"""A history that follows its Delta table: each turn makes the next version of the table a tile of its source.

Where it stands is read from the log before each version, so that it may be killed at any moment, run twice at once, or
run beside somebody who retires rows: a version is accepted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane.errors import DefinitionError
from deltaplane.log.delta import SourceState
from deltaplane.window.outcomes import SampleOutcome
from deltaplane_services.lake.change_feed import ChangeFeed
from deltaplane_services.lake.compute import mark_of
from deltaplane_services.processors.history_source import HistoryLog, HistorySource, Standing, VersionChange

__all__ = ["Followed", "TableFollower"]


@dataclass(frozen=True)
class Followed:
    """One turn: the ``change`` of a version, and the accepted ``state`` after it.

    ``accepted``: whether the version is in. It is not if rows were retired from the source meanwhile; then the next
    turn takes it again.
    """

    change: VersionChange
    state: SourceState
    accepted: bool

    @property
    def refused(self) -> Mapping[str, int]:
        """Kind to rows of the version that the definition refuses; they count neither before nor after."""
        kinds = [*self.change.brought.refusals, *self.change.taken.refusals]
        parts = (self.change.brought.refusals, self.change.taken.refusals)
        return {kind: sum(part.get(kind, 0) for part in parts) for kind in dict.fromkeys(kinds)}


class TableFollower:
    """Follows the table of a history that was published; ``until``: the last version to follow, if any.

    Raises :class:`DefinitionError` where the history is not of a Delta table, or was computed of ids of which some
    came several times: which row of theirs is the last, changes do not tell.
    """

    def __init__(self, source: HistorySource, feed: ChangeFeed, log: HistoryLog, until: int | None = None) -> None:
        history = source.history
        if history.facts.get("version") is None:
            raise DefinitionError(
                f"history: it was computed of {history.facts.get('table')}, which has no versions; only a Delta table"
                " can be followed"
            )
        if replaced := history.partial.counts.get(str(SampleOutcome.REPLACED), 0):
            raise DefinitionError(
                f"history: {replaced:,} of its rows were older versions of ids that have several rows, and a change"
                " feed does not tell which row of an id is the last; a table that is followed has one row of each id"
            )
        self._source, self._feed, self._log, self._until = source, feed, log, until
        self._marks = frozenset(history.facts.get("retired_marks", ()))
        self.standing = source.standing(log)
        self._last = 0

    @property
    def version(self) -> int:
        """The newest version of the table that is in, as far as is known."""
        assert self.standing.version is not None, "the table of the history has versions"
        return self.standing.version

    @property
    def digest(self) -> str:
        """The digest of the source, as far as is known."""
        return self.standing.state.statistics.digest(self._source.definition.data_fingerprint)

    @property
    def behind(self) -> int:
        """How many more versions there are to follow, as far as is known."""
        return max(0, self._last - self.version)

    def step(self) -> Followed | None:
        """Follow the next version; None if there is none.

        Raises :class:`LakeError` and :class:`StateMismatch` where the table cannot be followed, and
        :class:`HistoryRefused` where the source holds another history.
        """
        self.standing = self._now(self._log.state(self._source.source))
        newest = self._feed.newest()
        self._last = newest if self._until is None else min(newest, self._until)
        if not self.behind:
            return None
        change = self._feed.change(self.version + 1, self._is_out)
        before, state = self.standing, self._source.follow(self._log, self.standing, change)
        self.standing = self._now(state)
        return Followed(change, state, accepted=self.standing.followed > before.followed)

    def _now(self, state: SourceState) -> Standing:
        """Where the history stands at a state; receipts are read again if rows were retired since."""
        self._source.check_held(state)
        old = self.standing
        tiles, versions = state.sequence - old.state.sequence, state.samples_position - old.state.samples_position
        if 0 <= tiles == versions and old.version is not None:
            return Standing(state, old.out, old.followed + versions, old.version + versions)
        return self._source.standing_at(state, self._log.receipts(self._source.source))

    def _is_out(self, sample_id: str) -> bool:
        return sample_id in self.standing.out or (bool(self._marks) and mark_of(sample_id) in self._marks)
