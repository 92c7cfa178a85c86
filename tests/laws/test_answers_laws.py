"""Whoever asks about a row is told the same, bit for bit: alone or among others, scorer, client, scores, the oracle."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import strategies
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError, RowsRefused
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.answers import Answers, answer
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, Tile
from deltaplane.log.merger import Merger
from deltaplane.log.model import Model
from deltaplane.log.records import Query, Unanswered
from deltaplane.log.scoring import score
from deltaplane.reference import answer_of
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane.wire import read_answer, write_query
from deltaplane_services import client
from deltaplane_services.client import LiveModel
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.processors.messages import QUERIES, Record
from deltaplane_services.processors.scorer_processor import BAD_VALUE, ScorerProcessor
from golden.wire_examples import MODEL
from strategies_streams import definition_of


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
    return replace(MODEL, plane=plane, blend=None)


class Followed:
    """A follower that has one model, and hears of no other."""

    stale = None

    def __init__(self, model: Model) -> None:
        self.model = model

    def poll(self, _most: int, _timeout_seconds: float) -> list[Model]:
        time.sleep(0.001)
        return []

    def close(self) -> None:
        pass


@contextmanager
def live(definition: StreamDefinition, plane: Plane) -> Iterator[LiveModel]:
    """A client's model, without its broker."""
    followed = mock.patch.multiple(
        client,
        reader=mock.Mock(),
        topic_watch=mock.Mock(),
        ModelFollower=mock.Mock(return_value=Followed(model_of(plane))),
    )
    with followed, LiveModel(cast("ServiceSettings", SimpleNamespace(definition=definition))) as model:
        yield model


def require_the_same_of_all(definition: StreamDefinition, plane: Plane, rows: Floats) -> None:
    """What the scorer, a client and the oracle say of rows are one thing."""
    answers = answer(plane, definition, rows)
    everybody = told(answers)
    assert scored(definition, plane, rows) == everybody
    with live(definition, plane) as model:
        assert told(model.answer(rows)) == everybody
        if answers.refusals:
            with pytest.raises(RowsRefused, match=f"{len(answers.refusals)} of {len(rows)} have no answer") as refused:
                model.predict(rows)
            assert refused.value.refusals == answers.refusals
        else:
            assert model.predict(rows) == answers.classes
    for row, values in enumerate(rows.tolist()):
        expected = answer_of(definition, plane, values)
        if expected is None:
            assert row in answers.refusals
            assert answers.chosen[row] == -1
            assert np.isnan(answers.values[row]).all()
        else:
            assert row not in answers.refusals
            assert (answers.classes[row], answers.decisions(row)) == expected


@given(cases())
def test_one_row_is_told_the_same_alone_and_among_others(case: tuple[StreamDefinition, Plane, Floats]) -> None:
    definition, plane, rows = case
    together = told(answer(plane, definition, rows))
    assert together == [one for row in rows for one in told(answer(plane, definition, row[None, :]))]
    assert together[::-1] == told(answer(plane, definition, rows[::-1]))


@given(cases())
def test_the_scorer_a_client_and_the_oracle_say_the_same(case: tuple[StreamDefinition, Plane, Floats]) -> None:
    require_the_same_of_all(*case)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(2, 4), st.sampled_from(["refuse", "offset"]))
def test_of_an_automatic_blend_they_say_the_same_too(seed: int, labels: int, missing: Any) -> None:
    random = np.random.default_rng(seed)
    definition = replace(
        definition_of("4", "all", features=3), missing=missing, choices=(0.1, 10.0), solver=SolverOptions(C=10.0)
    )
    centres = random.integers(-50, 50, (labels, 3))
    sums = {
        (window, f"class {label}"): Moments.of_rows(centre + random.integers(-20, 20, (12, 3)).astype(np.float64))
        for label, centre in enumerate(centres)
        for window in (0, 1)
    }
    merger, source = Merger(definition), Source("here", 0)
    merger.apply(Claim(source, "w", definition.stream_fingerprint))
    change = Statistics(4, sums)
    merger.apply(Delta(source, "w", definition.stream_fingerprint, Tile(0, 0, 1, 0, 0), Rebuild(), change))
    model = merger.publish(1)
    assert model is not None
    assert model.plane is not None
    assert model.blend is not None
    rows = random.normal(size=(20, 3)) * 60.0
    rows[random.random(rows.shape) < 0.1] = random.choice([np.nan, np.inf, -np.inf, 2.0**31])
    require_the_same_of_all(definition, model.plane, rows)


@given(cases())
def test_a_sample_is_scored_by_the_class_that_a_scorer_would_answer(
    case: tuple[StreamDefinition, Plane, Floats],
) -> None:
    definition, plane, rows = case
    assume(definition.classes.positive is None)
    label = definition.classes.names[0] if definition.classes.names else "one"
    ids, times, codes = [f"id {at}" for at in range(len(rows))], np.zeros(len(rows), np.int64), np.zeros(len(rows))
    samples = Samples.of_record(ids, times, (label,), codes.astype(np.int32), rows)
    admitted, refusals = admit(samples, definition)
    answers = answer(plane, definition, rows)
    assume(not any("beyond float64" in reason for reason in answers.refusals.values()))
    assert {refusal.row: refusal.reason for refusal in refusals} == answers.refusals
    expected = Counter((label, chosen) for chosen in answers.classes if chosen is not None)
    assert score(model_of(plane), admitted, ())[0].counts == expected


@given(cases())
def test_numbers_of_any_type_are_answered_and_what_are_none_is_refused(
    case: tuple[StreamDefinition, Plane, Floats],
) -> None:
    definition, plane, rows = case
    assert told(answer(plane, definition, rows.tolist() or np.zeros(rows.shape))) == told(
        answer(plane, definition, rows)
    )
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    assert told(answer(plane, definition, narrow)) == told(answer(plane, definition, narrow.astype(np.float64)))
    for wrong in (rows[:, :-1], rows[None], [["a"] * rows.shape[1]], [[1.0], [1.0, 2.0]], None):
        with pytest.raises(DefinitionError, match=r"rows: expected numbers \[n, "):
            answer(plane, definition, wrong)  # type: ignore[arg-type]


@given(strategies.definitions(), st.data(), st.integers(17, 3000))
def test_many_rows_are_told_what_a_few_are(definition: StreamDefinition, data: st.DataObject, count: int) -> None:
    plane = data.draw(strategies.planes(definition.dimension - 1))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = definition.grid.offsets + random.normal(size=(count, len(definition.features))) * definition.grid.steps * 1e5
    few = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=15))
    together, alone = answer(plane, definition, rows), answer(plane, definition, rows[few])
    assert together.values[few].tobytes() == alone.values.tobytes()
    assert together.chosen[few].tolist() == alone.chosen.tolist()
