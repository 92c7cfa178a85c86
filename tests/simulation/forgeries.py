"""Deltas that the holder of a worker's rights forges: well made, accepted by every reader, and of no row of the log."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, SourceState, Tile, Verdict, accept
from deltaplane.reference import LiveRow, exact_moments
from deltaplane_services.processors.account import LostRows, RecomputedSource, account_of_site
from simulation.audits import BrokerLog
from simulation.histories import live, reference_of
from simulation.world import SITE, YEAR_MILLISECONDS, World


@functools.cache
def short_history(seed: int) -> World:
    """The history of a seed, a third as long as others are; whoever forges leaves it as it is."""
    return live(seed, events=50)


def _sum_of(world: World, row: LiveRow) -> dict[str, Moments]:
    return {row.label: exact_moments(world.definition.feature_map.apply(row.quantized[None, :]).astype("int64"))}


def accepted(
    world: World, state: SourceState, change: Statistics, labels: tuple[str, ...] = (), **rebuild: int
) -> SourceState:
    """The state after a forged delta over no input at all; every reader must take it."""
    position = (state.samples_position,) * 2 + (state.retirements_position,) * 2
    forged = Delta(
        state.source,
        "evil",
        world.definition.stream_fingerprint,
        Tile(state.sequence, *position),
        replace(state.rebuild, **rebuild),
        change,
        labels=labels,
    )
    fingerprint, grid_range = world.definition.stream_fingerprint, world.definition.plane_grid.range
    after, verdict = accept(replace(state, owner="evil"), forged, fingerprint, grid_range)
    assert verdict is Verdict.ACCEPTED
    return after


def _bring_back(world: World, state: SourceState) -> SourceState | None:
    """Add a row once more: one that was retired, if there is one that else would count."""
    partition, reference = state.source.partition, reference_of(world, state.source.partition)
    retired = {sample_id for _, sample_id in world.producer.retired.get(partition, [])}
    longest = world.definition.nested_windows.longest
    before = {row.id for row in reference.live(longest)}
    reference._retired.clear()
    back = [row for row in reference.live(longest) if row.id in retired - before]
    if not back:
        return None
    parts = {(longest, label): moments for label, moments in _sum_of(world, back[0]).items()}
    change = Statistics(world.definition.dimension, parts)
    return accepted(world, state, change, retirements_window_from=state.retirements_position)


def _leave_out(world: World, state: SourceState) -> SourceState | None:
    """Take out the oldest row that counts in the longest window, and have rebuilds begin behind it."""
    longest = world.definition.nested_windows.longest
    rows = reference_of(world, state.source.partition).live(longest)
    if not rows:
        return None
    parts = {(longest, label): moments for label, moments in _sum_of(world, rows[0]).items()}
    change = Statistics(world.definition.dimension) - Statistics(world.definition.dimension, parts)
    return accepted(world, state, change, window_from=state.samples_position, memory_from=state.samples_position)


def _end_the_window(world: World, state: SourceState) -> SourceState | None:
    """Say that event time has come so far that nothing counts any more in windows of time."""
    nested_windows = world.definition.nested_windows
    if not nested_windows.timed:
        return None
    gone = {key: part for key, part in state.statistics.items() if nested_windows.windows[key[0]].kind == "time"}
    change = Statistics(world.definition.dimension) - Statistics(world.definition.dimension, gone)
    return accepted(world, state, change, watermark=world.now + 10 * YEAR_MILLISECONDS)


def _nothing(world: World) -> Statistics:
    return Statistics(world.definition.dimension)


def _move_the_watermark(world: World, state: SourceState) -> SourceState | None:
    """Say that event time has come a little further than any row of any source has."""
    if not world.definition.nested_windows.timed:
        return None
    newest = max([world.truth(other)[-1].state.rebuild.watermark for other in world.workers])
    return accepted(world, state, _nothing(world), watermark=max(newest, 0) + 1)


def _lower_the_watermark(world: World, state: SourceState) -> SourceState | None:
    """Say that event time has not come as far as the source's own rows."""
    newest = [
        int(record.samples.event_times[row])
        for record in world.producer.sent.get(state.source.partition, [])
        for row in range(len(record.samples))
    ]
    if not world.definition.nested_windows.timed or not newest or not state.statistics:
        return None
    return accepted(world, state, _nothing(world), watermark=min(newest) - 1)


def _make_up(world: World, state: SourceState) -> SourceState | None:
    """Add a row that never was, and say nothing else."""
    row = LiveRow("made up", "x", np.ones(len(world.definition.features), dtype=np.int64), 0)
    parts = {
        (world.definition.nested_windows.longest, label): moments for label, moments in _sum_of(world, row).items()
    }
    return accepted(world, state, Statistics(world.definition.dimension, parts))


def _name_labels(world: World, state: SourceState) -> SourceState | None:
    """Take a place that an open class could have had: the log is whole here, and has no row of it."""
    hidden = world.broker.hidden["samples", state.source.partition]
    full = len(state.labels) >= world.definition.most_classes
    if full or not world.definition.classes.are_open or hidden:
        return None
    if world.broker.begin("samples", state.source.partition):
        return None
    return accepted(world, state, _nothing(world), ("nobody",))


def _name_more_labels_than_rows_are_gone(world: World, state: SourceState) -> SourceState | None:
    """Take places of open classes by rows that the log has lost, as it is said; more of them than it can have lost."""
    partition = state.source.partition
    begin, hidden = world.broker.begin("samples", partition), world.broker.hidden["samples", partition]
    gone = [r for r in world.producer.sent.get(partition, []) if r.offset < begin or r.offset in hidden]
    rows, room = sum(len(record.samples) for record in gone), world.definition.most_classes - len(state.labels)
    if not world.definition.classes.are_open or not (begin or hidden) or room <= rows:
        return None
    return accepted(world, state, _nothing(world), tuple(f"nobody {at}" for at in range(room)))


def _forget_retirements(world: World, state: SourceState) -> SourceState | None:
    """Have rebuilds begin behind a retirement that must be remembered."""
    if state.rebuild.retirements_window_from >= state.retirements_position:
        return None
    return accepted(world, state, _nothing(world), retirements_window_from=state.retirements_position)


def _miscount_slots(world: World, state: SourceState) -> SourceState | None:
    """Have panes end elsewhere: the log is whole here, and tells how many samples there were."""
    counts = any(window.kind == "count" for window in world.definition.nested_windows.windows)
    source, hidden = state.source, world.broker.hidden["samples", state.source.partition]
    if not counts or hidden or world.broker.begin("samples", source.partition):
        return None
    return accepted(world, state, _nothing(world), slots_to=state.rebuild.slots_to + 1)


def _read_from_behind(world: World, state: SourceState) -> SourceState | None:
    """Have rebuilds begin to read behind the rows that they need."""
    return accepted(world, state, _nothing(world), memory_from=state.rebuild.window_from + 1)


FORGERIES: dict[str, Callable[[World, SourceState], SourceState | None]] = {
    "a retired row brought back": _bring_back,
    "a row left out": _leave_out,
    "a window ended by a watermark years ahead": _end_the_window,
    "a watermark that no row has made": _move_the_watermark,
    "a watermark behind the rows": _lower_the_watermark,
    "a row made up": _make_up,
    "a label made up": _name_labels,
    "labels made up by rows that are gone": _name_more_labels_than_rows_are_gone,
    "a retirement forgotten": _forget_retirements,
    "samples miscounted": _miscount_slots,
    "a rebuild that begins behind its rows": _read_from_behind,
}
"""What can be forged, by name; None where a history has nothing that it could be done with."""


def audited(world: World, forged: SourceState) -> RecomputedSource:
    """What an audit says of a source once a forged delta has been accepted."""
    states = [
        forged if partition == forged.source.partition else world.truth(partition)[-1].state
        for partition in world.workers
    ]
    found = account_of_site(world.definition, SITE, states, BrokerLog(world.broker), LostRows(world.now, lambda: False))
    return found[forged.source]
