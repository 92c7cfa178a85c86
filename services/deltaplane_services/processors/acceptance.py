"""Records of the deltas topic put through the rule, one after the other, by every reader of them in the same way.

What no reader takes is skipped: bytes that are no record, records of another definition, and changes that no worker
can have made. So all readers of a log stand at the same position, whatever lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from deltaplane.errors import DefinitionMismatch, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Source, SourceOrder, SourceState, Verdict, accept, check_declared
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.messages import Record, read_change

__all__ = ["Change", "Fault", "Judged", "SourceHistory", "judged", "next_state", "nothing_of"]

Change = Claim | Delta | SourceOrder
Fault = WireError | DefinitionMismatch | StateMismatch


class Judged(NamedTuple):
    """A record of the deltas topic, what it says, and what the rule said of it."""

    record: Record
    change: Change
    verdict: Verdict


def judged(
    records: Iterable[Record],
    definition: StreamDefinition,
    rule: Callable[[Record, Change], Verdict | None],
    skipped: Callable[[Record, Fault], None] = lambda _record, _fault: None,
) -> Iterator[Judged]:
    """The records that a reader takes, in order, each after ``rule`` has been applied to it.

    The rule returns None for a record that does not concern this reader. ``skipped`` is told what no reader takes.
    """
    for record in records:
        try:
            change = read_change(record, definition.dimension)
            verdict = rule(record, change)
        except (WireError, DefinitionMismatch, StateMismatch) as fault:
            skipped(record, fault)
            continue
        if verdict is not None:
            yield Judged(record, change, verdict)


def next_state(
    definition: StreamDefinition, state: SourceState, change: Change, *, positions_alone: bool = False
) -> tuple[SourceState, Verdict]:
    """The state of a source after a change, and the verdict on it.

    ``positions_alone``: the statistics stay as they are, since what the changes add up to is not known. Raises what
    :func:`deltaplane.log.delta.accept` and :func:`deltaplane.log.delta.check_declared` raise.
    """
    check_declared(definition, change)
    if positions_alone and isinstance(change, Delta):
        change = replace(change, change=Statistics(definition.dimension))
    return accept(state, change, definition.stream_fingerprint, definition.plane_grid.range)


def nothing_of(definition: StreamDefinition, source: Source) -> SourceState:
    """The state of a source before anything of it was accepted."""
    return SourceState(source, Statistics(definition.dimension))


class SourceHistory:
    """The accepted state of one source, moved on by the records that it is followed through."""

    def __init__(self, definition: StreamDefinition, state: SourceState) -> None:
        self.state = state
        self._definition = definition

    def follow(self, records: Iterable[Record]) -> Iterator[Judged]:
        """Put the source's records through the rule; those of other sources are passed over."""
        return judged(records, self._definition, self._apply)

    def _apply(self, _record: Record, change: Change) -> Verdict | None:
        if change.source != self.state.source:
            return None
        self.state, verdict = next_state(self._definition, self.state, change)
        return verdict
