"""An exported model as a classifier of scikit-learn's: the answers of the core, and nothing that it could learn."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import deltaplane
from deltaplane.errors import DefinitionError, DefinitionMismatch, RowsRefused, SolveRefused
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import model_tables
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from exported_streams import PLAIN, fixtures_of

stream, model = fixtures_of()


@pytest.fixture(scope="module")
def exported(stream: StreamDefinition, model: Model) -> deltaplane.ExportedClassifier:
    return deltaplane.ExportedClassifier(json.loads(json.dumps(model_tables(model, stream))), stream)


def test_classes_and_decisions_are_those_of_the_core(
    stream: StreamDefinition, model: Model, exported: deltaplane.ExportedClassifier
) -> None:
    assert model.plane is not None
    X = np.random.default_rng(1).normal(size=(500, 3))
    expected = answer(model.plane, stream, X)
    assert exported.predict(X).tolist() == expected.classes
    decisions = exported.decision_function(X)
    assert decisions.tobytes() == expected.values.tobytes()
    chosen = decisions.argmax(axis=1) if decisions.ndim == 2 else (decisions > 0).astype(int)
    assert exported.classes_[chosen].tolist() == expected.classes
    assert (exported.version_, exported.digest_) == (model.version, model.digest)
    names = [dict(zip(stream.features, row, strict=True)) for row in X[:5].tolist()]
    assert exported.predict(names).tolist() == expected.classes[:5]


def test_probabilities_are_those_of_the_model(
    stream: StreamDefinition, model: Model, exported: deltaplane.ExportedClassifier
) -> None:
    assert model.plane is not None
    X = np.random.default_rng(1).normal(size=(500, 3))
    answers = answer(model.plane, stream, X).of_model(model)
    found = exported.predict_proba(X)
    for row in range(len(X)):
        told = dict(zip(exported.classes_.tolist(), found[row].tolist(), strict=True))
        assert told == answers.probabilities_of(row)
    unknown = json.loads(json.dumps(model_tables(replace(model, calibration=None), stream)))
    with pytest.raises(SolveRefused, match="the exported model has none"):
        deltaplane.ExportedClassifier(unknown, stream).predict_proba(X)


def test_a_damaged_calibration_is_refused_by_name(stream: StreamDefinition, model: Model) -> None:
    for change, told in (
        ({"curves": [[0.5]]}, "a curve of 128 numbers"),
        ({"middles": "x"}, r"model\.probability\.middles"),
        ({"scales": []}, "a middle, a scale and a curve"),
    ):
        tables = json.loads(json.dumps(model_tables(model, stream)))
        tables["probability"] |= change
        with pytest.raises(DefinitionError, match=told):
            deltaplane.ExportedClassifier(tables, stream)
    with pytest.raises(DefinitionError, match=r"model\.means: expected"):
        deltaplane.ExportedClassifier(model_tables(model, stream) | {"means": [1.0]}, stream)


def test_it_stands_at_the_end_of_a_pipeline_and_learns_nothing(exported: deltaplane.ExportedClassifier) -> None:
    X = np.random.default_rng(2).normal(size=(50, 3))
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows / 2), exported).fit(X, ["no"] * 50)
    assert pipeline.predict(X).tolist() == exported.predict(X / 2).tolist()


def test_a_row_without_an_answer_and_another_definition_are_refused(
    stream: StreamDefinition, model: Model, exported: deltaplane.ExportedClassifier
) -> None:
    with pytest.raises(RowsRefused, match="row 0 of 1: feature 'weight' is infinite"):
        exported.predict([[0.0, np.inf, 0.0]])
    other = StreamDefinition.from_tables(PLAIN | {"grid": {"steps": [1.0] * 3}})
    with pytest.raises(DefinitionMismatch, match="give the definition of its export"):
        deltaplane.ExportedClassifier(model_tables(model, stream), other)
