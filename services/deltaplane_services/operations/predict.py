"""``deltaplane predict``: the prediction of a model for each row of a file; columns are matched by name.

The rows need no class. The file is read in parts, so that memory does not grow with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane.log.answers import Answers, answer
from deltaplane.log.exported_model import ExportedModel
from deltaplane.log.model import Model
from deltaplane.log.reasons import reasons
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.system.table_files import table_writer

__all__ = ["Asked", "predict_file"]

_ROWS_AT_ONCE = 2**14

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


def predict_file(source: Path, asked: Asked, to: IO[bytes], kind: str, *, id_column: str | None, why: bool) -> int:
    """The number of rows read; a line for each of them is written to ``to`` as ``kind``, ``.csv`` or ``.parquet``.

    ``why`` adds the columns that contributed most. Raises :class:`DeltaplaneError` if the file cannot be read, or lacks
    a column of the stream.
    """
    schema = _SCHEMA if why else _SCHEMA.remove(_SCHEMA.get_field_index("reasons"))
    rows = 0
    with table_writer(kind, to, schema) as writer:
        for table in _tables(source):
            answered = _answered(table, asked, rows, id_column, why=why)
            writer.write_table(pa.Table.from_pydict({name: answered[name] for name in schema.names}, schema=schema))
            rows += table.num_rows
    return rows


def _tables(source: Path) -> Iterator[pa.Table]:
    names = source.name.lower()
    try:
        if names.endswith((".parquet", ".pq")):
            for batch in parquet.ParquetFile(source).iter_batches(_ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])
        elif names.endswith((".csv", ".csv.gz", ".tsv")):
            yield from _csv(source, "\t" if names.endswith(".tsv") else ",")
        else:
            raise DefinitionError(
                f"predict: expected a file that ends in .csv, .csv.gz, .tsv or .parquet, got {source}"
            )
    except (OSError, pa.ArrowInvalid) as fault:
        raise DeltaplaneError(f"{source}: it cannot be read: {fault}") from None


def _csv(source: Path, delimiter: str) -> Iterator[pa.Table]:
    """Every cell as text, so that column rules read it as they do elsewhere; an empty cell is missing."""
    form = csv.ParseOptions(delimiter=delimiter)
    with pa.input_stream(str(source), compression="detect") as opened:
        names = csv.open_csv(opened, parse_options=form).schema.names
    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    with pa.input_stream(str(source), compression="detect") as opened:
        reading = csv.open_csv(opened, parse_options=form, convert_options=texts)
        for batch in reading:
            yield pa.Table.from_batches([batch])


def _answered(table: pa.Table, asked: Asked, before: int, id_column: str | None, *, why: bool) -> dict[str, Any]:
    definition, plane = asked.definition, asked.plane
    if id_column is not None and id_column not in table.column_names:
        raise DefinitionError(f"predict: the file has no column {id_column!r} of ids; it has {table.column_names[:12]}")
    features, unread = features_by_name(definition, table)
    answers = answer(plane, definition, features, unread).of_model(asked.model)
    count = len(answers)
    found = reasons(plane, definition, features, answers.chosen) if why else None
    ids = (
        [None] * count
        if id_column is None
        else [None if one is None else str(one) for one in table[id_column].to_pylist()]
    )
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
