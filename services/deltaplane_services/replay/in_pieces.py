"""A replay of a table in pieces, by processes of this machine or by Spark: its scores are those of one replay.

Two passes: what the pieces add up to, and then each piece, begun with the sum of those before it. If the rows of a
piece came when no plane could be solved for, they wait for the last good plane before them, and are replayed again in
one go with the pieces from there on.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from deltaplane.errors import DefinitionError, SolveRefused
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.headline import positive_of
from deltaplane.log.merger import of_largest, plane_of
from deltaplane.log.partial import Partial
from deltaplane.log.prefix_replay import check_follows, leaving_piece, runs_to_join
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.lake.block_sums import UNREAD
from deltaplane_services.lake.file_sums import is_empty_parquet
from deltaplane_services.lake.piece_replay import PieceJob, scores_of_head
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeTable, open_table
from deltaplane_services.produce.column_choice import ColumnChoice
from deltaplane_services.produce.feed_options import (
    ReplayOptions,
    complete_definition,
    needs_first_rows,
    reader_options,
)
from deltaplane_services.readers import RowBlock, open_rows
from deltaplane_services.replay.first_rows import first_blocks, rows_to_fit_on, with_positive
from deltaplane_services.replay.labels_seen import LabelsSeen
from deltaplane_services.replay.result import ReplayError

__all__ = ["Engine", "OpenEngine", "Piece", "PieceFacts", "ReplayedInPieces", "Use", "replay_in_pieces"]


@dataclass(frozen=True)
class Piece:
    """Some files of a table, from number ``first`` to before ``end``."""

    first: int
    end: int


class PieceFacts(NamedTuple):
    """What is known of a piece once it has been summed: rows that readers could read, and of these the admitted."""

    rows: int
    slots: int

    @classmethod
    def of(cls, partial: Partial) -> PieceFacts:
        """The facts of what a piece adds up to."""
        refused = sum(count for kind, count in partial.refusals.items() if kind != UNREAD)
        return cls(partial.rows + refused, partial.rows)


@dataclass(frozen=True)
class Use:
    """A job, which begins with the sum of the pieces from number ``left`` to before number ``before``."""

    job: PieceJob
    before: int
    left: int


class Engine(Protocol):
    """Sums and replays the pieces of a table, whose definition it knows; a context manager."""

    def sum(self) -> tuple[list[PieceFacts], Partial]:
        """(the facts of each piece, what all add up to but for the statistics); sums stay where the engine is."""

    def replay(self, uses: Sequence[Use]) -> list[tuple[Mapping[str, Any], Statistics | None]]:
        """The result of each job in plain values, and the statistics at its end if it asks for them."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of everything."""


OpenEngine = Callable[[LakeTable, ColumnsOfTable], tuple[Engine, list[Piece]]]
"""Makes the engine for a table, and cuts the table into pieces."""


@dataclass(frozen=True)
class ReplayedInPieces:
    """The result: ``scores`` as of one replay, the plane of the live rows, and what was refused, by its kind.

    ``rows`` could be read. ``refusal``: why the live rows have no plane. ``positive`` is the class whose recall is the
    sensitivity. ``again``: pieces that were replayed twice, for want of a plane of their own at first.
    """

    source: str
    definition: StreamDefinition
    rows: int
    scores: Confusion
    statistics: Statistics
    plane: Plane | None
    refusal: str | None
    positive: str | None
    refusals: Mapping[str, int]
    examples: Mapping[str, str]
    pieces: int
    again: int
    seconds: float

    @property
    def digest(self) -> str:
        """The digest of the live rows."""
        return self.statistics.digest(self.definition.data_fingerprint)


def replay_in_pieces(options: ReplayOptions, open_engine: OpenEngine) -> ReplayedInPieces:
    """Replay a table by an engine.

    Raises :class:`DefinitionError` for what cannot be followed in pieces, by its name, and :class:`DeltaplaneError` for
    tables and options that cannot be used.
    """
    _check_options(options)
    started = time.monotonic()
    table = open_table(options.source, None)
    options, definition, rare = _completed(options, table)
    check_follows(definition)
    columns = ColumnsOfTable(definition, options.input)
    columns.check_times(table)
    engine, pieces = open_engine(table, columns)
    with engine:
        facts, total = engine.sum()
        if not any(one.slots for one in facts):
            told = "; ".join(total.examples.values())
            raise ReplayError(f"{options.source}: none of {sum(one.rows for one in facts)} rows could be used: {told}")
        plan = _Plan(table, definition, pieces, facts, options.chunk)
        found = engine.replay([plan.use(at, at + 1) for at in range(len(pieces))])
        runs = runs_to_join([(head["waits"], head["has_plane"]) for head, _ in found])
        again = engine.replay([plan.use(run.start, run.stop) for run in runs])
    twice = {at for run in runs for at in run}
    heads = [head for at, (head, _) in enumerate(found) if at not in twice] + [head for head, _ in again]
    scores = sum(map(scores_of_head, heads), Confusion())
    statistics = found[-1][1]
    assert statistics is not None, "the last piece gives the statistics at its end"
    plane, refusal = _plane(statistics, definition)
    named = definition.classes.positive
    positive = named if named is not None else positive_of(None, plane, scores)
    if named is None and plane is not None and positive is not None and rare in plane.classes:
        positive = rare
    return ReplayedInPieces(
        source=options.source,
        definition=definition,
        rows=sum(one.rows for one in facts),
        scores=of_largest(scores, definition.most_classes),
        statistics=statistics,
        plane=plane,
        refusal=refusal,
        positive=positive,
        refusals=total.refusals,
        examples=total.examples,
        pieces=len(pieces),
        again=len(twice),
        seconds=time.monotonic() - started,
    )


def _check_options(options: ReplayOptions) -> None:
    found = {
        "--shuffle: rows have the order of the table": options.shuffle is not None,
        "--imbalance: which rows stay depends on all before": options.imbalance is not None,
        "--retire-fraction: a row that is retired leaves where its id says": options.retire_fraction > 0,
        "--id: whether an id came before depends on every row before": bool(options.input.id),
        "--speed: nothing is fed at a rate": options.rows_per_second is not None,
        "--verify: compare digests with another engine": options.verify,
        "--chunk 1: use 2 rows or more": options.chunk == 1,
        "--save and --resume: nothing is kept": options.save is not None or options.continues,
        "--predictions: rows are counted, and their scores not kept": options.predictions is not None,
        "--retired-ids: no row is retired": options.retired_ids is not None,
    }
    if bad := [what for what, there in found.items() if there]:
        raise DefinitionError(f"engine: a replay in pieces cannot follow {bad[0]}; leave that or --engine out")


def _completed(options: ReplayOptions, table: LakeTable) -> tuple[ReplayOptions, StreamDefinition, str | None]:
    """(the options with the columns' rules, the definition, the rarest class), as a replay makes them of first rows."""
    choice, first, labels = ColumnChoice(options), list[RowBlock](), LabelsSeen()
    with ExitStack() as opened:
        names: tuple[str, ...] = ()

        def blocks() -> Iterator[RowBlock]:
            nonlocal names
            for file in table.files:
                if is_empty_parquet(file.path):
                    continue
                known = (
                    choice.reader_options if not names else reader_options(choice.completed(options).definition_file)
                )
                reader = opened.enter_context(open_rows(file.path, known))
                names = names or reader.feature_names
                yield from reader

        first = list(first_blocks(blocks()))
    for block in first:
        labels.add(block.labels)
    options, _ = with_positive(choice.completed(options), first)
    definition = complete_definition(options, names, rows_to_fit_on(first) if needs_first_rows(options) else None)
    return options, definition, labels.rarest()


def _plane(statistics: Statistics, definition: StreamDefinition) -> tuple[Plane | None, str | None]:
    try:
        return plane_of(statistics, definition), None
    except SolveRefused as refused:
        return None, str(refused)


class _Plan:
    """Which files, and which sums, the replay of some pieces takes."""

    def __init__(
        self,
        table: LakeTable,
        definition: StreamDefinition,
        pieces: Sequence[Piece],
        facts: Sequence[PieceFacts],
        chunk: int,
    ) -> None:
        self._files = [(str(file.path), file.name) for file in table.files]
        self._definition = definition
        self._pieces = pieces
        self._chunk = chunk
        self._rows = [0, *accumulate(one.rows for one in facts)]
        self._slots = [0, *accumulate(one.slots for one in facts)]

    def use(self, first: int, end: int) -> Use:
        """The use of the pieces from ``first`` to before ``end``, in one go."""
        pieces, last = self._pieces, len(self._pieces)
        reach = bisect.bisect_left(self._rows, self._rows[end] + self._chunk - 1, lo=end)
        left = leaving_piece(self._definition, self._slots, first)
        endless = self._definition.nested_windows.endless
        job = PieceJob(
            files=self._files[pieces[first].first : pieces[min(reach, last) - 1].end],
            leaving=[] if endless else self._files[pieces[left].first : pieces[min(reach, last) - 1].end],
            rows_before=self._rows[first],
            rows=self._rows[end] - self._rows[first],
            slots=self._slots[first],
            left=self._slots[left],
            chunk=self._chunk,
            ends=end == last,
        )
        return Use(job, first, left)
