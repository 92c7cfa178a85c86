"""What a body asks: rows of numbers or by name, and how new the model must be. Bytes in, values out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.stream.definition import StreamDefinition

__all__ = ["BadQuestion", "Question", "records_question", "tensor_question"]

_DATATYPES = ("BOOL", "BYTES", *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "FP32", "FP64")
"""Types of tensors that are taken: all of the protocol's but FP16, which JSON clients write as FP32."""

_BESIDE_RECORDS = ("min_version", "reasons", "wait_seconds")


class BadQuestion(Exception):
    """A request that cannot be answered, whatever the model: the status, and the reason in words."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Question:
    """``rows`` as the core answers them: numbers float64[n, d], or by name; ``count`` is n.

    ``min_version``: the lowest version of a model that may answer. ``wait_seconds``: how long to wait for it, None for
    as long as is usual. ``reasons``: whether each answer is to say which columns contribute most. ``id`` and
    ``outputs``: what a tensor request wants back.
    """

    rows: Any
    count: int
    min_version: int = 0
    wait_seconds: float | None = None
    reasons: bool = False
    id: str | None = None
    outputs: tuple[str, ...] = ()


def records_question(body: bytes, most_rows: int) -> Question:
    """``{"records": [{…}, …], "min_version": 7, "wait_seconds": 1.0, "reasons": true}``, or records, or one, alone.

    Raises :class:`BadQuestion`.
    """
    asked = _json(body)
    if isinstance(asked, Mapping) and isinstance(asked.get("records"), list):
        if unknown := sorted(asked.keys() - {"records", *_BESIDE_RECORDS}):
            raise BadQuestion(
                400, f"unknown field {unknown[0]!r:.100} beside records; known: {', '.join(_BESIDE_RECORDS)}"
            )
        if not isinstance(why := asked.get("reasons", False), bool):
            raise BadQuestion(400, f"reasons: expected true or false, got {why!r:.100}")
        records, min_version, wait = asked["records"], *_patience(asked)
    else:
        records, min_version, wait, why = (asked if isinstance(asked, list) else [asked]), 0, None, False
    if not records or not all(isinstance(record, Mapping) for record in records):
        raise BadQuestion(400, 'expected {"records": [{"column": value, …}, …]} with one record and more')
    _check_rows(len(records), most_rows)
    return Question(records, len(records), min_version, wait, why)


def tensor_question(body: bytes, definition: StreamDefinition, most_rows: int, outputs: Sequence[str]) -> Question:
    """An inference request of the protocol: one tensor [n, d] of all features, or one [n] for each by its name.

    Raises :class:`BadQuestion`.
    """
    asked = _json(body)
    inputs = asked.get("inputs") if isinstance(asked, Mapping) else None
    if not isinstance(inputs, list) or not inputs or not all(isinstance(one, Mapping) for one in inputs):
        raise BadQuestion(400, 'expected {"inputs": [{"name", "shape", "datatype", "data"}, …]}')
    parameters = asked.get("parameters") or {}
    if not isinstance(parameters, Mapping):
        raise BadQuestion(400, f"parameters: expected an object, got {parameters!r:.100}")
    min_version, wait = _patience(parameters)
    wanted = tuple(str(one.get("name")) for one in asked.get("outputs") or () if isinstance(one, Mapping))
    if unknown := [name for name in wanted if name not in outputs]:
        raise BadQuestion(400, f"outputs: there is no {unknown[0]!r}; there are {', '.join(outputs)}")
    tensors = [_tensor(one) for one in inputs]
    names = definition.features if definition.columns is None else definition.columns.columns
    if len(tensors) == 1 and len(tensors[0][1]) == 2 and (len(names) > 1 or tensors[0][0] not in names):
        _, (count, width), values = tensors[0]
        if width != len(definition.features) or any(isinstance(value, str) for value in values):
            raise BadQuestion(
                400, f"inputs: expected numbers of shape [n, {len(definition.features)}], got shape [{count}, {width}]"
            )
        _check_rows(count, most_rows)
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        rows: Any = numbers.reshape(count, width)
    else:
        rows, count = _by_name(tensors, names, most_rows)
    request_id = asked.get("id")
    named = None if request_id is None else str(request_id)
    return Question(rows, count, min_version, wait, id=named, outputs=wanted)


def _by_name(tensors: list[tuple[str, list[int], list[Any]]], names: Sequence[str], most: int) -> tuple[Any, int]:
    """Columns by name, and how many rows they have."""
    given = {name: values for name, _, values in tensors}
    if len(given) < len(tensors) or (unknown := sorted(given.keys() - set(names))):
        strange = unknown[0] if len(given) == len(tensors) else "a name twice"
        raise BadQuestion(400, f"inputs: got {strange!r}; expected one tensor [n, d], or one [n] for each of {names!r}")
    counts = {len(values) for values in given.values()}
    if len(counts) > 1 or any(len(shape) > 1 and shape[1:] != [1] for _, shape, _ in tensors):
        raise BadQuestion(400, f"inputs: expected as many rows in each tensor, of shape [n], got {sorted(counts)}")
    (count,) = counts
    _check_rows(count, most)
    return [{name: values[row] for name, values in given.items()} for row in range(count)], count


def _tensor(given: Mapping[str, Any]) -> tuple[str, list[int], list[Any]]:
    """(name, shape, values in order) of one input."""
    name, shape, datatype = given.get("name"), given.get("shape"), given.get("datatype")
    where = f"input {name!r:.100}"
    if not isinstance(name, str) or datatype not in _DATATYPES:
        raise BadQuestion(400, f"{where}: expected a name and one of {', '.join(_DATATYPES)}, got {datatype!r:.100}")
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(_is_count(side) for side in shape):
        raise BadQuestion(400, f"{where}: expected a shape [n] or [n, d], got {shape!r:.100}")
    values = list(_flat(given.get("data"), where))
    if len(values) != np.prod(shape, dtype=object):
        raise BadQuestion(400, f"{where}: expected {shape} values, got {len(values)}")
    kinds = {"BYTES": str, "BOOL": bool}.get(datatype, int | float)
    for value in values:
        if value is not None and (not isinstance(value, kinds) or (kinds is not bool and isinstance(value, bool))):
            raise BadQuestion(400, f"{where}: expected values of {datatype}, got {value!r:.100}")
        if isinstance(value, int) and abs(value) >= 2**64:
            raise BadQuestion(400, f"{where}: expected a number of 64 bits, got {value!r:.40}")
    return name, shape, values


def _is_count(side: Any) -> bool:
    return isinstance(side, int) and not isinstance(side, bool) and 1 <= side < 2**31


def _flat(data: Any, where: str) -> Any:
    if not isinstance(data, list):
        raise BadQuestion(400, f"{where}: expected data as a list (JSON; no binary tensors), got {data!r:.100}")
    for row in data:
        yield from row if isinstance(row, list) else [row]


def _patience(given: Mapping[str, Any]) -> tuple[int, float | None]:
    version, wait = given.get("min_version", 0), given.get("wait_seconds")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise BadQuestion(400, f"min_version: expected a whole number from 0, got {version!r:.100}")
    if wait is not None and (isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < 1e9):
        raise BadQuestion(400, f"wait_seconds: expected a number from 0, got {wait!r:.100}")
    return version, wait


def _check_rows(rows: int, most: int) -> None:
    if rows > most:
        raise BadQuestion(413, f"expected at most {most} rows in a request, got {rows}; split it")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise BadQuestion(400, f"the body is not JSON: {str(fault)[:200]}") from None
