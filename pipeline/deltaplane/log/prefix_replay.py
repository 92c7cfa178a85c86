"""Test, then train, in pieces: a long table is scored by many at once as one replay would score it from its beginning.

A plane is a function of the statistics of the rows before it, and statistics add and subtract exactly. So whoever knows
what the pieces of a table add up to knows the plane at the beginning of each piece, and the pieces are scored
independently of each other (a prefix sum, as of a parallel scan):

    all        statistics before row r  =  P(r),           P(r) the sum of all rows before r
    count N    statistics before row r  =  P(r) - P(r - N) and the rows that leave are read a second time

Chunks are those of the whole table: a chunk belongs to the piece that its first row lies in.

What cannot be done so: candidates are weighed by how they predicted every row before, and a time window and an id ask
what came before by other things than its place. :func:`check_follows` refuses these by name.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltaplane.arrays import Int32s, Quantized
from deltaplane.errors import DefinitionError, SolveRefused, StateMismatch
from deltaplane.exact.statistics import Statistics, moments_of_pieces
from deltaplane.log.confusion import Confusion
from deltaplane.log.merger import plane_of
from deltaplane.log.scoring import PlaneAlone, score
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples

__all__ = ["PieceScores", "PieceStart", "check_follows", "leaving_piece", "replay_piece", "runs_to_join"]


def check_follows(definition: StreamDefinition) -> None:
    """Raise :class:`DefinitionError` if the planes of a stream do not follow from sums of rows before them."""
    windows = definition.nested_windows
    if len(windows.windows) > 1:
        _refuse("several windows", "candidates are weighed by how they predicted every row before; fix --window")
    if windows.timed:
        _refuse(f"window {windows.windows[0]}", "which rows a time window holds depends on every time before; use rows")
    if definition.automatic:
        _refuse(
            "the automatic mode",
            "candidates are weighed, and thresholds set, by how they predicted every row before; fix --C and"
            " --weighting, and leave --objective out",
        )
    if definition.partitions > 1:
        _refuse(f"{definition.partitions} partitions", "a table has one order of rows; use --partitions 1")


def _refuse(what: str, why: str) -> None:
    raise DefinitionError(f"engine: a replay in pieces cannot follow {what}: {why}, or leave --engine out")


def leaving_piece(definition: StreamDefinition, slots: Sequence[int], at: int) -> int:
    """The piece from whose beginning on rows leave the window while piece ``at`` is replayed.

    ``slots`` are the rows admitted before each piece, ascending. If no row ever leaves, it is piece 0.
    """
    return max(0, bisect.bisect_right(slots, _first_slot(definition, slots[at]), hi=at + 1) - 1)


def _first_slot(definition: StreamDefinition, slots: int) -> int:
    """The first slot inside the window after ``slots`` rows were admitted: those before it have left."""
    windows = definition.nested_windows
    window = windows.windows[0]
    return 0 if window.endless else max(0, (slots - window.length) // windows.pane_rows * windows.pane_rows)


@dataclass(frozen=True)
class PieceStart:
    """Where a piece begins: after ``slots`` admitted rows, of which those before ``left`` are not in ``statistics``.

    ``left`` is not beyond the first slot inside the window. If a window is endless, it is 0.
    """

    slots: int
    left: int
    statistics: Statistics


@dataclass(frozen=True)
class PieceScores:
    """The result of a piece: the ``scores`` of its rows, and the ``statistics`` of the live rows at its end.

    ``waits``: its first rows came when no plane could be solved for, so that they are scored by the last good plane of
    the pieces before, if there is one. ``has_plane``: a plane was solved for in it, so that later pieces need not wait.
    """

    scores: Confusion
    statistics: Statistics
    waits: bool
    has_plane: bool


def replay_piece(
    definition: StreamDefinition,
    start: PieceStart,
    chunks: Iterable[tuple[bool, AdmittedSamples]],
    leaving: Iterable[AdmittedSamples] = (),
) -> PieceScores:
    """The scores of the rows of a piece: each chunk is scored by the plane before it, and then learned.

    ``chunks``: (whether it is scored here, its rows): the rows that end a chunk of the piece before are only learned.
    ``leaving``: the admitted rows from slot ``start.left`` on, for a window that rows leave. Raises
    :class:`StateMismatch` if these end before the rows that must leave.
    """
    trail, slots, waits = _Trail(definition, start.left, leaving), start.slots, False
    statistics, scores = start.statistics - trail.up_to(_first_slot(definition, slots)), Confusion()
    plane: Plane | None = None
    solved_at = -1
    for scored, rows in chunks:
        if scored and solved_at != slots:
            plane, solved_at = _solved(statistics, definition) or plane, slots
        if scored:
            waits |= plane is None and len(rows) > 0
            scores += score(PlaneAlone(plane), rows, []).scores
        slots += len(rows)
        statistics = statistics + _sums(definition, rows.mapped(), rows.codes, rows.labels)
        statistics = statistics - trail.up_to(_first_slot(definition, slots))
    return PieceScores(scores, statistics, waits, plane is not None)


def _solved(statistics: Statistics, definition: StreamDefinition) -> Plane | None:
    try:
        return plane_of(statistics, definition)
    except SolveRefused:
        return None


def _sums(
    definition: StreamDefinition, mapped: Iterable[tuple[slice, Quantized]], codes: Int32s, labels: list[str]
) -> Statistics:
    """The statistics of rows that come in pieces of mapped grid rows; ``codes`` int32[n] index ``labels``."""
    moments = moments_of_pieces(mapped, codes, labels)
    return Statistics(definition.dimension, {(0, label): part for label, part in moments.items()})


class _Trail:
    """The rows that leave a window, in order, from a slot on."""

    def __init__(self, definition: StreamDefinition, slot: int, rows: Iterable[AdmittedSamples]) -> None:
        self._definition = definition
        self._slot = slot
        self._rows: Iterator[AdmittedSamples] = iter(rows)
        self._block: AdmittedSamples | None = None
        self._taken = 0

    def up_to(self, slot: int) -> Statistics:
        """The statistics of the rows that have not left yet, up to before ``slot``."""
        total = Statistics(self._definition.dimension)
        while self._slot < slot:
            while self._block is None or self._taken == len(self._block):
                self._block, self._taken = next(self._rows, None), 0
                if self._block is None:
                    raise StateMismatch(
                        f"replay: expected the rows that leave the window up to number {slot}, and there are"
                        f" {self._slot}; the table was changed between two readings, so replay it again"
                    )
            begin = self._taken
            self._taken = min(len(self._block), begin + slot - self._slot)
            self._slot += self._taken - begin
            total = total + self._sums(self._block, slice(begin, self._taken))
        return total

    def _sums(self, block: AdmittedSamples, rows: slice) -> Statistics:
        feature_map, quantized = self._definition.feature_map, block.quantized[rows]
        pieces = ((piece, feature_map.apply(quantized[piece])) for piece in feature_map.pieces(len(quantized)))
        return _sums(self._definition, pieces, block.codes[rows], block.labels)


def runs_to_join(pieces: Sequence[tuple[bool, bool]]) -> list[range]:
    """The pieces to be replayed again, in one go each, so that no rows wait for the last good plane before them.

    ``pieces`` are (whether it waits, whether it has a plane), in order. A piece that waits goes together with all from
    the last that has a plane on; pieces before the first plane wait for nothing.
    """
    runs: list[range] = []
    last: int | None = None
    for at, (waits, has_plane) in enumerate(pieces):
        if waits and last is not None:
            if runs and runs[-1].stop > last:
                runs[-1] = range(runs[-1].start, at + 1)
            else:
                runs.append(range(last, at + 1))
        if has_plane:
            last = at
    return runs
