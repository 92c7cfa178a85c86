"""Hard values: outliers, huge beside small, constants, repeated and dependent features, the ends of float64."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane.exact.grid import fit_grid
from deltaplane.solve.solver_options import SolverOptions
from exact_planes import exact_plane
from torture.torture_stream import (
    MODES,
    TortureStream,
    cloud,
    definition_for,
    inputs_of,
    plane,
    planes_of,
)

WITHOUT_MAP = ("plain", "automatic")


@pytest.mark.parametrize("mode", MODES)
def test_an_outlier_of_1e10_that_has_left_a_window_of_50_leaves_no_trace(mode: str) -> None:
    definition = definition_for(mode, [16.0, 16.0])
    rows, labels = cloud(1, 160)
    seen, never = TortureStream(definition), TortureStream(definition)
    for at in range(0, 160, 10):
        part, names = rows[at : at + 10] * 16.0, labels[at : at + 10]
        if at in (40, 50, 90):
            part, names = np.vstack([part, [[1e10, -1e10], [-1e10, -1e10]]]), [*names, "no", "yes"]
        poisoned = seen.take(part, names)
        if at == 90:
            assert plane(poisoned).condition >= 1.0
        usual = never.take(rows[at : at + 10] * 16.0, labels[at : at + 10])
        assert (poisoned.digest == usual.digest) is (at < 40 or at >= 90 + 50)
    assert planes_of(poisoned) == planes_of(usual)


def test_the_plane_over_an_outlier_of_1e10_is_right_to_twelve_digits() -> None:
    definition = definition_for("plain", [16.0, 16.0])
    rows, labels = cloud(2, 40)
    rows = np.vstack([rows * 16.0, [[1e10, -1e10]]])
    labels = [*labels, "no"]
    found = plane(TortureStream(definition).take(rows, labels))
    quantized, _ = definition.grid.quantize(rows)
    own = np.array(labels) == "yes"
    expected = exact_plane(quantized, own, definition.grid, definition.solver)
    np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-12)


@pytest.mark.parametrize("mode", WITHOUT_MAP)
def test_two_to_the_54th_and_one_stand_side_by_side_without_loss(mode: str) -> None:
    # The first feature has a step of 4 in float64 itself, which the grid keeps; the second is a flag.
    rows, labels = cloud(3, 60, features=1, apart=40_000.0)
    flags = (np.arange(60) % 3 == 0).astype(float)
    values = np.column_stack([2.0**54 + 4.0 * rows[:, 0], flags])
    grid = fit_grid(values)
    assert grid.steps[1] == 1.0
    definition = definition_for(mode, grid.steps.tolist(), 60, grid.offsets.tolist())
    stream = TortureStream(definition)
    model = stream.take(values, labels)
    assert stream.runner.rounding_error.tolist() == [0.0, 0.0]
    own = np.array(labels) == "yes"
    if mode == "plain":
        quantized, _ = grid.quantize(values)
        expected = exact_plane(quantized, own, grid, definition.solver)
        np.testing.assert_allclose(plane(model).weights[0], expected[:-1], rtol=1e-12)
    # A bias of 2**54 leaves a decision off by some two steps of the feature, of which the classes are 10,000 apart.
    assert (plane(model).predict(values) == own).all()


def test_two_to_the_54th_and_one_in_one_feature_lose_the_one_and_say_so() -> None:
    values = np.array([[1.0], [2.0**54], [0.0], [-(2.0**54)], [2.0**53]])
    grid = fit_grid(values)
    stream = TortureStream(definition_for("plain", grid.steps.tolist()))
    stream.take(values, ["no", "yes", "no", "yes", "no"])
    assert stream.runner.rounding_error.tolist() == [1.0]
    assert not stream.letters()


@pytest.mark.parametrize("mode", WITHOUT_MAP)
def test_a_column_that_becomes_constant_weighs_nothing_and_weighs_again_when_it_moves(mode: str) -> None:
    rows, labels = cloud(4, 240)
    constant = rows.copy()
    constant[:, 1] = 777.0
    changing, always = (TortureStream(definition_for(mode, [1.0, 1.0], 60)) for _ in range(2))
    for at in range(0, 240, 20):
        moves = at in (60, 80, 100)
        one = changing.take((rows if moves else constant)[at : at + 20], labels[at : at + 20])
        other = always.take(constant[at : at + 20], labels[at : at + 20])
        assert plane(other).weights[0, 1] == 0.0
        assert (plane(one).weights[0, 1] == 0.0) is not (60 <= at < 60 + 60 + 40)
    assert one.digest == other.digest
    assert planes_of(one) == planes_of(other)


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_are_all_the_same_say_nothing_of_their_classes(mode: str) -> None:
    stream = TortureStream(definition_for(mode, [1.0, 1.0]))
    found = plane(stream.take([[3.0, -2.0]] * 20, ["no"] * 10 + ["yes"] * 10))
    assert np.abs(found.weights).max() < 1e-9
    assert abs(found.decide(inputs_of(stream, [[3.0, -2.0]]))[0, 0]) < 1e-9


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_are_the_same_within_their_class_are_told_apart(mode: str) -> None:
    stream = TortureStream(definition_for(mode, [1.0, 1.0]))
    found = plane(stream.take([[3000.0, -2000.0]] * 10 + [[-500.0, 700.0]] * 10, ["no"] * 10 + ["yes"] * 10))
    both = inputs_of(stream, [[3000.0, -2000.0], [-500.0, 700.0]])
    assert found.predict(both).tolist() == [0, 1]


@pytest.mark.parametrize("mode", WITHOUT_MAP)
def test_features_that_repeat_each_other_share_the_weight(mode: str) -> None:
    rows, labels = cloud(5, 50, features=1)
    twice = np.column_stack([rows, 2.0 * rows])
    found = plane(TortureStream(definition_for(mode, [1.0, 1.0])).take(twice, labels))
    np.testing.assert_allclose(found.weights[0, 0], 2.0 * found.weights[0, 1], rtol=1e-9)
    alone = plane(TortureStream(definition_for(mode, [1.0])).take(rows, labels))
    assert found.condition > 5.0 * alone.condition


def test_features_that_repeat_each_other_without_a_penalty_are_refused_and_the_last_good_plane_stays() -> None:
    definition = definition_for("plain", [1.0, 1.0], solver=SolverOptions(C=1e18))
    stream = TortureStream(definition)
    rows, labels = cloud(6, 100)
    good = plane(stream.take(rows[:50], labels[:50]))
    repeated = rows[50:].copy()
    repeated[:, 1] = 2.0 * repeated[:, 0]
    model = stream.take(repeated, labels[50:])
    assert model.refusal is not None
    assert "lower C, or leave out features that repeat others" in model.refusal
    assert model.plane is not None
    assert model.plane.weights.tobytes() == good.weights.tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_more_features_than_rows_are_solved(mode: str) -> None:
    rows, labels = cloud(7, 6, features=12)
    definition = definition_for(mode, [1.0] * 12)
    found = plane(TortureStream(definition).take(rows, labels))
    if mode == "plain":
        expected = exact_plane(rows, np.array(labels) == "yes", definition.grid, definition.solver)
        np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-12)
    inputs, _ = definition.plane_inputs(rows)
    assert (found.predict(inputs) == (np.array(labels) == "yes")).all()


@pytest.mark.parametrize("mode", WITHOUT_MAP)
@pytest.mark.parametrize("power", [-480, -300, 300, 980])
def test_the_scale_of_a_feature_changes_nothing_but_its_weight_to_the_bit(mode: str, power: int) -> None:
    rows, labels = cloud(8, 60)
    plain = plane(TortureStream(definition_for(mode, [2.0**-10, 1.0])).take(rows * [2.0**-10, 1.0], labels))
    scale = 2.0**power
    scaled_rows = rows * [scale * 2.0**-10, 1.0]
    scaled = plane(TortureStream(definition_for(mode, [scale * 2.0**-10, 1.0])).take(scaled_rows, labels))
    assert (scaled.weights[0] * [scale, 1.0]).tobytes() == plain.weights[0].tobytes()
    assert scaled.biases.tobytes() == plain.biases.tobytes()
    assert scaled.condition == plain.condition


@pytest.mark.parametrize("mode", MODES)
def test_subnormal_values_are_zero_on_every_grid_and_harm_nobody(mode: str) -> None:
    rows, labels = cloud(9, 40)
    small = rows.copy()
    small[:, 1] = 5e-324 * np.arange(1, 41)
    grid = fit_grid(small)
    assert grid.steps[1] == 2.0**-500
    stream = TortureStream(definition_for(mode, [1.0, grid.steps[1]]))
    found = plane(stream.take(small, labels))
    assert not stream.letters()
    assert stream.runner.rounding_error[1] == small[-1, 1]
    if mode in WITHOUT_MAP:
        assert found.weights[0, 1] == 0.0
    nothing = small.copy()
    nothing[:, 1] = 0.0
    other = TortureStream(stream.definition).take(nothing, labels)
    assert stream.model is not None
    assert other.digest == stream.model.digest


@pytest.mark.parametrize("mode", MODES)
def test_minus_zero_is_zero_and_a_sample_sent_again_with_it_is_a_duplicate(mode: str) -> None:
    rows, labels = cloud(10, 30)
    rows[::3, 0] = 0.0
    minus = np.where(rows == 0.0, -0.0, rows)
    one, other = (TortureStream(definition_for(mode, [1.0, 1.0])) for _ in range(2))
    first, second = one.take(rows, labels), other.take(minus, labels)
    assert first.digest == second.digest
    assert planes_of(first) == planes_of(second)
    again = one.take(minus, labels, first_id=0)
    assert again.digest == first.digest
    assert again.totals["duplicate"] == 30


@pytest.mark.parametrize("mode", MODES)
def test_a_feature_that_jumps_by_a_million_is_refused_by_name_and_the_rest_goes_on(mode: str) -> None:
    rows, labels = cloud(11, 60)
    definition = definition_for(mode, fit_grid(rows).steps.tolist())
    stream, spared = TortureStream(definition), TortureStream(definition)
    stream.take(rows[:40], labels[:40])
    spared.take(rows[:40], labels[:40])
    jumped = rows[40:].copy()
    jumped[::2, 1] = (np.abs(jumped[::2, 1]) + 1100.0) * 1e6
    model = stream.take(jumped, labels[40:])
    assert model.totals["refused bad value"] == 10
    letters = stream.letters()
    assert [letter.row for letter in letters] == list(range(0, 20, 2))
    for letter in letters:
        assert letter.kind == "bad value"
        assert "feature 'f1' is" in letter.reason
        assert "outside the grid's range" in letter.reason
    spared.take(jumped[1::2], labels[41::2])
    assert spared.model is not None
    assert model.digest == spared.model.digest
    assert planes_of(model) == planes_of(spared.model)


def test_raw_units_of_a_year_and_of_a_billionth_are_right_to_nine_digits() -> None:
    rows, labels = cloud(12, 40)
    values = rows * [2.0**-40, 2.0**20] + [2024.0, 0.0]
    options = SolverOptions(standardize=False, C=1e6)
    definition = definition_for("plain", [2.0**-40, 2.0**20], 40, [2024.0, 0.0], solver=options)
    found = plane(TortureStream(definition).take(values, labels))
    quantized, _ = definition.grid.quantize(values)
    expected = exact_plane(quantized, np.array(labels) == "yes", definition.grid, options)
    np.testing.assert_allclose([*found.weights[0], *found.biases], expected, rtol=1e-9)
