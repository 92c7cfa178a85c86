"""Which models a reader takes: none that the stream cannot have, and of two the one with the higher version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.model import Model
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane.wire import read_model, write_model
from golden.wire_examples import MODEL, MODEL_BLENDED, MODEL_OF_THREE, MODEL_REFUSED, PLANE, with_fields
from strategies_streams import definition_of

STREAM = definition_of("7d", features=2, classes=ClassDefinition(("DOWN", "UP"), "UP"))
NARROW = replace(PLANE, weights=PLANE.weights[:, :1])


def of_stream(model: Model, **changes: Any) -> Model:
    return replace(model, stream_fingerprint=STREAM.stream_fingerprint, **changes)


@pytest.mark.parametrize("model", [MODEL, MODEL_BLENDED, MODEL_REFUSED])
def test_a_model_of_the_stream_is_taken(model: Model) -> None:
    of_stream(model).check(STREAM)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (MODEL, DefinitionMismatch, "use the definition that the stream was made with"),
        (of_stream(MODEL, plane=NARROW), WireError, r"model 18: expected planes over 2 features, got \[1\]"),
        (of_stream(MODEL_OF_THREE), WireError, "expected planes of up to 2 classes, got 3"),
        (of_stream(MODEL, watermark=2**62), WireError, "expected a watermark below"),
    ],
)
def test_a_model_that_the_stream_cannot_have_is_refused_by_name(
    model: Model, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        model.check(STREAM)


def test_a_blend_over_other_features_is_refused_even_where_there_is_no_plane() -> None:
    assert MODEL_BLENDED.blend is not None
    narrow = {
        target: replace(candidates, weights=candidates.weights[..., :1])
        for target, candidates in MODEL_BLENDED.blend.of.items()
    }
    model = of_stream(MODEL_BLENDED, plane=None, blend=replace(MODEL_BLENDED.blend, of=narrow))
    with pytest.raises(WireError, match="expected planes over 2 features"):
        read_model(write_model(model)).check(STREAM)


def test_where_no_window_ends_with_time_any_watermark_will_do() -> None:
    untimed = definition_of("7", features=2, classes=ClassDefinition(("DOWN", "UP"), "UP"))
    replace(MODEL, stream_fingerprint=untimed.stream_fingerprint, watermark=2**63 - 1).check(untimed)


def test_of_two_models_the_higher_version_counts_and_of_the_highest_the_last() -> None:
    higher, highest = replace(MODEL, version=19), replace(MODEL, version=limits.MODEL_VERSION)
    assert MODEL.replaces(None)
    assert higher.replaces(MODEL)
    assert not MODEL.replaces(higher)
    assert not MODEL.replaces(replace(MODEL))
    assert highest.replaces(higher)
    assert highest.replaces(replace(highest))
    assert not higher.replaces(highest)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("version", limits.MODEL_VERSION + 1, "expected version to be at most 4611686018427387904"),
        ("version", 2**63 - 1, "expected version to be at most"),
        ("plane", {"C": np.inf}, "expected a finite C"),
        ("plane", {"sigmas": {"UP": np.nan}}, "finite class weights"),
        ("plane", {"weights": np.array([[np.nan, 1.0]]).tobytes()}, "expected finite weights"),
        ("plane", {"biases": np.array([np.inf]).tobytes()}, "expected finite weights"),
    ],
)
def test_a_model_of_impossible_values_does_not_decode(field: str, value: Any, words: str) -> None:
    if isinstance(value, dict):
        value = {**PLANE_FIELDS, **value}
    with pytest.raises(WireError, match=words):
        read_model(with_fields("model", **{field: value}))


PLANE_FIELDS = {
    "classes": ["DOWN", "UP"],
    "positive": "UP",
    "weights": PLANE.weights.tobytes(),
    "biases": PLANE.biases.tobytes(),
    "sigmas": PLANE.sigmas,
    "C": PLANE.C,
    "condition": PLANE.condition,
    "counts": PLANE.counts,
}


def test_a_watermark_that_no_row_can_have_made_is_passed_over_and_those_of_sources_that_can_be_are_not() -> None:
    position = MODEL.positions[0]
    positions = tuple(replace(position, watermark=time) for time in (900, 10_000, 1_050))
    model = replace(MODEL, watermark=10_000, positions=positions)
    assert model.believable_watermark(1_000, 50) == (1_050, 2)
    assert model.believable_watermark(1_000, 49) == (900, 3)
    assert model.believable_watermark(9_950, 50) == (10_000, 0)
    assert replace(model, positions=()).believable_watermark(0, 50) == (NO_WATERMARK, 1)
    assert replace(model, watermark=2**61, positions=()).believable_watermark(-(2**63), 2**61 - 1) == (NO_WATERMARK, 1)
