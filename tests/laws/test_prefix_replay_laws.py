"""The law of a replay in pieces: wherever a table is cut, it has the scores and the statistics of one replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.errors import DefinitionError, StateMismatch
from deltaplane.exact.statistics import Statistics, moments_of_pieces
from deltaplane.log.confusion import Confusion
from deltaplane.log.in_memory import InMemoryStream
from deltaplane.log.prefix_replay import (
    PieceScores,
    PieceStart,
    check_follows,
    leaving_piece,
    replay_piece,
    runs_to_join,
)
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples, Samples, admit
from strategies_streams import definition_of


@dataclass(frozen=True)
class Case:
    """A table, the rows of a chunk, and the rows at which it is cut."""

    definition: StreamDefinition
    table: Samples
    chunk: int
    cuts: tuple[int, ...]


def table_of(values: Sequence[Sequence[float]], labels: Sequence[str]) -> Samples:
    names = tuple(sorted(set(labels)))
    codes = np.array([names.index(label) for label in labels], dtype=np.int32)
    features = np.array(values, dtype=np.float64).reshape(len(labels), -1)
    return Samples.of_record([f"row-{row}" for row in range(len(labels))], 0, names, codes, features)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to 60 rows of two or three classes that come in runs, so that windows may hold a single one; some refused."""
    rows = draw(st.integers(1, 60))
    runs = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 15)), min_size=1))
    labels = list(itertools.islice(itertools.cycle("".join(label * count for label, count in runs)), rows))
    value = st.one_of(st.integers(-9, 9).map(float), st.just(float("nan")))
    values = draw(st.lists(st.tuples(value, value), min_size=rows, max_size=rows))
    if draw(st.booleans()):
        definition = definition_of("all", features=2, keep_rows=draw(st.booleans()))
    else:
        length = draw(st.integers(2, 25))
        definition = definition_of(str(length), features=2, pane_rows=draw(st.integers(1, min(length, 4))))
    cuts = draw(st.lists(st.integers(0, rows), max_size=8))
    return Case(definition, table_of(values, labels), draw(st.integers(1, 12)), tuple(sorted(cuts)))


def admitted(case: Case, begin: int, end: int) -> AdmittedSamples:
    return admit(case.table.chosen(np.arange(begin, end, dtype=np.int64)), case.definition)[0]


def sums(case: Case, begin: int, end: int) -> Statistics:
    rows = admitted(case, begin, end)
    moments = moments_of_pieces(rows.mapped(), rows.codes, rows.labels)
    return Statistics(case.definition.dimension, {(0, label): part for label, part in moments.items()})


def chunks_of(case: Case, begin: int, end: int) -> Iterator[tuple[bool, AdmittedSamples]]:
    """The chunks of the whole table that begin in a piece, after the rest of the one before."""
    first, rows = -(-begin // case.chunk) * case.chunk, len(case.table)
    yield False, admitted(case, begin, min(first, rows))
    for at in range(first, end, case.chunk):
        yield True, admitted(case, at, min(at + case.chunk, rows))


def in_pieces(case: Case) -> tuple[Confusion, Statistics]:
    """What the pieces of a table add up to, each of which knows only the sums of those before it."""
    rows, definition = len(case.table), case.definition
    bounds = list(itertools.pairwise((0, *case.cuts, rows)))
    before, slots = [Statistics(definition.dimension)], [0]
    for begin, end in bounds:
        before.append(before[-1] + sums(case, begin, end))
        slots.append(slots[-1] + len(admitted(case, begin, end)))

    def replayed(first: int, last: int) -> PieceScores:
        left = leaving_piece(definition, slots, first)
        start = PieceStart(slots[first], slots[left], before[first] - before[left])
        if definition.nested_windows.endless:
            start = PieceStart(slots[first], 0, before[first])
        leaving = (admitted(case, at, at + 1) for at in range(bounds[left][0], rows))
        return replay_piece(definition, start, chunks_of(case, bounds[first][0], bounds[last][1]), leaving)

    found = [replayed(at, at) for at in range(len(bounds))]
    runs = runs_to_join([(piece.waits, piece.has_plane) for piece in found])
    again = {run.start: replayed(run.start, run.stop - 1) for run in runs}
    joined = {at for run in runs for at in run}
    total = Confusion()
    for at, piece in enumerate(found):
        total += again[at].scores if at in again else Confusion() if at in joined else piece.scores
    scored = [at for at, (begin, end) in enumerate(bounds) if -(-begin // case.chunk) * case.chunk < end]
    return total, (again.get(scored[-1]) or found[scored[-1]]).statistics


@given(cases())
def test_pieces_have_the_scores_and_the_statistics_of_one_replay(case: Case) -> None:
    stream = InMemoryStream(case.definition)
    for begin in range(0, len(case.table), case.chunk):
        stream.learn(case.table.chosen(np.arange(begin, min(begin + case.chunk, len(case.table)), dtype=np.int64)))
    scores, statistics = in_pieces(case)
    assert scores == stream.merger.scores
    assert statistics == stream.merger.statistics


def test_a_window_of_one_class_is_scored_by_the_last_good_plane_of_the_piece_before() -> None:
    """Rows 20 to 39 are of one class, so that the second piece has no plane of its own."""
    labels = [*"ab" * 10, *"a" * 20]
    case = Case(definition_of("4", features=1), table_of([[float(row % 7)] for row in range(40)], labels), 4, (28,))
    scores, _ = in_pieces(case)
    assert scores.rows == 36


def test_rows_that_should_leave_and_are_not_there_are_told() -> None:
    case = Case(definition_of("2", features=1), table_of([[1.0], [2.0], [3.0]], "aba"), 1, ())
    start = PieceStart(0, 0, Statistics(2))
    with pytest.raises(StateMismatch, match="changed between two readings"):
        replay_piece(case.definition, start, [(False, admitted(case, 0, 3))], [])


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"window": {"length": ["5", "9"]}}, "several windows.*fix --window"),
        ({"window": {"length": "5ms"}}, "window 5ms.*time"),
        ({"solver": {"C": [0.1, 1.0]}}, "the automatic mode.*fix --C"),
        ({"partitions": 2}, "2 partitions.*one order"),
    ],
)
def test_what_does_not_follow_from_sums_is_refused_by_its_name(tables: dict[str, object], told: str) -> None:
    plain = definition_of("all").to_tables()
    check_follows(StreamDefinition.from_tables(plain))
    definition = StreamDefinition.from_tables({**plain, **tables})
    with pytest.raises(DefinitionError, match=told):
        check_follows(definition)
