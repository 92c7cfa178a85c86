"""An exported model, read with NumPy alone by the program on the page about it: the scorer's answers, bit for bit."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.log.answers import answer
from deltaplane.log.model import Model
from deltaplane.log.records import Prediction, Query
from deltaplane.stream.component_tables import prior_of
from deltaplane.stream.declared import DeclaredPrior
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_answer, write_query
from deltaplane_services.definition_file.definition_tables import read_prior
from deltaplane_services.operations.model_listing import model_as_json
from deltaplane_services.processors.messages import QUERIES, Record
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.system.printable import json_text
from exported_streams import PLAIN, fixtures_of
from golden.wire_examples import MODEL_REFUSED, same
from tidy.sources import TOP

stream, model = fixtures_of()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The program on the page."""
    blocks = re.findall(r"```python\n(.*?)```", (TOP / "docs" / "export.md").read_text("utf-8"), re.DOTALL)
    (text,) = (block for block in blocks if "def answer(" in block)
    assert set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) == {"json", "numpy"}
    path = tmp_path_factory.mktemp("page") / "page.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("page", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def queries() -> Floats:
    """200 rows, of which some have values that are missing, infinite, or outside the grid."""
    rows = np.random.default_rng(4).normal(size=(200, 3)) * 2.0
    rows[::20, 0], rows[1::20, 1], rows[2::20, 2], rows[3::20, 2] = np.nan, np.inf, 2.0**30, -1e300
    rows[4::20, 2] = 2.0**30 - 1
    return rows


def test_the_program_on_the_page_gives_every_row_the_answer_of_the_scorer(
    stream: StreamDefinition, model: Model, page: ModuleType
) -> None:
    exported = json.loads(json_text(model_as_json(model, stream)), parse_constant=pytest.fail)
    assert model.plane is not None

    classes, decisions = page.answer(exported, queries())

    expected = answer(model.plane, stream, queries())
    assert classes == expected.classes
    fits = [row for row in range(len(expected)) if row not in expected.refusals]
    assert 100 < len(fits) < 190
    assert decisions[fits].tobytes() == expected.values[fits].tobytes()
    assert len(set(classes) - {None}) == len(stream.classes.names)

    scorer = ScorerProcessor(stream)
    scorer.see_model(model)
    asked = [write_query(Query(f"{at}", row, stream.data_fingerprint)) for at, row in enumerate(queries())]
    told = scorer.process([Record(QUERIES, 0, at, 0, None, value) for at, value in enumerate(asked)]).then
    answers = [read_answer(one.value) for one in told]
    assert classes == [one.predicted if isinstance(one, Prediction) else None for one in answers]


def test_intercepts_are_to_be_added_as_everybody_expects(stream: StreamDefinition, model: Model) -> None:
    exported = json.loads(json_text(model_as_json(model, stream)))
    assert model.plane is not None
    rows = np.random.default_rng(5).normal(size=(200, 3))
    inputs, _ = stream.plane_inputs(rows)
    decisions = inputs @ np.array(exported["weights"]).T + exported["intercepts"]
    np.testing.assert_allclose(decisions, answer(model.plane, stream, rows).values, rtol=1e-9, atol=1e-12)
    assert not {"bias", "biases"} & exported.keys(), "whoever reads these by the old rule reads them wrong"


def test_an_export_is_the_prior_that_its_plane_is(stream: StreamDefinition, model: Model, tmp_path: Path) -> None:
    plane = model.plane
    assert plane is not None
    exported = json.loads(json_text(model_as_json(model, stream)))
    earlier = {key: value for key, value in exported.items() if key not in {"format", "format_version", "intercepts"}}
    for number, written in enumerate((exported, {**earlier, "biases": plane.biases.tolist()})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(written), "utf-8")
        prior = prior_of(DeclaredPrior.of(read_prior(path)), stream.plane_features)
        assert prior is not None
        for name in ("classes", "positive", "weights", "biases"):
            assert same(getattr(prior, name), getattr(plane, name))


def test_a_prior_of_a_later_format_is_refused_by_its_number(
    model: Model, stream: StreamDefinition, tmp_path: Path
) -> None:
    path = tmp_path / "later.json"
    path.write_text(json.dumps(model_as_json(model, stream) | {"format_version": 3}), "utf-8")
    with pytest.raises(DefinitionError, match=r"version 3; expected 'deltaplane.log.model' up to version 2"):
        read_prior(path)


def test_an_export_without_a_plane_has_all_else() -> None:
    stream = StreamDefinition.from_tables(PLAIN)
    exported = json.loads(json_text(model_as_json(MODEL_REFUSED, stream)))
    assert [exported[key] for key in ("classes", "positive", "negative", "weights", "intercepts")] == [None] * 5
    assert exported["input"]["features"] == ["height", "weight", "age"]


def test_json_has_no_number_that_only_python_reads(stream: StreamDefinition, model: Model) -> None:
    assert model.plane is not None
    ill = replace(model, plane=replace(model.plane, condition=np.inf))
    text = json_text(model_as_json(ill, stream))
    assert json.loads(text, parse_constant=pytest.fail)["condition"] is None
