"""The rule of acceptance applied to records of the deltas topic, in the same way by every reader.

Some records no reader takes: bytes that are no record, records of another definition, and changes that no worker can
have made. Every reader skips these, so that all readers of a log stand at the same position, whatever lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from deltaplane.errors import DefinitionMismatch, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept, check_declared
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.codec import Change, Codec, Undecodable, codec_of
from deltaplane_services.processors.messages import Record

__all__ = ["Change", "Fault", "JudgedChange", "SourceHistory", "next_state", "nothing_of", "with_verdicts"]

Fault = WireError | DefinitionMismatch | StateMismatch


class JudgedChange(NamedTuple):
    """A record of the deltas topic, the change decoded from it, and the verdict of the rule on that change."""

    record: Record
    change: Change
    verdict: Verdict


def with_verdicts(
    records: Iterable[Record],
    codec: Codec,
    rule: Callable[[Record, Change], Verdict | None],
    skipped: Callable[[Record, Fault], None] = lambda _record, _fault: None,
) -> Iterator[JudgedChange]:
    """The records that a reader takes, in order, each with the verdict of ``rule`` on it.

    ``rule`` returns None for a record that does not concern this reader. ``skipped`` is called with each record that no
    reader takes, and with the reason.
    """
    for record in records:
        change = codec.change(record)
        if isinstance(change, Undecodable):
            skipped(record, change.fault)
            continue
        try:
            verdict = rule(record, change)
        except (WireError, DefinitionMismatch, StateMismatch) as fault:
            skipped(record, fault)
            continue
        if verdict is not None:
            yield JudgedChange(record, change, verdict)


def next_state(
    definition: StreamDefinition, state: SourceState, change: Change, *, positions_alone: bool = False
) -> tuple[SourceState, Verdict]:
    """(the state of a source after a change, the verdict on the change).

    ``positions_alone``: only positions move on, and the statistics stay as they are, for a caller that does not know
    the sum of the changes. Raises what :func:`deltaplane.log.delta.accept` and
    :func:`deltaplane.log.delta.check_declared` raise.
    """
    check_declared(definition, change)
    if positions_alone and isinstance(change, Delta):
        change = replace(change, change=Statistics(definition.dimension))
    return accept(state, change, definition.stream_fingerprint, definition.plane_grid.range)


def nothing_of(definition: StreamDefinition, source: Source) -> SourceState:
    """The state of a source of which nothing has been accepted yet."""
    return SourceState(source, Statistics(definition.dimension))


class SourceHistory:
    """The accepted state of one source, which :meth:`follow` moves on record by record."""

    def __init__(self, definition: StreamDefinition, state: SourceState) -> None:
        self.state = state
        self._definition = definition

    def follow(self, records: Iterable[Record]) -> Iterator[JudgedChange]:
        """The records of this source with their verdicts, each after ``state`` has moved on; others are left out."""
        return with_verdicts(records, codec_of(self._definition), self._apply)

    def _apply(self, _record: Record, change: Change) -> Verdict | None:
        if change.source != self.state.source:
            return None
        self.state, verdict = next_state(self._definition, self.state, change)
        return verdict
