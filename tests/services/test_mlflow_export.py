"""A model in MLflow's format: the files that MLflow reads, and the answers of the core from what it loads."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from deltaplane.errors import DefinitionError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import model_tables
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.cli import main
from deltaplane_services.operations import model_listing
from deltaplane_services.operations.mlflow_model import mlflow_files
from exported_streams import fixtures_of

NAMES = ("binary", "three classes", "missing values filled in", "mixed")


stream, model = fixtures_of(*NAMES)


def loaded(directory: Path, described: dict[str, Any]) -> Any:
    """What MLflow does with a directory: the module that is named loads what is said to be the data."""
    flavor = described["flavors"]["python_function"]
    return importlib.import_module(flavor["loader_module"])._load_pyfunc(str(directory / flavor["data"]))


def written(directory: Path, files: dict[str, str]) -> dict[str, Any]:
    for name, text in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text, "utf-8")
    described: dict[str, Any] = YAML(typ="safe", pure=True).load((directory / "MLmodel").read_text("utf-8"))
    return described


def test_what_is_loaded_answers_as_the_model_does(stream: StreamDefinition, model: Model, tmp_path: Path) -> None:
    assert model.plane is not None
    described = written(tmp_path, mlflow_files(model_tables(model, stream), stream))
    rows = np.random.default_rng(1).normal(size=(60, 3))
    rows[7, 1] = 2.0**40
    expected = answer(model.plane, stream, rows).of_model(model)
    records = [dict(zip(stream.features, row, strict=True)) for row in rows.tolist()]
    told = loaded(tmp_path, described).columns(records)
    assert told["class"] == expected.classes
    assert told["refusal"][7] == expected.refusals[7]
    for row in (0, 1, 59):
        for label, value in expected.decisions(row).items():
            assert told[f"decision_{label}"][row] == value
            assert told[f"probability_{label}"][row] == expected.probabilities_of(row)[label]
    outputs = [one["name"] for one in json.loads(described["signature"]["outputs"])]
    assert outputs == list(told)


def test_the_description_has_signature_digest_and_definition(
    stream: StreamDefinition, model: Model, tmp_path: Path
) -> None:
    files = mlflow_files(model_tables(model, stream), stream)
    assert files == mlflow_files(model_tables(model, stream), stream), "one model has one description"
    described = written(tmp_path, files)
    metadata = described["metadata"]
    assert metadata["deltaplane_digest"] == model.digest
    assert metadata["deltaplane_version"] == str(model.version)
    again = StreamDefinition.from_tables(json.loads(metadata["deltaplane_definition"]))
    assert again.stream_fingerprint == stream.stream_fingerprint
    inputs = json.loads(described["signature"]["inputs"])
    assert [one["name"] for one in inputs] == list(stream.features)
    assert {one["required"] for one in inputs} == {stream.missing != "offset"}
    assert len(described["model_uuid"]) == 32


def test_a_frame_of_pandas_comes_back_where_there_is_one(
    stream: StreamDefinition, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pandas(ModuleType):
        DataFrame: Any = staticmethod(dict)

    monkeypatch.setitem(sys.modules, "pandas", Pandas("pandas"))
    described = written(tmp_path, mlflow_files(model_tables(model, stream), stream))
    found = loaded(tmp_path, described).predict([dict.fromkeys(stream.features, 0.5)])
    assert found["refusal"] == [None]


def test_a_model_without_a_plane_is_refused(stream: StreamDefinition, model: Model) -> None:
    with pytest.raises(DefinitionError, match="there is no plane yet"):
        mlflow_files({**model_tables(model, stream), "weights": None}, stream)


def test_the_command_writes_a_directory_once_and_whole(
    stream: StreamDefinition,
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from deltaplane_services.cli import kafka_commands  # noqa: PLC0415
    from deltaplane_services.definition_file.toml_writer import as_toml  # noqa: PLC0415

    monkeypatch.setattr(model_listing, "newest_model", lambda _: model)
    monkeypatch.setattr(kafka_commands, "check", lambda *_: None)
    definition, out = tmp_path / "s.toml", tmp_path / "market"
    definition.write_text(as_toml(stream.to_tables()))

    def call(*words: str) -> tuple[Any, str]:
        line = ["deltaplane", "model", "export", "--definition", str(definition), "--format", "mlflow", *words]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    assert call("--out", str(out))[0] == 0
    names = sorted(str(one.relative_to(out)) for one in out.rglob("*") if one.is_file())
    assert names == ["MLmodel", "data/definition.json", "data/model.json", "python_env.yaml", "requirements.txt"]
    for words, told in (
        (("--out", str(out)), "is there already; name a directory that is not"),
        (("--out", str(tmp_path / "none" / "market")), "make the directory first"),
        ((), "give --out DIRECTORY"),
    ):
        code, said = call(*words)
        assert code == 2
        assert told in said
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
