"""What the benchmark of probabilities measures, on numbers whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.made import clouds
from deltaplane_benchmarks.experiments.calibration import (
    ROWS_BEFORE,
    OnlinePlatt,
    expected_error,
    log_loss,
    run_stream,
)
from deltaplane_benchmarks.experiments.streams import StreamTask


def test_the_error_is_how_far_what_was_said_is_from_what_came() -> None:
    said = np.repeat([[0.8, 0.2], [0.1, 0.9]], 10, axis=0)
    truths = np.array([1, 1] + [0] * 8 + [1] * 7 + [0] * 3)
    assert expected_error(said, truths) == pytest.approx(0.5 * 0.0 + 0.5 * 0.2)
    of_three = np.tile([0.2, 0.5, 0.3], (10, 1))
    assert expected_error(of_three, np.array([1] * 4 + [0] * 6)) == pytest.approx(0.1)


def test_the_loss_is_that_of_the_class_that_came() -> None:
    said = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert log_loss(said[:1], np.array([1])) == pytest.approx(-np.log(0.75))
    assert log_loss(said[1:], np.array([1])) == pytest.approx(-np.log(1e-6))


def test_online_platt_scaling_finds_the_curve_that_it_is_made_for() -> None:
    random = np.random.default_rng(3)
    scores = random.normal(size=20_000)
    own = random.random(20_000) < 1.0 / (1.0 + np.exp(-(2.0 * scores - 1.0)))
    learner = OnlinePlatt()
    learner.learn(scores, own)
    found = learner.probabilities(np.array([-1.0, 0.5, 2.0]))
    np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-np.array([-3.0, 0.0, 3.0]))), atol=0.03)


@pytest.mark.parametrize("positive", ["b", "a", None])
def test_a_stream_of_known_chances_has_probabilities_near_them(positive: str | None) -> None:
    data = clouds("made", {"a": 3000, "b": 3000}, 3, apart=0.7, seed=1)
    order = np.random.default_rng(2).permutation(6000)
    data = replace(data, features=data.features[order], labels=data.labels[order])
    found = run_stream(data, StreamTask("made", positive, 200))
    assert len(found.truths) == 6000 - ROWS_BEFORE
    np.testing.assert_allclose(found.ours.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.platt.sum(axis=1), 1.0, rtol=1e-12)
    assert expected_error(found.ours, found.truths) < 0.05
    assert log_loss(found.ours, found.truths) < 0.6
