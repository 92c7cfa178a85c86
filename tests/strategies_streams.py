"""Streams for tests: small logs of rows and retirements, what a partition does with them, and how to draw them.

The grid is the identity (step 1), so that a value is its own grid value. Ids, labels and times are drawn from very few,
so that they meet all the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from deltaplane.exact.grid import Grid
from deltaplane.log.delta import Rebuild
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.reference import Reference
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import AdmittedSamples, Retirement, Samples, admit
from deltaplane.window.partition import Partition, Step
from deltaplane.window.sliding import NO_WATERMARK

FAR_AHEAD_MILLISECONDS = 2**40
"""No time drawn here is further ahead of the log than this."""


@dataclass(frozen=True)
class Row:
    """One sample: d feature values, which are whole numbers, and an event time in milliseconds."""

    id: str
    label: str = "x"
    values: tuple[float, ...] = (1.0,)
    time: int = 0


Record = tuple[Row, ...]
"""The rows of one record of the samples log; its offset is its place in the log."""


def definition_of(
    *windows: str,
    partitions: int = 1,
    pane_rows: int = 1,
    keep_rows: bool = True,
    features: int = 1,
    classes: ClassDefinition | None = None,
    feature_map: FeatureMap = NO_MAP,
) -> StreamDefinition:
    """A stream of some windows (``5``, ``10ms``, ``all``) over the grid of whole numbers."""
    return StreamDefinition(
        name="stream",
        features=tuple(f"f{index}" for index in range(features)),
        grid=Grid(np.ones(features), np.zeros(features)),
        nested_windows=NestedWindows(tuple(Window.parse(text) for text in windows), pane_rows, keep_rows),
        solver=SolverOptions(),
        classes=classes or ClassDefinition(),
        partitions=partitions,
        max_skew_milliseconds=FAR_AHEAD_MILLISECONDS,
        feature_map=feature_map,
    )


def samples_of(records: Sequence[Record], first_offset: int = 0, features: int = 1) -> Samples:
    """The rows of consecutive records of a log as one batch."""
    rows = [row for record in records for row in record]
    table = tuple(sorted({row.label for row in rows}))
    sizes = [len(record) for record in records]
    return Samples(
        ids=[row.id for row in rows],
        event_times=np.array([row.time for row in rows], dtype=np.int64),
        label_table=table,
        label_codes=np.array([table.index(row.label) for row in rows], dtype=np.int32),
        features=np.array([row.values for row in rows], dtype=np.float64).reshape(len(rows), features),
        offsets=np.repeat(np.arange(first_offset, first_offset + len(records), dtype=np.int64), sizes),
        rows=np.array([at for size in sizes for at in range(size)], dtype=np.int64),
        log_times=np.zeros(len(rows), dtype=np.int64),
    )


def admitted(definition: StreamDefinition, records: Sequence[Record], first_offset: int = 0) -> AdmittedSamples:
    """The same, admitted; every row must be."""
    batch, refusals = admit(samples_of(records, first_offset, len(definition.features)), definition)
    assert not refusals, refusals
    return batch


def retirements_of(ids: Iterable[str], first_offset: int = 0) -> list[Retirement]:
    """Consecutive retirements of a log."""
    return [Retirement(sample_id, "test", first_offset + at) for at, sample_id in enumerate(ids)]


@dataclass(frozen=True)
class Move:
    """One step: so many more records of the samples log, of the retirements log, and what other partitions saw."""

    records: int
    retirements: int
    watermark: int = NO_WATERMARK


@dataclass(frozen=True)
class Script:
    """Two logs, and the moves that read them to their ends."""

    definition: StreamDefinition
    records: tuple[Record, ...]
    retired: tuple[str, ...]
    moves: tuple[Move, ...]


@dataclass
class Follower:
    """A partition that follows two logs, and what it said on the way."""

    definition: StreamDefinition
    records: Sequence[Record]
    retired: Sequence[str]
    partition: Partition = field(init=False)
    samples_at: int = 0
    retirements_at: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.partition = Partition(self.definition, 0)

    def move(self, move: Move) -> Step:
        """Read on, as one step."""
        begin, end = self.samples_at, self.samples_at + move.records
        retire_from, retire_to = self.retirements_at, self.retirements_at + move.retirements
        step = self.partition.step(
            admitted(self.definition, self.records[begin:end], begin),
            retirements_of(self.retired[retire_from:retire_to], retire_from),
            move.watermark,
        )
        self.samples_at, self.retirements_at = end, retire_to
        self.counts.update(step.counts)
        return step

    def rebuild(self) -> Rebuild:
        """What a delta would record now."""
        partition = self.partition
        return Rebuild(
            window_from=partition.window_from(self.samples_at),
            memory_from=partition.memory_from(self.samples_at),
            retirements_window_from=partition.retirements_window_from(self.retirements_at),
            slots_to=partition.slots,
            watermark=partition.watermark,
        )

    def reborn(self, samples_from: int, chunk: int = 2) -> Follower:
        """Another that knows the logs and what was recorded, and nothing else; it reads again from a record on."""
        rebuild = self.rebuild()
        other = Follower(self.definition, self.records, self.retired)
        at = rebuild.retirements_window_from
        other.partition.refill(
            admitted(self.definition, ()), retirements_of(self.retired[at : self.retirements_at], at)
        )
        for begin in range(samples_from, self.samples_at, chunk):
            end = min(begin + chunk, self.samples_at)
            other.partition.refill(admitted(self.definition, self.records[begin:end], begin), [])
        other.partition.finish_refill(rebuild.slots_to, rebuild.watermark, self.partition.statistics)
        other.samples_at, other.retirements_at = self.samples_at, self.retirements_at
        return other


def told(script: Script, records: int, retirements: int, watermark: int = NO_WATERMARK) -> Reference:
    """The reference that was told the beginnings of both logs, and what other partitions saw."""
    reference = Reference(script.definition)
    reference.add(0, samples_of(script.records[:records], 0, len(script.definition.features)))
    for sample_id in script.retired[:retirements]:
        reference.retire(sample_id)
    reference.watermark = max(reference.watermark, watermark)
    return reference


def live_ids(partition: Partition) -> list[str]:
    """Ids of the rows counted in the longest window of a partition, oldest first."""
    buffer, edges = partition._buffer, partition._edges
    slots = np.arange(buffer.first, buffer.next, dtype=np.int64)
    inside = edges.inside(edges.longest, slots, buffer.times(slots)) & buffer.current(slots)
    return [buffer.id(slot) for slot in slots[inside].tolist()]


def rows_by(counts: Counter[str]) -> int:
    """Rows in the longest window, by what became of all samples and retirements."""
    gone = counts["replaced"] + counts["expired"] + counts["withdrawn"]
    return counts["applied"] - gone - (counts["retirements retired"] - counts["annihilated"])


HIDDEN = FeatureMap("hidden", 3, 7, 1.0, (0, 1), (2.0, 500.0))
FOURIER = FeatureMap("fourier", 4, 8, 1.0, (0, 1), (2.0, 500.0))
MIXED = FeatureMap("mixed", 2, 9, 1.0, (0, 1), (2.0, 500.0))
"""Maps of two features; windows of a few rows have no units of the mixed one, which then fits no stream."""


def fitting(feature_map: FeatureMap, windows: Sequence[str]) -> FeatureMap:
    """The map, or none where no window has its units."""
    nested_windows = map(Window.parse, windows)
    return feature_map if not feature_map.beside or any(w.units(2) == 2 for w in nested_windows) else NO_MAP


# Strategies ----------------------------------------------------------------------------------------------------------

IDS = st.sampled_from("abcdef")
NEW_IDS = st.integers(0, 2**40).map(str)
"""Some that meet all the time, and some that hardly ever do: batches of new ids alone are taken in another way."""

VALUES = st.sampled_from([0.0, 1.0, -1.0, 3.0, 1000.0, 2.0**29, -(2.0**30) + 1.0])
"""Few and far apart: equal rows are likely, and so are blocks that need the split product."""


@st.composite
def definitions(draw: st.DrawFn) -> StreamDefinition:
    """A stream with one window or several that are nested, sliding by the sample or in panes."""
    kind = draw(st.sampled_from(["count", "time", "all"]))
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True))
    windows = [f"{length}ms" if kind == "time" else str(length) for length in lengths]
    if kind == "all" or draw(st.booleans()):
        # Windows over everything may stand beside counts or beside spans.
        windows = ["all"] if kind == "all" else [*windows, "all"]
    pane_rows = draw(st.integers(1, min(lengths))) if kind == "count" else 1
    feature_map = draw(st.sampled_from([NO_MAP, NO_MAP, HIDDEN, FOURIER, MIXED]))
    return definition_of(*windows, pane_rows=pane_rows, features=2, feature_map=fitting(feature_map, windows))


def rows() -> st.SearchStrategy[Row]:
    """Any row of two features."""
    return st.builds(
        Row,
        id=IDS | NEW_IDS,
        label=st.sampled_from("xyz"),
        values=st.tuples(VALUES, VALUES),
        time=st.integers(0, 30),
    )


@st.composite
def moves(draw: st.DrawFn, records: int, retirements: int) -> tuple[Move, ...]:
    """Moves that read so many records and retirements, in some interleaving and some batches."""
    result = []
    while records or retirements:
        taken = draw(st.integers(0, min(records, 6)))
        retired = draw(st.integers(0, min(retirements, 3)))
        watermark = draw(st.sampled_from([NO_WATERMARK] * 4 + [5, 15, 25, 40]))
        if not taken and not retired:
            # An empty step may only move time; there are few of them, so that drawing ends.
            taken = min(records, 1)
            retired = 1 - taken
            result.append(Move(0, 0, watermark))
        result.append(Move(taken, retired, watermark))
        records, retirements = records - taken, retirements - retired
    return tuple(result)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Any stream, any two logs, any way of reading them."""
    records = tuple(draw(st.lists(st.lists(rows(), min_size=1, max_size=3).map(tuple), max_size=20)))
    retired = tuple(draw(st.lists(IDS | st.just("never"), max_size=6)))
    return Script(draw(definitions()), records, retired, draw(moves(len(records), len(retired))))
