"""Answers as the two forms have them: plain JSON by row, and tensors of the Open Inference Protocol."""

from __future__ import annotations

from itertools import islice
from typing import Any

from deltaplane import __version__
from deltaplane.log.answers import Answers
from deltaplane.log.reasons import Reasons
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.serve.model_source import Served
from deltaplane_services.serve.questions import BadQuestion, Question

__all__ = ["OUTPUTS", "model_metadata", "plain_answer", "server_metadata", "tensor_answer"]

OUTPUTS = ("class", "decision", "probability")
"""Tensors of an answer. The last is left out if the model knows no probabilities yet."""

_SHOWN = 3


def plain_answer(
    served: Served, definition: StreamDefinition, answers: Answers, stale: str | None, why: Reasons | None = None
) -> dict[str, Any]:
    """Each row has a class, and its decision values and probabilities by class, or null and why it has no answer.

    Probabilities are null until the model knows some. With ``why``, the columns that contribute most are there, too.
    """
    rows = list[dict[str, Any]]()
    for row, label in enumerate(answers.classes):
        if label is None:
            rows.append({"class": None, "refusal": answers.refusals[row]})
        else:
            chances = answers.probabilities_of(row) or None
            told: dict[str, Any] = {"class": label, "decision": answers.decisions(row), "probability": chances}
            if why is not None:
                told["reasons"] = [{"column": column, "contribution": part} for column, part in why.largest(row)]
            rows.append(told)
    return {**_said_by(served, definition, stale), "predictions": rows}


def tensor_answer(
    served: Served, definition: StreamDefinition, answers: Answers, asked: Question, stale: str | None
) -> dict[str, Any]:
    """The outputs that were asked for. Raises :class:`BadQuestion` if a row has no answer: tensors have no gaps."""
    if refusals := answers.refusals:
        shown = "; ".join(f"row {row}: {reason}" for row, reason in islice(refusals.items(), _SHOWN))
        more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
        raise BadQuestion(
            400,
            f"{len(refusals)} of {len(answers)} rows have no answer: {shown}{more}; leave them out, or ask POST"
            " /predict, which answers the others",
        )
    plane, count = served.plane, len(answers)
    decided = list(plane.classes) if plane.positive is None else [plane.positive]
    tensors = {
        "class": {"name": "class", "datatype": "BYTES", "shape": [count], "data": answers.classes},
        "decision": {
            "name": "decision",
            "datatype": "FP64",
            "shape": list(answers.values.shape),
            "parameters": {"classes": decided},
            "data": answers.values.ravel().tolist(),
        },
    }
    if answers.probabilities is not None:
        tensors["probability"] = {
            "name": "probability",
            "datatype": "FP64",
            "shape": list(answers.probabilities.shape),
            "parameters": {"classes": list(plane.classes)},
            "data": answers.probabilities.ravel().tolist(),
        }
    elif "probability" in asked.outputs:
        raise BadQuestion(
            503, "the model knows no probabilities: no row of some class was scored yet; ask for class and decision"
        )
    said = _said_by(served, definition, stale)
    return {
        "model_name": definition.name,
        "model_version": str(served.version),
        **({} if asked.id is None else {"id": asked.id}),
        "parameters": {key: value for key, value in said.items() if key in ("digest", "stale") and value is not None},
        "outputs": [tensors[name] for name in asked.outputs or tensors],
    }


def _said_by(served: Served, definition: StreamDefinition, stale: str | None) -> dict[str, Any]:
    return {"model": definition.name, "version": served.version, "digest": served.digest, "stale": stale}


def server_metadata() -> dict[str, Any]:
    """What the server is; it has none of the protocol's extensions."""
    return {"name": "deltaplane", "version": __version__, "extensions": []}


def model_metadata(definition: StreamDefinition, served: Served | None) -> dict[str, Any]:
    """What the model takes and gives. Columns of tables are texts or numbers, each a tensor of its own."""
    if definition.columns is None:
        inputs = [{"name": "features", "datatype": "FP64", "shape": [-1, len(definition.features)]}]
    else:
        inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in definition.columns.columns]
    planes, classes = (-1, -1) if served is None else (len(served.plane.biases), len(served.plane.classes))
    return {
        "name": definition.name,
        "versions": [] if served is None else [str(served.version)],
        "platform": "deltaplane",
        "inputs": inputs,
        "outputs": [
            {"name": "class", "datatype": "BYTES", "shape": [-1]},
            {"name": "decision", "datatype": "FP64", "shape": [-1, planes]},
            {"name": "probability", "datatype": "FP64", "shape": [-1, classes]},
        ],
        "parameters": {"features": list(definition.features)},
    }
