"""What columns contribute adds up to the decision, and the columns of a table are not torn apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import strategies
from deltaplane.arrays import Floats
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import BooleanRule, CategoryRule, NumberRule
from deltaplane.log.answers import answer
from deltaplane.log.reasons import reasons, source_columns
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition


@st.composite
def cases(draw: st.DrawFn) -> tuple[StreamDefinition, Plane, Floats]:
    """A stream with or without a map, a plane over its features that knows their means, and rows on the grid."""
    definition: StreamDefinition = draw(strategies.definitions())
    plane = draw(strategies.planes(definition.dimension - 1))
    means = draw(hnp.arrays(np.float64, definition.dimension - 1, elements=st.floats(-2.0, 2.0)))
    shape = draw(st.integers(1, 4)), len(definition.features)
    fitting = draw(hnp.arrays(np.float64, shape, elements=st.floats(-1.0, 1.0)))
    rows = definition.grid.offsets + fitting * definition.grid.steps * 2.0 ** draw(st.sampled_from([0, 10, 20]))
    weights, biases = np.clip(plane.weights, -1e6, 1e6), np.clip(plane.biases, -1e6, 1e6)
    plane = replace(plane, weights=weights, biases=biases, means=definition.plane_grid.offsets + means)
    return definition, plane, np.asarray(rows)


@settings(max_examples=25)
@given(cases())
def test_contributions_add_up_to_the_decision_value_of_the_predicted_class(
    case: tuple[StreamDefinition, Plane, Floats],
) -> None:
    definition, plane, rows = case
    answers = answer(plane, definition, rows)
    found = reasons(plane, definition, rows, answers.chosen)
    assert found is not None
    assert plane.means is not None
    for row in range(len(rows)):
        if row in answers.refusals:
            assert np.isnan(found.contributions[row]).all()
            continue
        decision = answers.decisions(row)[str(answers.classes[row])]
        # Nothing can be known more exactly than the terms are that make it up.
        inputs, _ = definition.plane_inputs(rows[row : row + 1])
        terms = np.abs(plane.weights).max(axis=0) * (np.abs(inputs[0]) + np.abs(plane.means))
        size = max(abs(decision), float(terms.sum()), float(np.abs(plane.biases).max()), abs(float(found.bases[row])))
        assume(np.isfinite(size))
        apart = abs(float(found.bases[row] + found.contributions[row].sum()) - decision)
        assert apart <= 1e-9 * size, (apart, size)


ENCODER = Encoder(
    (
        NumberRule("amount", "fill"),
        CategoryRule("country", "fill", levels=("DE", "FR", "IT")),
        BooleanRule("known", "fill"),
    )
)


def table(plane_means: Floats) -> tuple[StreamDefinition, Plane]:
    features = len(ENCODER.features)
    definition = StreamDefinition.from_tables(
        {
            "name": "s",
            "columns": {"rules": _rules()},
            "grid": {"steps": [2.0**-20] * features},
            "window": {"length": "100"},
            "solver": {"C": 1.0},
        }
    )
    assert definition.columns is not None
    weights = np.linspace(1.0, 2.0, features)
    plane = Plane(("n", "y"), "y", weights[None], np.array([0.5]), {}, 1.0, 1.0, {"n": 1, "y": 1}, means=plane_means)
    return definition, plane


def _rules() -> object:
    from deltaplane.stream.column_tables import encoder_table  # noqa: PLC0415

    return encoder_table(ENCODER)["rules"]


@given(hnp.arrays(np.float64, len(ENCODER.features), elements=st.floats(-1.0, 1.0)))
def test_what_is_made_of_one_column_is_one_contribution(means: Floats) -> None:
    definition, plane = table(means)
    columns, of_column = source_columns(definition)
    assert columns == ("amount", "country", "known")
    rows = ENCODER.encode_records([{"amount": 0.25, "country": "FR", "known": True}]).features
    answers = answer(plane, definition, rows)
    found = reasons(plane, definition, rows, answers.chosen)
    assert found is not None
    sign = 1.0 if answers.classes[0] == "y" else -1.0
    terms = sign * (rows[0] - means) * plane.weights[0]
    expected = [terms[of_column == at].sum() for at in range(3)]
    np.testing.assert_allclose(found.contributions[0], expected, rtol=1e-12, atol=1e-15)
    largest = found.largest(0, 2)
    assert [abs(value) for _, value in largest] == sorted((abs(value) for value in expected if value), reverse=True)[:2]


def test_a_plane_that_came_without_means_has_no_reasons() -> None:
    definition, plane = table(np.zeros(len(ENCODER.features)))
    rows = np.zeros((1, len(ENCODER.features)))
    assert reasons(replace(plane, means=None), definition, rows, np.array([0])) is None
