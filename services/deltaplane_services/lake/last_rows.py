"""The last rows of a table: those that windows of a stream would still hold if the table had come through its topic.

A log depends on no more than its end: of a window of a count of rows on the last admitted rows of each partition, of a
window of time on what comes from the first row on that is not too old. Rows between these that no window holds stay,
since they may be later versions of rows that one would. So a stream that reads these rows alone arrives at the state
that all rows would have given it, bit for bit, and at the same slots for what comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.errors import DefinitionError
from deltaplane.exact.statistics import Statistics
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples, admit
from deltaplane.window.partition import Partition
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.lake.block_sums import UNREAD, samples_of_block
from deltaplane_services.lake.compute import Computing
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, open_table
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import Record
from deltaplane_services.readers import RowBlock

__all__ = ["LastRows", "last_rows_of_table"]

_RECORD_VALUES = 2**20
"""Feature values of a record: 8 MiB."""

_REASON = "retired before the rows were written"


@dataclass(frozen=True)
class LastRows:
    """The last rows of a table, by partition, in the order of its log.

    ``labels``: those of open classes that each partition has admitted, in order. ``retired``: ids that do not count.
    ``now``: the time at which the rows are taken to have come, in milliseconds. ``read`` rows were read; ``refusals``
    count by their kind those that are not admitted, ``examples`` have a reason of each kind.
    """

    definition: StreamDefinition
    samples: Mapping[int, Samples]
    labels: Mapping[int, Sequence[str]]
    retired: Sequence[str]
    now: int
    read: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The rows that are written."""
        return sum(map(len, self.samples.values()))

    @property
    def statistics(self) -> Statistics:
        """The statistics of a stream that has read them, and nothing else."""
        times = [samples.event_times.max() for samples in self.samples.values() if len(samples)]
        watermark = int(max(times, default=NO_WATERMARK))
        total = Statistics(self.definition.dimension)
        for number in range(self.definition.partitions):
            partition = Partition(self.definition, number)
            for batch in self._batches(number):
                partition.step(admit(batch, self.definition, partition=number)[0], ())
            nothing = admit(_none_of(self.definition), self.definition)[0]
            retirements = [one for place, one in self._retirements() if place == number]
            partition.step(nothing, retirements, watermark)
            total = total + partition.statistics
        return total

    def records(self) -> Iterator[Record]:
        """The records of samples, and then those of retirements; offsets count from 0."""
        codec = codec_of(self.definition)
        for partition in range(self.definition.partitions):
            for offset, batch in enumerate(self._batches(partition)):
                made = codec.sample_batch(partition, batch)
                yield Record(made.topic, partition, offset, self.now, made.key, made.value)
        offsets: Counter[int] = Counter()
        for partition, retirement in self._retirements():
            made = codec.retirement_of(partition, retirement)
            yield Record(made.topic, partition, offsets[partition], self.now, made.key, made.value)
            offsets[partition] += 1

    def _retirements(self) -> Iterator[tuple[int, Retirement]]:
        """(partition, retirement) of each retired id."""
        for offset, one in enumerate(self.retired):
            yield self.definition.partition_of(one), Retirement(one, _REASON, offset, self.now)

    def _batches(self, partition: int) -> Iterator[Samples]:
        samples = self.samples.get(partition)
        if samples is None:
            return
        most = max(1, _RECORD_VALUES // len(self.definition.features))
        for begin in range(0, len(samples), most):
            rows = np.arange(begin, min(begin + most, len(samples)), dtype=np.int64)
            yield samples.chosen(rows)


@dataclass
class _Tail:
    """The last admitted rows of the blocks that it has taken; ``by_time``: in the order of event times."""

    definition: StreamDefinition
    now: int
    by_time: bool
    watermark: int = NO_WATERMARK
    read: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    known: dict[int, dict[str, None]] = field(default_factory=dict)
    pieces: dict[int, list[Samples]] = field(default_factory=dict)
    _most: Counter[int] = field(default_factory=Counter)

    def take(self, block: RowBlock, where: str) -> None:
        self.read += len(block) + len(block.refused)
        for row in block.refused:
            self._refuse(UNREAD, f"{where}row {row.line_number}: {row.reason}")
        samples = samples_of_block(block)
        samples = replace(samples, log_times=np.full(len(samples), self.now, dtype=np.int64))
        homes = self.definition.partitions_of(samples.ids)
        for partition in np.unique(homes).tolist():
            self._take(partition, samples.chosen(np.flatnonzero(homes == partition)), where)

    def _take(self, partition: int, samples: Samples, where: str) -> None:
        known = self.known.setdefault(partition, {})
        admitted, refusals = admit(samples, self.definition, known, partition=partition)
        known.update(dict.fromkeys(admitted.new_labels))
        for one in refusals:
            self._refuse(one.kind, f"{where}row {one.row}: {one.reason}")
        if not len(admitted):
            return
        kept = samples.chosen(np.flatnonzero(~np.isin(samples.rows, [one.row for one in refusals])))
        self.watermark = max(self.watermark, int(kept.event_times.max()))
        pieces = self.pieces.setdefault(partition, [])
        pieces.append(kept)
        held = sum(map(len, pieces))
        if held > self._most[partition]:
            self.cut(partition)
            # As many again may come before the next cut, so that each row is copied a few times at most.
            self._most[partition] = 2 * sum(map(len, pieces)) + 2**16

    def _refuse(self, kind: str, reason: str) -> None:
        self.refusals[kind] += 1
        self.examples.setdefault(kind, reason)

    def cut(self, partition: int) -> Samples:
        """The rows of a partition that its log cannot do without, as far as has been read; the others are let go."""
        pieces = self.pieces.setdefault(partition, [])
        samples = _joined(pieces) if pieces else _none_of(self.definition)
        if self.by_time:
            samples = samples.chosen(np.argsort(samples.event_times, kind="stable"))
        begin = self._begin(partition, samples.event_times)
        samples = samples.chosen(np.arange(begin, len(samples), dtype=np.int64)) if begin else samples
        pieces[:] = [samples] if len(samples) else []
        return samples

    def _begin(self, partition: int, times: Int64s) -> int:
        """The first place that any window needs among rows with these event times int64[n]."""
        definition = self.definition
        windows, begin = definition.nested_windows.windows, len(times)
        for window in windows:
            if window.counted:
                begin = min(begin, len(times) - window.share(partition, definition.partitions))
            else:
                inside = np.flatnonzero(times > self.watermark - window.length)
                begin = min(begin, int(inside[0]) if len(inside) else len(times))
        return max(begin, 0)

    def before(self, later: _Tail) -> _Tail:
        """Both, this one first."""
        for partition, pieces in later.pieces.items():
            self.pieces.setdefault(partition, []).extend(pieces)
        self.read, self.watermark = self.read + later.read, max(self.watermark, later.watermark)
        self.refusals.update(later.refusals)
        self.examples = {**later.examples, **self.examples}
        return self

    @property
    def is_full(self) -> bool:
        """Whether earlier rows change nothing: each partition has all that windows of a count of rows can hold."""
        definition = self.definition
        return all(
            sum(map(len, self.pieces.get(partition, ()))) >= window.share(partition, definition.partitions)
            for partition in range(definition.partitions)
            for window in definition.nested_windows.windows
        )


def last_rows_of_table(name: str, columns: ColumnsOfTable, computing: Computing, now: int) -> LastRows:
    """The last rows of a table, as if it had come at the time ``now``, in milliseconds; one process reads it.

    They are in the order of their places, or of their event times (``computing.last_by``). By places, files are read
    from the last one on, until windows of a count of rows are full. Raises :class:`LakeError` for a table that cannot
    be read, and :class:`DefinitionError` for windows, ids or times that do not go with it.
    """
    definition = columns.definition
    table = open_table(name, computing.version, columns.needed)
    by_time, is_ordered = computing.last_by == "time", computing.last_by is not None or not table.is_delta
    _check(columns, is_ordered=is_ordered, by_time=by_time)
    columns.check_times(table)
    sums, windows = FileSums(definition, columns.options), definition.nested_windows
    from_the_end = not by_time and not windows.timed and not definition.classes.are_open
    tail = _Tail(definition, now, by_time)
    for done, file in enumerate(reversed(table.files) if from_the_end else table.files, 1):
        part = _Tail(definition, now, by_time) if from_the_end else tail
        for block in sums.blocks(file.path, file.name):
            part.take(block, f"{file.name}: ")
        tail = part.before(tail) if from_the_end else tail
        computing.told(done, len(table.files))
        if from_the_end and tail.is_full:
            break
    samples = {partition: tail.cut(partition) for partition in range(definition.partitions)}
    if not any(map(len, samples.values())):
        raise LakeError(f"{name}: none of its {tail.read:,} rows is admitted; nothing is written")
    labels = {partition: list(known) for partition, known in tail.known.items()}
    labels = labels if definition.classes.are_open else {}
    return LastRows(
        definition, samples, labels, sorted(computing.retired), now, tail.read, dict(tail.refusals), tail.examples
    )


def _check(columns: ColumnsOfTable, *, is_ordered: bool, by_time: bool) -> None:
    windows, options = columns.definition.nested_windows, columns.options
    if windows.endless:
        raise DefinitionError(
            "window: a window over everything ('all') needs every row; add them up (deltaplane bootstrap compute), and"
            " publish what comes of it"
        )
    if windows.pane_rows > 1:
        raise DefinitionError(
            f"window.pane: which rows leave in panes of {windows.pane_rows} follows from the number of all rows before;"
            " send the whole table (deltaplane produce)"
        )
    if options.id is None:
        raise DefinitionError("id: rows in a log need ids; name their column with --id")
    if options.time is None and (windows.timed or by_time):
        raise DefinitionError("time: which rows are the last ones follows from their times; name their column: --time")
    if not is_ordered:
        raise DefinitionError(
            "last-by: the files of a Delta table are in no order, so that none of its rows is the last; say --last-by"
            " time with --time COLUMN"
        )


def _joined(pieces: Sequence[Samples]) -> Samples:
    """The rows of several batches as one."""
    used = [np.unique(piece.label_codes) for piece in pieces]
    names = (piece.label_table[code] for piece, codes in zip(pieces, used, strict=True) for code in codes.tolist())
    table = tuple(dict.fromkeys(names))
    place = {label: code for code, label in enumerate(table)}
    # A label that no row has any more is left out, and has no code.
    codes = [
        np.array([place.get(label, -1) for label in piece.label_table], dtype=np.int32)[piece.label_codes]
        for piece in pieces
    ]
    ids = [one for piece in pieces for one in piece.ids]
    times = np.concatenate([piece.event_times for piece in pieces])
    features = np.concatenate([piece.features for piece in pieces])
    log_time = int(pieces[0].log_times[0])
    return Samples.of_record(ids, times, table, np.concatenate(codes), features, log_time)


def _none_of(definition: StreamDefinition) -> Samples:
    return Samples.of_record([], 0, (), np.zeros(0, dtype=np.int32), np.zeros((0, len(definition.features))))
