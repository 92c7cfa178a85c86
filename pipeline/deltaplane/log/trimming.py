"""Trim points: the offsets of a source's logs below which no reader needs a record any more.

Rows that leave a window of bounded length never come back, nor do retirements that are no longer remembered. Every
accepted delta has the positions from which a worker can restart (:class:`deltaplane.log.delta.Rebuild`), and these only
increase. So a reader that starts from a *checkpoint* or later needs no record before the positions in that checkpoint.
A margin stays nevertheless: for readers that started before the checkpoint was written, for receipts that are still to
be verified, and for a window that is copied while it moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deltaplane.log.delta import Source, SourceState
from deltaplane.stream.definition import StreamDefinition

__all__ = ["LogSpans", "TrimMargin", "TrimPoint", "Untouched", "trim_point"]


@dataclass(frozen=True)
class TrimMargin:
    """The margin of records kept before those needed: ``records``, or a ``share`` of those needed if that is more."""

    records: int = 100
    share: float = 1.0

    def of(self, needed: int) -> int:
        """The number of records of margin if ``needed`` records are needed."""
        return max(self.records, math.ceil(self.share * needed))


@dataclass(frozen=True)
class LogSpans:
    """The first and the end offsets of the logs of a partition."""

    samples_begin: int
    samples_end: int
    retirements_begin: int
    retirements_end: int


@dataclass(frozen=True)
class TrimPoint:
    """The offsets below which the samples and the retirements of one source can be deleted."""

    source: Source
    samples: int
    retirements: int


@dataclass(frozen=True)
class Untouched:
    """The reason why no record of one source can be deleted."""

    source: Source
    reason: str


def trim_point(
    definition: StreamDefinition, state: SourceState, spans: LogSpans, margin: TrimMargin
) -> TrimPoint | Untouched:
    """The offsets below which the logs of a source hold no record that its checkpoint needs, less the margin.

    ``state``: that of the checkpoint. ``spans``: the logs' offsets, read after the checkpoint. If the state contradicts
    itself or the logs, nothing can be deleted.
    """
    reason = _reason_to_wait(definition, state) or _contradiction(definition, state, spans)
    if reason is not None:
        return Untouched(state.source, reason)
    rebuild = state.rebuild
    samples = rebuild.memory_from - margin.of(state.samples_position - rebuild.memory_from)
    retirements_from = rebuild.retirements_window_from
    retirements = retirements_from - margin.of(state.retirements_position - retirements_from)
    return TrimPoint(state.source, max(spans.samples_begin, samples), max(spans.retirements_begin, retirements))


def _reason_to_wait(definition: StreamDefinition, state: SourceState) -> str | None:
    if definition.nested_windows.endless:
        return "a window over everything needs every sample"
    if state.removed:
        return "it was removed, and would read its samples from their beginning if it were admitted again"
    if not state.owner or not state.sequence or not (state.samples_position or state.retirements_position):
        return "nobody has worked on it yet"
    return None


def _contradiction(definition: StreamDefinition, state: SourceState, spans: LogSpans) -> str | None:
    rebuild, samples, retirements = state.rebuild, state.samples_position, state.retirements_position
    if not 0 <= rebuild.memory_from <= rebuild.window_from <= samples:
        return (
            f"its state is not understood: memory from {rebuild.memory_from}, window from {rebuild.window_from}, and"
            f" samples up to {samples}"
        )
    if not 0 <= rebuild.retirements_window_from <= retirements:
        return (
            f"its state is not understood: retirements remembered from {rebuild.retirements_window_from}, and read up"
            f" to {retirements}"
        )
    live = sum(state.statistics.counts(definition.nested_windows.longest).values())
    if live and rebuild.window_from == samples:
        return f"its state is not understood: {live} live rows, and none of them in the log from {samples} on"
    if spans.samples_end < samples or spans.retirements_end < retirements:
        return (
            f"its log is shorter than its state: samples end at {spans.samples_end} and retirements at"
            f" {spans.retirements_end}, read were {samples} and {retirements}; was the topic made anew?"
        )
    if spans.samples_begin > rebuild.window_from or spans.retirements_begin > rebuild.retirements_window_from:
        return (
            f"its log has lost what is needed: it begins at samples {spans.samples_begin} and retirements"
            f" {spans.retirements_begin}, needed are {rebuild.window_from} and {rebuild.retirements_window_from}"
        )
    return None
