"""Whoever asks about a row is told the same, bit for bit: alone or among others, the scorer, a client, the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import strategies
from deltaplane.log.answers import Answers, answer
from deltaplane.log.model import Model
from deltaplane.log.records import Query, Unanswered
from deltaplane.reference import answer_of
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_answer, write_query
from deltaplane_services.processors.messages import QUERIES, Record
from deltaplane_services.processors.scorer_processor import BAD_VALUE, ScorerProcessor
from golden.wire_examples import MODEL

Floats = npt.NDArray[np.float64]


@st.composite
def cases(draw: st.DrawFn) -> tuple[StreamDefinition, Plane, Floats]:
    """A stream, a plane over its features, and rows of which most fit its grid and some do not."""
    definition: StreamDefinition = draw(strategies.definitions())
    plane = draw(strategies.planes(definition.dimension - 1))
    shape = draw(st.integers(0, 6)), len(definition.features)
    fitting = draw(hnp.arrays(np.float64, shape, elements=st.floats(-1.1, 1.1)))
    rows = definition.grid.offsets + fitting * definition.grid.steps * 2.0 ** draw(st.sampled_from([0, 10, 20, 30]))
    odd = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0] * 20 + [np.nan, np.inf, -np.inf, 1e300])))
    return definition, plane, np.asarray(rows + odd)


def told(answers: Answers) -> list[Any]:
    """What each row is told, in values that can be compared: bits of the decision values, or the reason."""
    return [
        answers.refusals[row]
        if row in answers.refusals
        else (answers.classes[row], {label: value.hex() for label, value in answers.decisions(row).items()})
        for row in range(len(answers))
    ]


def scored(definition: StreamDefinition, plane: Plane, rows: Floats) -> list[Any]:
    """The same from a scorer's answers to queries."""
    scorer = ScorerProcessor(definition)
    scorer.see_model(model_of(plane))
    queries = [write_query(Query(f"q{at}", row, definition.data_fingerprint)) for at, row in enumerate(rows)]
    output = scorer.process([Record(QUERIES, 0, at, 0, None, value) for at, value in enumerate(queries)])
    found = [read_answer(one.value) for one in output.then]
    assert [one.id for one in found] == [f"q{at}" for at in range(len(rows))]
    assert {one.kind for one in found if isinstance(one, Unanswered)} <= {BAD_VALUE}
    return [
        one.reason.removeprefix(f"query {one.id!r}: ")
        if isinstance(one, Unanswered)
        else (one.predicted, {label: value.hex() for label, value in one.decisions.items()})
        for one in found
    ]


def model_of(plane: Plane) -> Model:
    return replace(MODEL, plane=plane)


@given(cases())
def test_one_row_is_told_the_same_alone_and_among_others(case: tuple[StreamDefinition, Plane, Floats]) -> None:
    definition, plane, rows = case
    together = told(answer(plane, definition, rows))
    assert together == [one for row in rows for one in told(answer(plane, definition, row[None, :]))]
    assert together[::-1] == told(answer(plane, definition, rows[::-1]))


@given(cases())
def test_the_scorer_says_what_everybody_says(case: tuple[StreamDefinition, Plane, Floats]) -> None:
    assert scored(*case) == told(answer(case[1], case[0], case[2]))


@given(cases())
def test_the_oracle_says_what_everybody_says(case: tuple[StreamDefinition, Plane, Floats]) -> None:
    definition, plane, rows = case
    answers = answer(plane, definition, rows)
    for row, values in enumerate(rows.tolist()):
        expected = answer_of(definition, plane, values)
        if expected is None:
            assert row in answers.refusals
            assert answers.chosen[row] == -1
            assert np.isnan(answers.values[row]).all()
        else:
            assert row not in answers.refusals
            label, decisions = expected
            assert answers.classes[row] == label
            assert answers.decisions(row) == decisions


@given(strategies.definitions(), st.data(), st.integers(17, 3000))
def test_many_rows_are_told_what_a_few_are(definition: StreamDefinition, data: st.DataObject, count: int) -> None:
    plane = data.draw(strategies.planes(definition.dimension - 1))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = definition.grid.offsets + random.normal(size=(count, len(definition.features))) * definition.grid.steps * 1e5
    few = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=15))
    together, alone = answer(plane, definition, rows), answer(plane, definition, rows[few])
    assert together.values[few].tobytes() == alone.values.tobytes()
    assert together.chosen[few].tolist() == alone.chosen.tolist()
