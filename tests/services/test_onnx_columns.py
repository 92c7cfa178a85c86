"""A table of mixed columns as it comes, answered by ONNX Runtime as a client's live model answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import BooleanRule, CategoryRule, HashedRule, NumberRule, SubjectRule, TimeRule
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import fit_grid
from deltaplane.log.exported_model import model_tables
from deltaplane.log.model import Model
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services import client
from deltaplane_services.client import LiveModel
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.operations.onnx_export import OPSET, onnx_model
from exported_streams import PLAIN, model_of_rows

ROWS = 10_000
DAY = 86_400.0
Table = dict[str, list[Any]]

ENCODER = Encoder(
    (
        NumberRule("value_3", fill=12.5),
        NumberRule("amount", fill=20.0, log=True),
        NumberRule("age", "fill", fill=-3.25),
        NumberRule("weight", "refuse"),
        BooleanRule("known", fill=True),
        BooleanRule("class", "fill"),
        CategoryRule("country", levels=("DE", "São Tomé", "5411")),
        CategoryRule("channel", "fill", levels=("web",)),
        CategoryRule("kind", "refuse", levels=("a", "b")),
        SubjectRule("customer"),
        TimeRule("begun", zone_minutes=-330, fill=1_700_000_000_000.0),
        TimeRule("ended", "fill", parts=("day of year", "hour")),
        TimeRule("paid", "refuse", parts=("days", "weekday")),
    ),
    missing=("", "?", "NA", "-999"),
)


def table(rows: int = ROWS, seed: int = 11) -> Table:
    """Columns with everything: unknown categories, missing and infinite values, words that nobody can read."""
    random = np.random.default_rng(seed)

    def mostly(usual: Any, *strange: Any) -> list[Any]:
        found = usual.tolist() if isinstance(usual, np.ndarray) else list(usual)
        for at in np.flatnonzero(random.random(rows) < 0.1).tolist():
            found[at] = strange[random.integers(len(strange))]
        return found

    def words(*known: str) -> list[str]:
        return [known[at] for at in random.integers(len(known), size=rows)]

    times = np.rint(random.uniform(-60_000 * DAY, 60_000 * DAY, rows) * 1000.0) / 1000.0
    nan = float("nan")
    return {
        "value_3": mostly(random.normal(size=rows), nan, -999.0, 1e3),
        "amount": mostly(np.exp(random.normal(3, 4, rows)) - 5.0, nan, 0.0, -1e-12, -1e15, 3e-9),
        "age": mostly(random.integers(0, 99, rows).astype(float), nan, -999.0),
        "weight": mostly(random.normal(70, 9, rows), *[70.0] * 20, nan, float("inf")),
        "known": mostly(words("yes", "no", "TRUE", "f", "1", "0", "Y"), "", *["nO"] * 20, "perhaps"),
        "class": mostly(words("true", "false"), "?"),
        "country": mostly(words("DE", "São Tomé", "5411", "de", "FR"), "", "NA", "-999", "x" * 200),
        "channel": mostly(words("web", "app", "ß" * 99), "?"),
        "kind": mostly(words("a", "b", "c"), *["d"] * 20, "NA", "é" * 101),
        "customer": words("c1", "c2"),
        "begun": mostly(times, nan, 0.0, -0.5, 951_782_400.0, 1e18 if seed else nan, *[978_307_199.9995] * 9),
        "ended": mostly(times[::-1].copy(), nan, -999.0, -2_208_988_800.0, 4_107_542_400.0, 1_709_164_800.0),
        "paid": mostly(times * 0.1, *[1.7e9] * 20, nan),
    }


def stream_of(encoder: Encoder, cells: Table, **others: Any) -> tuple[StreamDefinition, Model]:
    """A stream of a table's columns, and the model that it makes of a hundredth of the table."""
    encoded = encoder.encode(cells)
    features = encoded.features[encoded.fits][:600]
    grid = fit_grid(features)
    tables = {name: value for name, value in PLAIN.items() if name != "features"} | {
        "columns": encoder_table(encoder),
        "grid": {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()},
        **others,
    }
    stream = StreamDefinition.from_tables(tables)
    codes = (features[:, 0] + features[:, 2] > np.median(features[:, 2])).astype(np.int32)
    if len(stream.classes.names) == 3:
        codes += features[:, 0] > 0.5
    return stream, model_of_rows(stream, features, codes)


@contextmanager
def live(stream: StreamDefinition, model: Model) -> Iterator[LiveModel]:
    """A client's model, without its broker."""
    follower = mock.Mock(stale=None, model=model, poll=lambda *_: [])
    followed = mock.patch.multiple(
        client, reader=mock.Mock(), topic_watch=mock.Mock(), ModelFollower=mock.Mock(return_value=follower)
    )
    with followed, LiveModel(cast("ServiceSettings", SimpleNamespace(definition=stream))) as made:
        yield made


def run(data: bytes, cells: Table, *outputs: str) -> Any:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    of_texts = {one.name for one in session.get_inputs() if one.type == "tensor(string)"}
    given = {
        one["input"]: np.array(cells[one["column"]], dtype=object if one["input"] in of_texts else np.float64)
        for one in columns
    }
    assert set(given) == {one.name for one in session.get_inputs()}
    return session.run(outputs or None, given)


STREAMS: dict[str, dict[str, Any]] = {
    "binary": {},
    "three classes": {"classes": {"names": ["a", "b", "c"]}},
    "automatic": {"window": {"length": "auto", "max": 2000}, "solver": {}},
}


@pytest.mark.parametrize("name", STREAMS)
def test_ten_thousand_rows_of_a_mixed_table_have_the_answers_of_a_live_model(name: str) -> None:
    cells = table()
    stream, model = stream_of(ENCODER, cells, **STREAMS[name])
    classes, decisions, answered, chances = run(onnx_model(model_tables(model, stream), stream.columns), cells)
    with live(stream, model) as made:
        expected = made.answer(cells)
    fits = expected.chosen >= 0
    assert ROWS // 2 < np.count_nonzero(fits) < ROWS * 0.99
    assert np.array_equal(answered, fits)
    assert [label or None for label in classes.tolist()] == expected.classes
    assert len(set(expected.classes)) == len(stream.classes.names) + 1
    # The largest difference that there is, of all kinds of columns, is none.
    assert np.abs(decisions[fits] - expected.values[fits]).max() == 0.0
    assert expected.probabilities is not None
    np.testing.assert_allclose(chances, expected.probabilities, rtol=0.0, atol=3e-16, equal_nan=True)


@pytest.fixture(scope="module")
def parts() -> tuple[Any, StreamDefinition, Model]:
    encoder = Encoder((NumberRule("amount", log=True), TimeRule("begun"), CategoryRule("kind", levels=("a", "b"))))
    cells = {name: table(2000, 0)[name] for name in encoder.columns}
    cells["amount"] = [abs(one) % 1e3 for one in cells["amount"]]
    stream, model = stream_of(encoder, cells)
    data = onnx_model(model_tables(model, stream), encoder)
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]), stream, model


@given(
    amounts=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    times=st.integers(-62_135_510_400_000, 253_402_214_399_999),
    small=st.floats(-1e3, 1e3),
)
def test_any_number_and_any_time_has_the_answer_of_the_live_model(
    parts: Any, amounts: list[float], times: int, small: float
) -> None:
    session, stream, model = parts
    weights = model.plane.weights
    seconds = [times / 1000.0 + at * 86_400.0 for at in range(len(amounts))]
    cells = {"amount": [*amounts, small], "begun": [*seconds, seconds[0]], "kind": ["a"] * (len(amounts) + 1)}
    given = {name: np.array(cells[name], dtype=object if name == "kind" else np.float64) for name in cells}
    decisions, answered = session.run(["decision", "answered"], given)
    with live(stream, model) as made:
        expected = made.answer(cells)
    assert np.array_equal(answered, expected.chosen >= 0)
    found = np.abs(decisions[answered] - expected.values[answered])
    # A logarithm that is in doubt, about one in 260,000, is off by 2**-32.
    assert not len(found) or found.max() <= 2.0**-32 * np.abs(weights[:, 0]).max() * 1.001


def test_a_text_with_a_blank_at_its_end_is_refused_and_not_read_as_another_level(parts: Any) -> None:
    session = parts[0]
    texts = ["a", " a", "a ", "a\t", "a b", "\na", "x" * 201]
    given = {"amount": np.ones(7), "begun": np.ones(7), "kind": np.array(texts, dtype=object)}
    assert session.run(["answered"], given)[0].tolist() == [True, False, False, False, True, False, False]


def test_an_input_has_the_name_of_its_column_unless_an_output_has_it() -> None:
    cells = table(700)
    stream, model = stream_of(ENCODER, cells)
    loaded = onnx.load_from_string(onnx_model(model_tables(model, stream), stream.columns))
    inputs = [one.name for one in loaded.graph.input]
    assert inputs == ["class of column" if name == "class" else name for name in ENCODER.columns if name != "customer"]
    names = [one for node in loaded.graph.node for one in node.output] + [one.name for one in loaded.graph.initializer]
    assert len(set(names) | set(inputs)) == len(names) + len(inputs)


def test_numbers_and_times_alone_need_no_operators_of_texts() -> None:
    encoder = Encoder((NumberRule("value_3"), NumberRule("age"), TimeRule("begun")))
    cells = {name: table(700)[name] for name in encoder.columns}
    stream, model = stream_of(encoder, cells)
    loaded = onnx.load_from_string(onnx_model(model_tables(model, stream), encoder))
    assert {one.domain: one.version for one in loaded.opset_import}[""] == OPSET


def test_a_hashed_column_is_refused_by_name_and_encoded_rows_are_not() -> None:
    encoder = Encoder((NumberRule("value_3"), NumberRule("age"), HashedRule("country", buckets=4)))
    cells = {name: table(700)[name] for name in encoder.columns}
    stream, model = stream_of(encoder, cells)
    tables = model_tables(model, stream)
    with pytest.raises(DefinitionError, match="no operator for the hash of column 'country'; make it a category"):
        onnx_model(tables, encoder)
    loaded = onnx.load_from_string(onnx_model(tables))
    assert [one.name for one in loaded.graph.input] == ["features"]
