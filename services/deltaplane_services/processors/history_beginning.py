"""A history as the first tile of a live source: rows of a log that was written to a lake, up to a cut of that log.

A worker that gets the source goes on at the cut, as if it had read all before. It knows no row of the history and no
id, so that it could neither retire one nor tell that a later row replaces one; this is right only if it would not
know them anyway, in a stream that keeps no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltaplane.log.delta import UNKNOWN_TOPICS, Claim, Delta, Rebuild, SourceState, Tile, TopicIds
from deltaplane.window.outcomes import SampleOutcome
from deltaplane_services.processors.acceptance import next_state
from deltaplane_services.processors.codec import outgoing
from deltaplane_services.processors.history_source import HistoryLog, HistoryRefused, HistorySource
from deltaplane_services.processors.messages import DELTAS, source_key

__all__ = ["SourceBounds", "begin_source"]


@dataclass(frozen=True)
class SourceBounds:
    """(first offset, offset after the last one) of both logs of a source, and the identifiers of their topics."""

    samples: tuple[int, int]
    retirements: tuple[int, int]
    topics: TopicIds = UNKNOWN_TOPICS


def begin_source(history: HistorySource, log: HistoryLog, cut: int, bounds: SourceBounds) -> bool:
    """Make a history the first tile of its source, which goes on at offset ``cut``; False if it was there already.

    The history must hold each row of the log before the cut that the definition admits, once. Raises
    :class:`HistoryRefused` if the stream keeps rows, rows were left out of the history, the log does not go on at
    the cut, or the source has begun.
    """
    _check(history, cut, bounds)
    source, definition, writer = history.source, history.definition, history.writer
    state = log.state(source)
    if state.owner == writer and state.begun and state.samples_position == cut:
        return False
    _check_unread(history, state)
    retirements = bounds.retirements[0]
    rows = history.history.partial.rows
    labels = tuple(sorted(history.history.partial.statistics.counts())) if definition.classes.are_open else ()
    delta = Delta(
        source,
        writer,
        definition.stream_fingerprint,
        Tile(state.sequence, 0, cut, 0, retirements),
        Rebuild(cut, cut, retirements, rows, history.history.partial.watermark),
        history.statistics,
        counts={str(SampleOutcome.APPLIED): rows},
        labels=labels,
    )
    # What every reader would pass over is not published.
    next_state(definition, replace(state, owner=writer), delta)
    claim = Claim(source, writer, definition.stream_fingerprint, bounds.topics)
    partition, key = source.partition % definition.partitions, source_key(source)
    if state.owner != writer:
        log.append(outgoing(DELTAS, partition, key, claim))
    log.append(outgoing(DELTAS, partition, key, delta))
    after = log.state(source)
    if after.sequence == state.sequence:
        raise HistoryRefused(
            f"source {source}: the tile was appended and not accepted, since {after.owner!r} has claimed the source"
            " meanwhile; stop the workers of the site, publish again, and start them"
        )
    return True


def _check(history: HistorySource, cut: int, bounds: SourceBounds) -> None:
    """Raise :class:`HistoryRefused` unless a worker that goes on at the cut is right."""
    begin, end = bounds.samples
    where = f"source {history.source}"
    if history.definition.nested_windows.keep_rows:
        raise HistoryRefused(
            f"{where}: a worker would know none of the history's rows, so that a retirement of one would wait for ever,"
            " and a correction of one would count beside it; only a stream that keeps no rows (window.keep_rows ="
            " false) begins with a history. Have the worker read the log from its beginning, or publish the history"
            " as a source of its own, of rows that are not in the log (--source NAME)"
        )
    partial = history.history.partial
    left_out = {name: count for name, count in partial.counts.items() if name in _LEFT_OUT}
    if left_out or history.history.facts.get("retired_marks"):
        told = ", ".join(f"{count:,} {name}" for name, count in left_out.items()) or "retired ids"
        raise HistoryRefused(
            f"{where}: rows were left out of the history by their ids ({told}), and a stream that keeps no rows counts"
            " each row of its log; compute the history without --id and --retired-ids"
        )
    if not 0 < cut <= end:
        raise HistoryRefused(
            f"{where}: expected a cut from 1 to the end of the log, which is {end}, got {cut}; it is the offset after"
            " the last one in the table"
        )
    if cut < begin:
        raise HistoryRefused(
            f"{where}: the log begins at offset {begin}, so that those from {cut} to {begin - 1} are neither in the"
            " history nor in the log; compute a history with them, and cut it later"
        )


_LEFT_OUT = {str(SampleOutcome.REPLACED), str(SampleOutcome.RETIRED_ID)}


def _check_unread(history: HistorySource, state: SourceState) -> None:
    """Raise :class:`HistoryRefused` unless nothing was ever accepted of the source."""
    if state.removed:
        raise HistoryRefused(
            f"source {history.source} was removed, and nothing of it is accepted; admit it first (deltaplane source"
            " admit)"
        )
    if state.begun:
        raise HistoryRefused(
            f"source {history.source} has begun: {state.samples_position:,} samples are read, the last of them by"
            f" {state.owner!r}. Either this history is its beginning already, and a worker has gone on; or a worker"
            " read the log itself. To begin it with a history, remove and admit it (deltaplane source remove, admit)"
            " while the workers of the site are stopped"
        )
