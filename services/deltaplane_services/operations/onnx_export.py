"""An exported model as an ONNX graph: from raw rows to classes, with missing values, the grid and the feature map.

The graph computes what the page ``docs/export.md`` computes with NumPy, operator by operator, in the same order.
Products are added from the first feature to the last, so that a decision equals the scorer's to the last bit on a
runtime that rounds as IEEE 754 does. With ``[columns]`` it begins with the cells; see
:mod:`deltaplane_services.operations.onnx_columns`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError
from deltaplane_services.operations.onnx_columns import encoded_columns, has_texts
from deltaplane_services.operations.onnx_graph import Graph

__all__ = ["OPSET", "OPSET_OF_TEXTS", "onnx_model"]

OPSET = 17
"""The version of the operator set: that of ONNX 1.12, which runtimes since 2022 read."""

OPSET_OF_TEXTS = 20
"""The version of those that match texts: that of ONNX 1.15, which runtimes since 2024 read."""

_IR_VERSIONS = {OPSET: 8, OPSET_OF_TEXTS: 9}
_OUTPUTS = ("class", "decision", "answered", "probability")


def onnx_model(tables: Mapping[str, Any], encoder: Encoder | None = None) -> bytes:
    """The bytes of an ONNX model, from the tables of :func:`deltaplane.log.exported_model.model_tables`.

    The input is ``features`` float64[n, d]; with an ``encoder``, that of the stream's ``[columns]``, there is an input
    [n] for each column, of its name, float64 or text. The outputs are ``class`` text[n], empty for a row without an
    answer; ``decision`` float64[n, p]; ``answered`` bool[n]; and, if the model has probabilities, ``probability``
    float64[n, k] of its classes, NaN for a row without an answer. Raises :class:`DefinitionError` if there is no plane,
    and for columns that ONNX cannot encode.
    """
    if tables["weights"] is None:
        raise DefinitionError("model: there is no plane yet that could be exported; wait for more rows")
    graph, given = Graph(_OUTPUTS), tables["input"]
    encoded, columns = "", None
    if encoder is None:
        rows = graph.input("features", TensorProto.DOUBLE, ["rows", len(given["features"])])
    else:
        rows, encoded, columns = encoded_columns(graph, encoder)
    if given["fill"] is not None:
        rows = graph("Where", graph("IsNaN", rows), graph.constant(given["fill"]), rows)
    grid = given["grid"]
    away = graph("Sub", rows, graph.constant(grid["offsets"]))
    quantized = graph("Round", graph("Div", away, graph.constant(grid["steps"])))
    fits = graph("Less", graph("Abs", quantized), graph.constant(float(grid["range"])))
    answered = graph.all_of(fits, len(given["features"]))
    answered = graph("And", answered, encoded) if encoded else answered
    zero = graph.constant(0.0)
    kind = tables["feature_map"]["kind"]
    own = graph("Where", answered, rows, zero) if kind in ("none", "mixed") else ""
    mapped = "" if kind == "none" else _mapped(graph, tables["feature_map"], graph("Where", answered, quantized, zero))
    values = graph("Concat", own, mapped, axis=1) if own and mapped else own or mapped
    # A cumulative sum fixes the order of addition: a row gets the same bits alone and among others.
    products = graph(
        "Mul", graph("Unsqueeze", values, graph.constant([1], np.int64)), graph.constant(tables["weights"])
    )
    sums = graph("CumSum", products, graph.constant(2, np.int64))
    width = len(tables["weights"][0])
    last = graph("Gather", sums, graph.constant(width - 1, np.int64), axis=2)
    graph("Add", last, graph.constant(tables["intercepts"]), to="decision")
    graph("Squeeze", answered, graph.constant([1], np.int64), to="answered")
    _choose(graph, tables)
    if tables["probability"] is not None:
        _calibrate(graph, tables, answered)
    opset = OPSET if encoder is None or not has_texts(encoder) else OPSET_OF_TEXTS
    return bytes(_model(graph, tables, opset, columns).SerializeToString())


def _choose(graph: Graph, tables: Mapping[str, Any]) -> None:
    """Add the nodes that choose the class of each row from its decisions."""
    positive = tables["positive"]
    if positive is None:
        at, labels = graph("ArgMax", "decision", axis=1, keepdims=0), list(tables["classes"])
    else:
        above = graph("Greater", "decision", graph.constant(0.0))
        at = graph("Squeeze", graph.cast(above, TensorProto.INT64), graph.constant([1], np.int64))
        labels = [tables["negative"], positive]
    at = graph("Where", "answered", at, graph.constant(-1, np.int64))
    graph(
        "LabelEncoder",
        at,
        to="class",
        domain="ai.onnx.ml",
        keys_int64s=list(range(len(labels))),
        values_strings=labels,
        default_string="",
    )


def _calibrate(graph: Graph, tables: Mapping[str, Any], answered: str) -> None:
    """Add the nodes that look up the probability of each class by the bin of its decision."""
    given = tables["probability"]
    away = graph("Sub", "decision", graph.constant(given["middles"]))
    scores = graph("Div", away, graph.constant(given["scales"]))
    bins = float(given["bins"])
    places = graph("Add", graph("Mul", scores, graph.constant(given["bins_per_unit"])), graph.constant(bins / 2.0))
    kept = graph("Max", graph("Min", graph("Floor", places), graph.constant(bins - 1.0)), graph.constant(0.0))
    # The curves lie one after another in one array.
    starts = [at * given["bins"] for at in range(len(given["curves"]))]
    at = graph("Add", graph.cast(kept, TensorProto.INT64), graph.constant(starts, np.int64))
    own = graph("Gather", graph.constant(np.ravel(given["curves"])), at, axis=0)
    if tables["positive"] is None:
        sums = graph("ReduceSum", own, graph.constant([1], np.int64), keepdims=1)
        chances = graph("Div", own, sums)
    else:
        parts = [graph("Sub", graph.constant(1.0), own), own]
        order = parts if tables["classes"][1] == tables["positive"] else parts[::-1]
        chances = graph("Concat", *order, axis=1)
    graph("Where", answered, chances, graph.constant(np.nan), to="probability")


def _mapped(graph: Graph, given: Mapping[str, Any], quantized: str) -> str:
    """The name of the mapped features, from rows on the grid; the weights are multiplied with these."""
    away = graph("Sub", quantized, graph.constant(given["centers"]))
    standardized = graph("Round", graph("Mul", away, graph.constant(given["inverse_scales"])))
    reach = float(given["reach"])
    kept = graph("Max", graph("Min", standardized, graph.constant(reach)), graph.constant(-reach))
    # The sums are whole numbers below 2**53, which are exact in any order.
    projected = graph(
        "Mul", graph("MatMul", kept, graph.constant(given["projections"])), graph.constant(given["factor"])
    )
    if given["kind"] == "hidden":
        bent = _sigmoid(graph, given, projected)
    else:
        bent = graph.cosines_and_sines(given["polynomial"], projected)
    if given["kind"] == "mixed":
        columns = len(given["projections"][0])
        pairs = [at for column in range(columns) for at in (column, columns + column)]
        bent = graph("Gather", bent, graph.constant(pairs, np.int64), axis=1)
    return graph("Mul", graph.cast(bent, TensorProto.DOUBLE), graph.constant(given["step"]))


def _sigmoid(graph: Graph, given: Mapping[str, Any], projected: str) -> str:
    shifted = graph.cast(graph("Add", projected, graph.constant(given["phases"])), TensorProto.FLOAT)
    reach = given["exponent_reach"]
    exponent = graph(
        "Max", graph("Min", shifted, graph.constant(reach, np.float32)), graph.constant(-reach, np.float32)
    )
    whole = graph("Round", exponent)
    power = graph("Pow", graph.constant(2.0, np.float32), whole)
    result = graph("Mul", graph.polynomial(given["polynomial"], graph("Sub", exponent, whole)), power)
    below = graph("Add", result, graph.constant(1.0, np.float32))
    return graph("Round", graph("Div", graph.constant(2.0**20, np.float32), below))


def _model(graph: Graph, tables: Mapping[str, Any], opset: int, columns: list[dict[str, Any]] | None) -> Any:
    planes = len(tables["intercepts"])
    chances = helper.make_tensor_value_info("probability", TensorProto.DOUBLE, ["rows", len(tables["classes"])])
    made = helper.make_graph(
        graph.nodes,
        "deltaplane",
        graph.inputs,
        [
            helper.make_tensor_value_info("class", TensorProto.STRING, ["rows"]),
            helper.make_tensor_value_info("decision", TensorProto.DOUBLE, ["rows", planes]),
            helper.make_tensor_value_info("answered", TensorProto.BOOL, ["rows"]),
            *([] if tables["probability"] is None else [chances]),
        ],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(made, opset_imports=opsets, producer_name="deltaplane", ir_version=_IR_VERSIONS[opset])
    said = {name: tables[name] for name in ("stream", "version", "digest", "data_fingerprint", "stream_fingerprint")}
    said |= {
        "features": tables["input"]["features"],
        "classes": tables["classes"],
        "decisions_of": [tables["positive"]] if tables["positive"] else tables["classes"],
    }
    said |= {} if columns is None else {"columns": columns}
    helper.set_model_props(
        model, {key: value if isinstance(value, str) else json.dumps(value) for key, value in said.items()}
    )
    onnx.checker.check_model(model, full_check=True)
    return model
