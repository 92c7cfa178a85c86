"""Rows by name on the wire: the cells of a table's columns, as people have them, which the reader encodes.

One row is a map from column to cell. A batch is a list of columns; each has its different cells once, and a code for
each row, so that a text is sent and read only once in a batch. Both forms give the same features as encoding the table
itself, bit for bit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags
from deltaplane.columns.cells import is_nothing, text_of
from deltaplane.columns.encoder import Cells, CodedCells, Encoder, RefusedCell
from deltaplane.columns.sent_cells import FIRST_NUMBER, SentCell, SentColumn, sent_column, sent_row
from deltaplane.errors import LimitExceeded, WireError
from deltaplane.log.records import NamedQuery
from deltaplane.stream.sample import Samples
from deltaplane.wire.batch_rows import (
    FINGERPRINT_BYTES,
    array_of,
    batch_message,
    head_parts,
    ids_of,
    rows_of,
    samples_of,
    texts_of,
)
from deltaplane.wire.frame import HEADER_BYTES, Fields, check_fingerprint, header, read_record, write_record
from deltaplane.wire.singles import encoded_bytes, encoded_long

__all__ = [
    "NamedSamples",
    "most_named_rows",
    "named_batch",
    "named_features",
    "one_named_sample",
    "subjects_of",
    "write_named_query",
    "write_named_sample",
    "write_named_sample_batch",
]

_KINDS = {1: "<u1", 2: "<u2", 4: "<u4"}
_BATCH = "named_sample_batch"

# One row -------------------------------------------------------------------------------------------------------------


def write_named_sample(
    sample_id: str, event_time: int, label: str, row: Mapping[str, Any], columns: Encoder, data_fingerprint: bytes
) -> bytes:
    """One ``NamedSample`` message; ``event_time`` is in milliseconds since the epoch, ``row`` is column to cell.

    ``columns`` is the definition's encoder. Raises :class:`deltaplane.errors.RowsRefused` for a column without a rule,
    and for a cell that no message can carry. Raises :class:`WireError` if another field does not fit its type.
    """
    cells = sent_row(row, columns)
    try:
        named = (*encoded_bytes(sample_id.encode()), encoded_long(event_time), *encoded_bytes(label.encode()))
        message = b"".join((header("named_sample"), data_fingerprint, *named, *_cell_parts(cells)))
    except (AttributeError, OverflowError, TypeError, UnicodeEncodeError):
        message = b""
    if len(data_fingerprint) == FINGERPRINT_BYTES and 0 < len(message) <= limits.MESSAGE_BYTES:
        return message
    # The fast way does not take these fields: the general encoder, five times as slow, says what is wrong.
    fields = {"fingerprint": data_fingerprint, "id": sample_id, "event_time": event_time, "label": label}
    return write_record("named_sample", {**fields, "cells": cells})


def _cell_parts(cells: Mapping[str, SentCell]) -> Iterator[bytes | memoryview]:
    """The parts of an Avro map of cells: their number; for each its name, a byte for its type, and itself; a zero."""
    if cells:
        yield encoded_long(len(cells))
    for name, cell in cells.items():
        yield from encoded_bytes(name.encode())
        match cell:
            case None:
                yield b"\x00"
            case bool():
                yield b"\x02\x01" if cell else b"\x02\x00"
            case int():
                yield b"\x04"
                yield encoded_long(cell)
            case float():
                yield b"\x06"
                yield struct.pack("<d", cell)
            case _:
                yield b"\x08"
                yield from encoded_bytes(cell.encode())
    yield b"\0"


def write_named_query(query: NamedQuery, columns: Encoder) -> bytes:
    """One ``NamedQuery`` message. Raises as :func:`write_named_sample` does."""
    cells = sent_row(query.cells, columns)
    return write_record("named_query", {"fingerprint": query.data_fingerprint, "id": query.id, "cells": cells})


def one_named_sample(fields: Fields, columns: Encoder, at: tuple[int, int]) -> Samples:
    """The row of a decoded ``NamedSample``; ``at`` is (offset, time at which it was appended, in milliseconds)."""
    return _encoded([fields], [at], columns)


class NamedSamples:
    """Gathers ``NamedSample`` messages, since many rows are cheaper to encode together.

    ``columns`` is the definition's encoder; if it is None, no message is taken.
    """

    def __init__(self, columns: Encoder | None, data_fingerprint: bytes) -> None:
        self._columns = columns
        self._fingerprint = data_fingerprint
        self._fields: list[Fields] = []
        self._at: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._fields)

    def take(self, data: bytes | None, offset: int, log_time: int) -> bool:
        """Whether a message was taken, which lies at ``offset`` and was appended at ``log_time``, in milliseconds.

        A message of another kind is not taken. Raises :class:`WireError` if it does not decode, and
        :class:`DefinitionMismatch` if it was made under another definition.
        """
        if self._columns is None or data is None or not data.startswith(header("named_sample")):
            return False
        name, fields = read_record(data, ("named_sample",))
        check_fingerprint(name, fields["fingerprint"], self._fingerprint)
        self._fields.append(fields)
        self._at.append((offset, log_time))
        return True

    def samples(self) -> Samples:
        """The rows that were taken since the last call, as one batch."""
        assert self._columns is not None, "nothing was taken without them"
        samples = _encoded(self._fields, self._at, self._columns)
        self._fields, self._at = [], []
        return samples


def _encoded(sent: Sequence[Fields], at: Sequence[tuple[int, int]], columns: Encoder) -> Samples:
    encoded = columns.encode_records([one["cells"] for one in sent])
    table = {label: code for code, label in enumerate(dict.fromkeys(one["label"] for one in sent))}
    return Samples(
        ids=[one["id"] for one in sent],
        event_times=np.array([one["event_time"] for one in sent], dtype=np.int64),
        label_table=tuple(table),
        label_codes=np.array([table[one["label"]] for one in sent], dtype=np.int32),
        features=encoded.features,
        offsets=np.array([offset for offset, _ in at], dtype=np.int64),
        rows=np.zeros(len(sent), dtype=np.int64),
        log_times=np.array([log_time for _, log_time in at], dtype=np.int64),
        unread=encoded.reasons,
    )


# Many rows -----------------------------------------------------------------------------------------------------------


def most_named_rows(columns: Encoder) -> int:
    """The most rows by name of one batch; it is lower for wide rows, since small batches could become huge tables."""
    return min(limits.BATCH_ROWS, limits.NAMED_FEATURES // len(columns.features))


def named_features(data: bytes | None, columns: Encoder | None) -> int:
    """The number of feature values that a batch by name would become, read from its beginning; 0 for other messages."""
    head = header(_BATCH)
    if columns is None or data is None or not data.startswith(head):
        return 0
    rows = shift = 0
    for byte in data[HEADER_BYTES + 16 : HEADER_BYTES + 21]:
        rows |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return min(rows >> 1, most_named_rows(columns)) * len(columns.features)


def write_named_sample_batch(
    samples: Samples, table: Mapping[str, Cells], columns: Encoder, data_fingerprint: bytes
) -> bytes:
    """One ``NamedSampleBatch`` message, with ids, times and labels of ``samples``; their features are ignored.

    ``table`` leads from column to the cells of the same n rows, and ``columns`` is the definition's encoder. Columns of
    the table without a rule are ignored. Columns that the table lacks count as missing in every row. Raises
    :class:`deltaplane.errors.RowsRefused` for a cell that no message can carry, :class:`LimitExceeded` for more rows
    than :func:`most_named_rows`, and :class:`WireError` for what no batch can hold.
    """
    most = most_named_rows(columns)
    if len(samples) > most:
        raise LimitExceeded(
            f"{_BATCH}: expected at most {most:,} rows of {len(columns.features):,} features, got {len(samples):,};"
            " split the batch"
        )
    parts = head_parts(_BATCH, samples, data_fingerprint)
    rules = [rule for rule in columns.rules if rule.column in table]
    if rules:
        parts.append(encoded_long(len(rules)))
    for rule in rules:
        cells = table[rule.column]
        assert len(cells) == len(samples), f"column {rule.column!r} has as many cells as there are rows"
        parts.extend(_column_parts(rule.column, sent_column(cells, rule)))
    return batch_message(_BATCH, [*parts, b"\0"])


def _column_parts(name: str, column: SentColumn) -> list[bytes | memoryview]:
    texts = [text.encode() for text in column.texts]
    if any(len(text) >= 2**16 for text in texts):
        raise LimitExceeded(
            f"{_BATCH}: column {name!r} has a text of {max(map(len, texts)):,} bytes, expected less than 65,536;"
            " shorten it"
        )
    codes = b"" if column.codes is None else column.codes.astype(_KINDS[column.code_bytes]).tobytes()
    return [
        *encoded_bytes(name.encode()),
        *encoded_bytes(column.numbers.astype("<f8", copy=False).tobytes()),
        *encoded_bytes(struct.pack(f"<{len(texts)}H", *map(len, texts))),
        *encoded_bytes(b"".join(texts)),
        *encoded_bytes(codes),
    ]


def named_batch(fields: Fields, columns: Encoder, at: tuple[int, int]) -> Samples:
    """The rows of a decoded ``NamedSampleBatch``; ``at`` is (offset, time at which it was appended, in milliseconds).

    Raises :class:`WireError` if its columns do not fit each other, or there are more rows than :func:`most_named_rows`.
    """
    rows, most = rows_of(_BATCH, fields["rows"]), most_named_rows(columns)
    if rows > most:
        raise WireError(
            f"{_BATCH}: expected at most {most:,} rows of {len(columns.features):,} features, got {rows:,};"
            " split the batch"
        )
    table: dict[str, Cells] = {}
    without_rule: dict[int, RefusedCell] = {}
    names = [column["name"] for column in fields["columns"]]
    if len(set(names)) < len(names):
        raise WireError(f"{_BATCH}: expected columns of different names, got one twice; rename it")
    for column in fields["columns"]:
        name, cells = column["name"], _cells(column, rows)
        if columns.rule_of(name) is not None:
            table[name] = cells
            continue
        reason = columns.without_rule(name)
        for row in np.flatnonzero(_there(cells)).tolist():
            without_rule.setdefault(row, RefusedCell(row, name, reason))
    nothing = CodedCells((None,), np.zeros(rows, dtype=np.intp))
    encoded = columns.encode({name: table.get(name, nothing) for name in columns.columns}, without_rule)
    return samples_of(_BATCH, fields, encoded.features, at, encoded.reasons)


def _cells(column: Fields, rows: int) -> Cells:
    """The n = ``rows`` cells of a decoded column. Raises :class:`WireError` if its parts do not fit each other."""
    name = f"{_BATCH}: column {column['name']!r:.100}"
    numbers = array_of(name, column, "numbers", "<f8", len(column["numbers"]) // 8)
    texts = len(column["text_lengths"]) // 2
    lengths = array_of(name, column, "text_lengths", "<u2", texts)
    if not column["codes"]:
        if texts or column["texts"] or len(numbers) != rows:
            raise WireError(f"{name}: expected codes, or {rows} numbers alone, got {len(numbers)} and {texts} texts")
        return numbers.astype(np.float64)
    width, rest = divmod(len(column["codes"]), rows)
    if rest or width not in _KINDS:
        raise WireError(f"{name}: expected codes of 1, 2 or 4 bytes for {rows} rows, got {len(column['codes'])} bytes")
    if len(numbers) + texts > rows:
        raise WireError(f"{name}: expected at most {rows} different cells, one a row, got {len(numbers) + texts}")
    codes = np.frombuffer(column["codes"], dtype=_KINDS[width]).astype(np.intp)
    read = texts_of(name, "text", lengths, column["texts"]) if texts else []
    cells: list[SentCell] = [None, False, True, *numbers.tolist(), *read]
    if int(codes.max()) >= len(cells):
        raise WireError(f"{name}: code {int(codes.max())} points beyond the {len(cells) - FIRST_NUMBER} cells sent")
    return CodedCells(cells, codes)


def subjects_of(data: bytes | None, column: str, data_fingerprint: bytes) -> list[tuple[str, str | None]]:
    """The id of each row by name of a message, and what it has in a column as text; None if it has nothing there.

    Empty for a message of another kind, whose rows have no such column. Raises :class:`WireError` if it does not
    decode, and :class:`DefinitionMismatch` if it was made under another definition.
    """
    if data is None or not data.startswith((header("named_sample"), header(_BATCH))):
        return []
    name, fields = read_record(data, ("named_sample", _BATCH))
    check_fingerprint(name, fields["fingerprint"], data_fingerprint)
    if name == "named_sample":
        return [(fields["id"], _as_text(fields["cells"].get(column)))]
    rows = rows_of(_BATCH, fields["rows"])
    found = next((_cells(one, rows) for one in fields["columns"] if one["name"] == column), None)
    ids = ids_of(_BATCH, fields, rows)
    if found is None:
        return [(sample_id, None) for sample_id in ids]
    if isinstance(found, CodedCells):
        texts = [_as_text(cell) for cell in found.cells]
        return [(sample_id, texts[code]) for sample_id, code in zip(ids, found.codes.tolist(), strict=True)]
    return [(sample_id, _as_text(cell)) for sample_id, cell in zip(ids, np.asarray(found).tolist(), strict=True)]


def _as_text(cell: SentCell) -> str | None:
    """The cell as the rule of a subject reads it; None if it is missing or no text."""
    try:
        return None if is_nothing(cell) else text_of(cell, limits.ID_BYTES)
    except ValueError:
        return None


def _there(cells: Cells) -> Flags:
    """bool[n]: which rows of a column have a cell that is not missing."""
    if isinstance(cells, CodedCells):
        return np.asarray(cells.codes != 0, dtype=np.bool_)
    return np.asarray(~np.isnan(np.asarray(cells, dtype=np.float64)), dtype=np.bool_)
