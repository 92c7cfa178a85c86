"""A model in MLflow's format for directories, and what MLflow loads from it; nothing in it is a pickle.

The directory holds the export in JSON, the definition of the stream, and a file that names this module as its loader.
So MLflow needs this package to answer, and this package needs no MLflow to write.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane import __version__
from deltaplane.columns.rules import NumberRule
from deltaplane.errors import DefinitionError
from deltaplane.log.answers import answer
from deltaplane.log.exported_model import ExportedModel, exported_model
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_of

__all__ = ["Answering", "mlflow_files"]

_MODEL, _DEFINITION = "model.json", "definition.json"


def mlflow_files(tables: Mapping[str, Any], definition: StreamDefinition) -> dict[str, str]:
    """The text of each file of the directory, by its path in it.

    ``tables`` are those of :func:`deltaplane.log.exported_model.model_tables`. The files depend on the model alone, but
    for the versions of Python and of this package. Raises :class:`DefinitionError` if there is no plane yet.
    """
    if tables["weights"] is None:
        raise DefinitionError("model: there is no plane yet that could be exported; wait for more rows")
    made = datetime.fromtimestamp(tables["created_milliseconds"] / 1000.0, UTC)
    said = ("stream", "version", "digest", "data_fingerprint", "stream_fingerprint")
    described = {
        "flavors": {
            "python_function": {
                "loader_module": __name__,
                "data": "data",
                "env": {"virtualenv": "python_env.yaml"},
                "python_version": platform.python_version(),
            }
        },
        # 32 hexadecimal digits, the same for the same model.
        "model_uuid": tables["digest"][:24] + f"{tables['version'] % 16**8:08x}",
        "utc_time_created": made.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "signature": {
            "inputs": json.dumps(_inputs(definition)),
            "outputs": json.dumps(_outputs(tables)),
            "params": None,
        },
        "metadata": {f"deltaplane_{name}": str(tables[name]) for name in said}
        | {"deltaplane_definition": json.dumps(definition.to_tables(), sort_keys=True)},
    }
    needed = [f"deltaplane=={__version__}", "pandas"]
    return {
        # JSON is YAML, too.
        "MLmodel": json.dumps(described, indent=2) + "\n",
        "python_env.yaml": json.dumps({"python": platform.python_version(), "dependencies": ["-r requirements.txt"]}),
        "requirements.txt": "\n".join(needed) + "\n",
        f"data/{_MODEL}": json.dumps(tables, indent=1, allow_nan=False) + "\n",
        f"data/{_DEFINITION}": json.dumps(definition.to_tables(), indent=1) + "\n",
    }


def _inputs(definition: StreamDefinition) -> list[dict[str, Any]]:
    """The columns of rows: numbers are doubles, all else texts; what may be missing need not be there."""
    if definition.columns is None:
        required = definition.missing != "offset"
        return [{"type": "double", "name": name, "required": required} for name in definition.features]
    kinds = ["double" if isinstance(rule, NumberRule) else "string" for rule in definition.columns.rules]
    columns = zip(definition.columns.columns, kinds, strict=True)
    return [{"type": kind, "name": name, "required": False} for name, kind in columns]


def _outputs(tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbers = [f"{what}_{label}" for what in ("decision", "probability") for label in tables["classes"]]
    return [
        {"type": "string", "name": "class", "required": False},
        *({"type": "double", "name": name, "required": False} for name in numbers),
        {"type": "string", "name": "refusal", "required": False},
    ]


class Answering:
    """An exported model as MLflow calls it."""

    def __init__(self, exported: ExportedModel, definition: StreamDefinition) -> None:
        self.exported, self.definition = exported, definition

    def columns(self, rows: Any) -> dict[str, list[Any]]:
        """What is said of each row, by column: its class, decision values, probabilities, or why it has none."""
        features, unread = features_of(self.definition, rows)
        answers = answer(self.exported.plane, self.definition, features, unread).of_model(self.exported)
        labels, each = self.exported.plane.classes, range(len(answers))
        decisions, chances = [answers.decisions(row) for row in each], [answers.probabilities_of(row) for row in each]
        return {
            "class": list(answers.classes),
            **{f"decision_{label}": [one.get(label, np.nan) for one in decisions] for label in labels},
            **{f"probability_{label}": [one.get(label, np.nan) for one in chances] for label in labels},
            "refusal": [answers.refusals.get(row) for row in each],
        }

    def predict(self, model_input: Any, params: Any = None) -> Any:
        """A data frame of pandas with a row for each row of ``model_input``; ``params`` are not used."""
        del params
        # MLflow brings it; nothing else here needs it.
        from pandas import DataFrame

        return DataFrame(self.columns(model_input))


def _load_pyfunc(data_path: str) -> Answering:
    """What MLflow calls to load the model of a directory. Raises :class:`DefinitionError` for files that are none."""
    directory = Path(data_path)
    tables, definition = (json.loads((directory / name).read_text("utf-8")) for name in (_MODEL, _DEFINITION))
    stream = StreamDefinition.from_tables(definition)
    return Answering(exported_model(tables, stream), stream)
