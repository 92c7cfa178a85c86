"""A model as ONNX, run by ONNX Runtime: the classes and the decision values of the core, for ten thousand rows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import model_tables
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.cli import kafka_commands, main
from deltaplane_services.operations import model_listing
from deltaplane_services.operations.onnx_export import onnx_model
from exported_streams import PLAIN, fixtures_of, model_of

ROWS = 10_000


stream, model = fixtures_of()


def rows() -> Floats:
    """Rows of which some have values that are missing, infinite, or outside the grid."""
    made = np.random.default_rng(4).normal(size=(ROWS, 3)) * 2.0
    made[::20, 0], made[1::20, 1], made[2::20, 2], made[3::20, 2] = np.nan, np.inf, 2.0**30, -1e300
    made[4::20, 2], made[5::20] = 2.0**30 - 1, 0.0
    return made


def run(data: bytes, features: Floats) -> Any:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(["class", "decision", "answered"], {"features": features})


def test_ten_thousand_rows_have_the_answers_of_the_core(stream: StreamDefinition, model: Model) -> None:
    assert model.plane is not None
    classes, decisions, answered = run(onnx_model(model_tables(model, stream)), rows())
    expected = answer(model.plane, stream, rows())
    fits = expected.chosen >= 0
    assert ROWS // 2 < np.count_nonzero(fits) < ROWS
    assert np.array_equal(answered, fits)
    assert [label or None for label in classes.tolist()] == expected.classes
    assert len(set(expected.classes)) == len(stream.classes.names) + 1
    # The largest difference that there is, of all kinds of maps, is none.
    assert np.abs(decisions[fits] - expected.values[fits]).max() == 0.0


def test_probabilities_are_those_of_the_model(stream: StreamDefinition, model: Model) -> None:
    session = onnxruntime.InferenceSession(onnx_model(model_tables(model, stream)), providers=["CPUExecutionProvider"])
    (found,) = session.run(["probability"], {"features": rows()})
    assert model.plane is not None
    answers = answer(model.plane, stream, rows()).of_model(model)
    assert answers.probabilities is not None
    assert len(np.unique(found[:, 0])) > 10
    np.testing.assert_allclose(found, answers.probabilities, rtol=0.0, atol=3e-16, equal_nan=True)


def test_a_model_without_probabilities_has_no_such_output(stream: StreamDefinition, model: Model) -> None:
    loaded = onnx.load_from_string(onnx_model(model_tables(replace(model, calibration=None), stream)))
    assert [one.name for one in loaded.graph.output] == ["class", "decision", "answered"]


def test_a_row_has_the_same_answer_alone(stream: StreamDefinition, model: Model) -> None:
    data, some = onnx_model(model_tables(model, stream)), rows()[100:140]
    together = run(data, some)
    for at in range(0, len(some), 7):
        alone = run(data, some[at : at + 1])
        assert alone[0][0] == together[0][at]
        assert alone[1].tobytes() == together[1][at : at + 1].tobytes()


def test_a_graph_says_which_model_it_is(stream: StreamDefinition, model: Model) -> None:
    loaded = onnx.load_from_string(onnx_model(model_tables(model, stream)))
    said = {one.key: one.value for one in loaded.metadata_props}
    assert (said["stream"], said["version"], said["digest"]) == (stream.name, str(model.version), model.digest)
    assert said["data_fingerprint"] == stream.data_fingerprint.hex()
    assert json.loads(said["features"]) == list(stream.features)
    assert model.plane is not None
    positive = model.plane.positive
    assert json.loads(said["decisions_of"]) == (list(model.plane.classes) if positive is None else [positive])


def test_a_model_without_a_plane_is_refused() -> None:
    stream = StreamDefinition.from_tables(PLAIN)
    with pytest.raises(DefinitionError, match="there is no plane yet"):
        onnx_model(model_tables(model_of(stream), stream) | {"weights": None})


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``model export`` of a model that lies on no topic, with some words more."""
    stream = StreamDefinition.from_tables(PLAIN)
    path = tmp_path / "stream.toml"
    path.write_text(
        'name = "stream"\n[features]\nnames = ["height", "weight", "age"]\n[grid]\nsteps = [0.0009765625, 0.125, 1.0]\n'
        'offsets = [0.0, 2.0, 0.0]\n[classes]\nnames = ["no", "yes"]\npositive = "yes"\n[window]\nlength = "all"\n'
        "[solver]\nC = 1.0\n",
        "utf-8",
    )
    monkeypatch.setattr(model_listing, "newest_model", lambda _: model_of(stream))
    monkeypatch.setattr(kafka_commands, "check", lambda *_: None)

    def call(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["deltaplane", "model", "export", "--definition", str(path), *words])
        main()

    return call


def test_the_command_writes_either_form_to_a_file(command: Any, tmp_path: Path) -> None:
    for form in ("json", "onnx"):
        with pytest.raises(SystemExit) as ended:
            command("--format", form, "--out", str(tmp_path / form))
        assert ended.value.code == 0
    tables = json.loads((tmp_path / "json").read_text("utf-8"))
    assert run((tmp_path / "onnx").read_bytes(), rows())[0].tolist() == run(onnx_model(tables), rows())[0].tolist()


def test_without_the_extra_the_command_says_which_it_is(
    command: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "deltaplane_services.operations.onnx_export")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SystemExit) as ended:
        command("--format", "onnx")
    assert ended.value.code == 2
    told = "deltaplane: model export --format onnx needs onnx: pip install 'deltaplane[export]'\n"
    assert capsys.readouterr().err == told
