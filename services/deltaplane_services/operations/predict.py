"""``deltaplane predict``: the prediction of a model for each row of a file; columns are matched by name.

The file is of any kind that ``replay`` reads, and is read as ``replay`` reads it, except that rows need no label. It is
read in blocks, so that memory does not grow with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from deltaplane.log.answers import Answers, answer
from deltaplane.log.exported_model import ExportedModel
from deltaplane.log.model import Model
from deltaplane.log.reasons import reasons
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderOptions, RowBlock, open_rows
from deltaplane_services.system.table_files import table_writer

__all__ = ["Asked", "Predicted", "options_of", "predict_file"]

_SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "id": pa.string(),
        "predicted": pa.string(),
        "score": pa.float64(),
        "probability": pa.float64(),
        "model_version": pa.int64(),
        "reasons": pa.string(),
        "refused": pa.string(),
    }
)


@dataclass(frozen=True)
class Asked:
    """The model that rows are asked of, live or exported, with its plane and the definition of its stream."""

    definition: StreamDefinition
    plane: Plane
    model: Model | ExportedModel


@dataclass(frozen=True)
class Predicted:
    """The number of ``rows`` that were read, and ``notes`` on how the file was read."""

    rows: int
    notes: tuple[str, ...]


def predict_file(
    source: Path | str, options: ReaderOptions, asked: Asked, to: IO[bytes], kind: str, *, why: bool
) -> Predicted:
    """What was read; a line for each row is written to ``to`` as ``kind``, ``.csv`` or ``.parquet``, in their order.

    ``options`` are those of :func:`options_of`. ``why`` adds the columns that contributed most. A row that the reader
    refuses has its reason in place of a prediction. Raises :class:`ReaderError` if the file cannot be read, or lacks a
    column of the stream.
    """
    schema = _SCHEMA if why else _SCHEMA.remove(_SCHEMA.get_field_index("reasons"))
    rows = 0
    with open_rows(str(source), options) as reader, table_writer(kind, to, schema) as writer:
        for block in reader:
            answered = _answered(block, asked, rows, why=why)
            writer.write_table(pa.Table.from_pydict({name: answered[name] for name in schema.names}, schema=schema))
            rows += len(block) + len(block.refused)
        return Predicted(rows, reader.notes)


def options_of(file: DefinitionFile, definition: StreamDefinition, id_column: str | None) -> ReaderOptions:
    """The options for reading rows without labels: the columns of a stream, in the form that its file says."""
    options = reader_options(file)
    wanted = definition.features if definition.columns is None else definition.columns.columns
    return replace(
        options,
        labelled=False,
        label=None,
        id=id_column,
        time=None,
        time_unit=None,
        time_format=None,
        time_zone=None,
        features=wanted,
        ignored=(),
        # A column that is not read, such as the label, need not be there to have another name.
        renamed=tuple(pair for pair in options.renamed if pair[1] in (*wanted, id_column)),
        # The stream says what is done about a missing number.
        missing="keep",
    )


def _answered(block: RowBlock, asked: Asked, before: int, *, why: bool) -> dict[str, Any]:
    """The columns of a table with a row for each one of the block, be it refused or not, in the order of the file."""
    definition, plane = asked.definition, asked.plane
    count = len(block) + len(block.refused)
    lines = np.concatenate((block.line_numbers, np.array([row.line_number for row in block.refused], dtype=np.int64)))
    place = np.argsort(np.argsort(lines, kind="stable"), kind="stable")
    features = np.full((count, len(definition.features)), np.nan)
    features[place[: len(block)]] = block.features
    unread = {int(at): row.reason for at, row in zip(place[len(block) :], block.refused, strict=True)}
    answers = answer(plane, definition, features, unread).of_model(asked.model)
    found = reasons(plane, definition, features, answers.chosen) if why else None
    ids: list[str | None] = [None] * count
    for at, row_id in zip(place.tolist(), block.ids or (), strict=False):
        ids[at] = row_id
    return {
        "row": list(range(before + 1, before + count + 1)),
        "id": ids,
        "predicted": answers.classes,
        "score": [_plain(value) for value in _of_the_chosen(answers, answers.values)],
        "probability": [_plain(value) for value in _chances(answers)],
        "model_version": [asked.model.version] * count,
        "reasons": [None if found is None else json.dumps(dict(found.largest(row))) for row in range(count)],
        "refused": [answers.refusals.get(row) for row in range(count)],
    }


def _of_the_chosen(answers: Answers, values: Any) -> list[float]:
    if values.shape[1] == 1:
        return list(values[:, 0].tolist())
    picked = np.take_along_axis(values, np.maximum(answers.chosen, 0)[:, None], axis=1)[:, 0]
    return list(np.where(answers.chosen < 0, np.nan, picked).tolist())


def _chances(answers: Answers) -> list[float]:
    plane, found = answers.plane, answers.probabilities
    if found is None:
        return [float("nan")] * len(answers)
    if plane.positive is not None:
        return list(found[:, plane.classes.index(plane.positive)].tolist())
    return _of_the_chosen(answers, found)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value
