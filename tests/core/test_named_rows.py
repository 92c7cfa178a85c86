"""Rows by name on the wire and from Python: what is written, what is refused, and what a refusal says."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.columns.encoder import CodedCells, Encoder
from deltaplane.columns.rules import CategoryRule, HashedRule, NumberRule
from deltaplane.columns.sent_cells import sent_column
from deltaplane.errors import DefinitionMismatch, LimitExceeded, RowsRefused, TableMismatch, WireError
from deltaplane.exact.grid import Grid
from deltaplane.log.records import NamedQuery
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.rows_by_name import features_by_name, is_by_name, table_by_name
from deltaplane.stream.sample import Samples, admit
from deltaplane.wire import (
    most_named_rows,
    named_features,
    query_id,
    read_query,
    read_samples,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
    write_sample_batch,
)
from deltaplane.wire.frame import write_record
from golden.wire_examples import CELLS, COLUMNS, DATA, EXAMPLES, STREAM, TABLE, header, with_fields, zigzag

WIDTH = len(COLUMNS.features)


def stream(columns: Encoder | None = COLUMNS, features: tuple[str, ...] = COLUMNS.features) -> StreamDefinition:
    width = len(features)
    grid = Grid(np.full(width, 0.5), np.zeros(width))
    nested_windows = NestedWindows((Window("all"),))
    return StreamDefinition("stream", features, grid, nested_windows, SolverOptions(), columns=columns)


def read(message: bytes, columns: Encoder = COLUMNS) -> Samples:
    return read_samples(message, len(columns.features), DATA, 5, 6, columns=columns)


def frame(rows: int) -> Samples:
    codes = np.zeros(rows, dtype=np.int32)
    return Samples.of_record([f"id-{at}" for at in range(rows)], 7, ("a",), codes, np.empty((rows, 0)))


# One row -------------------------------------------------------------------------------------------------------------


def test_a_row_by_name_has_the_bytes_of_the_avro_specification() -> None:
    by_hand = (
        *(header("named_sample"), DATA, zigzag(2), b"id", zigzag(-3), zigzag(1), b"y", zigzag(4)),
        *(zigzag(6), b"amount", zigzag(2), zigzag(-70)),
        *(zigzag(7), b"country", zigzag(4), zigzag(3), "é.".encode()),
        *(zigzag(5), b"known", zigzag(1), b"\1"),
        *(zigzag(5), b"begun", zigzag(3), np.float64(0.5).tobytes(), zigzag(0)),
    )
    row = {"amount": -70, "country": " é. ", "known": True, "begun": 0.5}
    assert write_named_sample("id", -3, "y", row, COLUMNS, DATA) == b"".join(by_hand)


@pytest.mark.parametrize("row", [{}, CELLS, {"amount": None}, {"amount": 2**70, "country": 2**63 - 1, "known": False}])
def test_the_quick_encoder_writes_what_the_general_one_writes(row: dict[str, Any]) -> None:
    cells = {name: str(cell) if cell == 2**70 else cell for name, cell in row.items() if cell is not None}
    general = write_record(
        "named_sample", {"fingerprint": DATA, "id": "ö", "event_time": 2**40, "label": "", "cells": cells}
    )
    assert write_named_sample("ö", 2**40, "", row, COLUMNS, DATA) == general


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"amuont": 1}, "column 'amuont' has no rule in columns.rules; did you mean 'amount'?"),
        ({"whatever": None}, "column 'whatever' has no rule in columns.rules; leave it out"),
        ({"country": ["DE"]}, "column 'country' is neither a number nor a text, nor true or false, nor None: ['DE']"),
        ({"country": "\ud800"}, "column 'country' is no Unicode text"),
        ({"amount": np.datetime64("2026-11-29")}, "column 'amount' is neither a number nor a text"),
    ],
)
def test_what_no_message_can_carry_is_refused_by_column_and_value(row: dict[str, Any], words: str) -> None:
    with pytest.raises(RowsRefused, match=re.escape(words)):
        write_named_sample("id", 0, "y", row, COLUMNS, DATA)
    with pytest.raises(RowsRefused, match=re.escape(words)):
        write_named_query(NamedQuery("id", row, DATA), COLUMNS)


@pytest.mark.parametrize("wrong", [("\ud800", 0, "y"), ("a", 2**63, "y"), ("a", 0, "\udfff")])
def test_an_id_a_time_or_a_label_that_avro_has_not_is_refused(wrong: tuple[str, int, str]) -> None:
    with pytest.raises(WireError, match="named_sample: expected values that its schema can hold"):
        write_named_sample(*wrong, CELLS, COLUMNS, DATA)
    with pytest.raises(WireError, match="named_sample: expected values"):
        write_named_sample("a", 0, "y", CELLS, COLUMNS, DATA[:15])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (
            {"amount": "a lot", "known": True},
            "column 'amount' is no number: 'a lot'; correct the value, count",
        ),
        ({"amount": float("inf"), "known": True}, "column 'amount' is infinite: inf; correct the value"),
        ({"country": "x" * 201, "known": True}, "column 'country' is a text of 201 bytes, and may have 200: 'xxxxx"),
        (
            {"begun": "2026-02-30", "known": True},
            "column 'begun' names a day that does not exist: '2026-02-30'; wri",
        ),
        ({"amount": 1.0}, "column 'known' is missing; leave such rows out, or fill them in"),
        ({"known": True, "nown": True}, "column 'nown' has no rule in columns.rules; did you mean 'known'?"),
    ],
)
def test_a_cell_that_cannot_be_read_refuses_its_row_with_column_value_and_cure(
    cells: dict[str, Any], reason: str
) -> None:
    samples = read(with_fields("named_sample", cells=cells))
    assert samples.unread[0].startswith(reason)
    assert np.isnan(samples.features).all()
    admitted, (refusal,) = admit(samples, stream())
    assert len(admitted) == 0
    assert (refusal.id, refusal.offset, refusal.row, refusal.kind) == ("id-1", 5, 0, "bad value")
    assert refusal.reason == samples.unread[0]


def test_an_id_or_a_label_that_is_wrong_is_told_before_a_cell() -> None:
    samples = read(with_fields("named_sample", cells={"amount": "a lot"}))
    _, (refusal,) = admit(replace(samples, ids=[""]), stream())
    assert refusal.kind == "bad id"


def test_rows_by_name_are_of_one_definition_and_need_its_columns() -> None:
    golden = EXAMPLES["named_sample"].golden()
    with pytest.raises(DefinitionMismatch, match="named_sample: expected data fingerprint"):
        read_samples(golden, WIDTH, STREAM, 0, 0, columns=COLUMNS)
    for name in ("named_sample", "named_sample_batch"):
        with pytest.raises(WireError, match=rf"{name}: expected sample_batch or sample, since .* has no \[columns\]"):
            read_samples(EXAMPLES[name].golden(), WIDTH, DATA, 0, 0)
    query = EXAMPLES["named_query"].golden()
    with pytest.raises(WireError, match=r"named_query: expected query, since .* has no \[columns\]"):
        read_query(query, WIDTH, DATA)
    assert query_id(query) == "query-1"


# Many rows -----------------------------------------------------------------------------------------------------------


def test_a_bad_row_of_a_batch_costs_no_other_row() -> None:
    table = {**TABLE, "amount": [1.0, "a lot", 3.0], "known": [True, True, None]}
    samples = read(write_named_sample_batch(frame(3), table, COLUMNS, DATA))
    admitted, refusals = admit(samples, stream())
    assert admitted.ids == ["id-0"]
    assert [(one.row, one.kind, one.reason[:30]) for one in refusals] == [
        (1, "bad value", "column 'amount' is no number: "),
        (2, "bad value", "column 'known' is missing; lea"),
    ]


def test_a_column_without_a_rule_refuses_the_rows_that_have_it() -> None:
    fields = {"name": "amuont", "numbers": np.array([1.0, np.nan, np.nan]).tobytes()}
    column = {"text_lengths": b"", "texts": b"", "codes": b"", **fields}
    coded = {**column, "name": "knwon", "numbers": b"", "codes": b"\0\1\0"}
    known = {**column, "name": "known", "numbers": b"", "codes": b"\2\2\2"}
    samples = read(with_fields("named_sample_batch", columns=[column, coded, known]))
    assert samples.unread == {
        0: "column 'amuont' has no rule in columns.rules; did you mean 'amount'?",
        1: "column 'knwon' has no rule in columns.rules; did you mean 'known'?",
    }


COLUMN = {"name": "amount", "numbers": b"", "text_lengths": b"", "texts": b"", "codes": b"\0\0\0"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([COLUMN, COLUMN], "expected columns of different names, got one twice"),
        ([{**COLUMN, "numbers": bytes(7)}], "expected 0 bytes of numbers (0 x <f8), got 7"),
        ([{**COLUMN, "text_lengths": b"\1"}], "expected 0 bytes of text_lengths"),
        ([{**COLUMN, "codes": b"\0\0"}], "expected codes of 1, 2 or 4 bytes for 3 rows, got 2 bytes"),
        ([{**COLUMN, "codes": bytes(9)}], "expected codes of 1, 2 or 4 bytes for 3 rows, got 9 bytes"),
        ([{**COLUMN, "codes": b"\0\0\3"}], "code 3 points beyond the 0 cells sent"),
        ([{**COLUMN, "codes": b"", "numbers": bytes(16)}], "expected codes, or 3 numbers alone, got 2 and 0 texts"),
        ([{**COLUMN, "codes": b"", "numbers": bytes(24), "texts": b"x"}], "expected codes, or 3 numbers alone"),
        ([{**COLUMN, "numbers": bytes(32)}], "expected at most 3 different cells, one a row, got 4"),
        ([{**COLUMN, "text_lengths": b"\2\0", "texts": b"a"}], "the text lengths add up to 2 bytes, got 1"),
        ([{**COLUMN, "text_lengths": b"\1\0", "texts": b"\xff"}], "a text is not UTF-8"),
    ],
)
def test_a_batch_whose_columns_disagree_is_refused(columns: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(WireError, match=re.escape(words)):
        read(with_fields("named_sample_batch", columns=columns))


def test_columns_that_are_not_sent_are_missing_and_more_columns_of_a_table_are_passed_over() -> None:
    columns = Encoder((NumberRule("a", fill=1.0), CategoryRule("b", levels=("x",))))
    message = write_named_sample_batch(frame(2), {"b": ["x", None], "other": [[], []]}, columns, DATA)
    assert read(message, columns).features.tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0]]
    nothing = read(write_named_sample_batch(frame(2), {}, columns, DATA), columns)
    assert nothing.features.tolist() == [[1.0, 1.0, 0.0, 0.0, 1.0]] * 2


@pytest.mark.parametrize(("different", "width"), [(253, 1), (254, 2), (65_533, 2), (65_534, 4)])
def test_codes_take_as_few_bytes_as_hold_them(different: int, width: int) -> None:
    columns = Encoder((HashedRule("text", "fill", buckets=2),))
    table = {"text": [f"t{at}" for at in range(different)]}
    column = sent_column(table["text"], columns.rules[0])
    assert column.code_bytes == width
    message = write_named_sample_batch(frame(different), table, columns, DATA)
    assert read(message, columns).features.tobytes() == columns.encode(table).features.tobytes()


def test_cells_that_no_row_has_are_not_sent() -> None:
    cells = CodedCells(["never", "x", object(), None], np.array([1, 3, 1]))
    column = sent_column(cells, CategoryRule("b", levels=("x",)))
    assert column.texts == ["x"]
    assert column.codes is not None
    assert column.codes.tolist() == [3, 0, 3]


def test_a_batch_may_not_become_more_than_it_weighs_by_far() -> None:
    columns = Encoder((CategoryRule("b", "fill", levels=tuple(f"l{at}" for at in range(999))),))
    most = most_named_rows(columns)
    assert most == limits.NAMED_FEATURES // 1000
    assert most_named_rows(Encoder((NumberRule("a", "fill"),))) == limits.BATCH_ROWS
    message = write_named_sample_batch(frame(most), {}, columns, DATA)
    assert named_features(message, columns) == most * 1000
    assert read(message, columns).features.shape == (most, 1000)
    with pytest.raises(LimitExceeded, match=f"expected at most {most:,} rows of 1,000 features, got {most + 1:,}"):
        write_named_sample_batch(frame(most + 1), {}, columns, DATA)
    wide = Encoder((NumberRule("a", "fill"),))
    forged = write_named_sample_batch(frame(most + 1), {}, wide, DATA)
    with pytest.raises(WireError, match=f"expected at most {most:,} rows of 1,000 features, got {most + 1:,}"):
        read(forged, columns)
    assert named_features(EXAMPLES["sample_batch"].golden(), columns) == named_features(None, columns) == 0
    assert named_features(header("named_sample_batch") + DATA + b"\xff" * 20, columns) <= limits.NAMED_FEATURES


def test_a_cell_of_a_batch_that_cannot_be_sent_names_its_first_row() -> None:
    with pytest.raises(RowsRefused, match="row 1: column 'amount' is neither a number") as caught:
        write_named_sample_batch(frame(3), {"amount": [1, (2,), (2,)]}, COLUMNS, DATA)
    assert list(caught.value.refusals) == [1]
    with pytest.raises(LimitExceeded, match="column 'country' has a text of 70,000 bytes"):
        write_named_sample_batch(frame(1), {"country": ["x" * 70_000]}, COLUMNS, DATA)


def test_a_dense_batch_of_encoded_features_is_the_same_rows() -> None:
    named = read(EXAMPLES["named_sample_batch"].golden())
    dense = read(write_sample_batch(named, DATA))
    assert dense.features.tobytes() == named.features.tobytes()
    assert admit(dense, stream())[0].quantized.tobytes() == admit(named, stream())[0].quantized.tobytes()


# Python --------------------------------------------------------------------------------------------------------------


class Frame:
    """As much of a data frame as is looked at: names, and columns by place."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.columns, self.dtypes, self._table = list(table), None, table

    @property
    def iloc(self) -> Frame:
        return self

    def __getitem__(self, at: tuple[slice, int]) -> Any:
        return Series(self._table[self.columns[at[1]]])


class Series:
    def __init__(self, cells: list[Any]) -> None:
        self.dtype, self._cells = None, cells

    def astype(self, _: type) -> list[Any]:
        return self._cells


ROW = {"amount": 20, "country": "FR", "known": True, "begun": "1970-01-03T12:00:00Z"}


@pytest.mark.parametrize(
    "rows",
    [
        ROW,
        [ROW],
        {name: [cell] for name, cell in ROW.items()},
        Frame({"more": [[]], **{name: [cell] for name, cell in ROW.items()}}),
    ],
    ids=["a row", "rows", "columns", "a frame"],
)
def test_rows_by_name_may_be_given_in_many_ways(rows: Any) -> None:
    assert is_by_name(rows)
    features, refused = features_by_name(stream(), rows)
    assert features.tolist() == [[20.0, 0.0, 1.0, 0.0, 0.0, 1.0, 2.5]]
    assert not refused


@pytest.mark.parametrize("rows", [[[1.0]], np.zeros((2, 2)), [], "text", None, [ROW, [1.0]]])
def test_what_has_no_names_is_numbers_in_their_order(rows: Any) -> None:
    assert not is_by_name(rows)


def test_a_row_may_not_have_a_column_that_the_stream_has_not_and_a_table_must_have_all() -> None:
    features, refused = features_by_name(stream(), [ROW, {**ROW, "amuont": 1}, {"known": True}])
    assert refused == {1: "column 'amuont' has no rule in columns.rules; did you mean 'amount'?"}
    assert np.isnan(features[1]).all()
    assert np.isfinite(features[[0, 2]]).all()
    with pytest.raises(TableMismatch, match="no column 'country', which stream 'stream' reads; it has amount, known"):
        table_by_name(stream(), {"amount": [1], "known": [1], "begun": [0]})
    _, refused = features_by_name(stream(), {**ROW, "country": ["FR"]})
    assert refused[0].startswith("column 'country' is no text: ['FR']")


def test_without_columns_rows_by_name_are_features_by_name() -> None:
    plain = stream(None, ("b", "a"))
    for rows in ({"a": 1, "b": "2.5"}, [{"b": 2.5, "a": 1}], {"a": [1], "b": np.array([2.5])}):
        assert features_by_name(plain, rows)[0].tolist() == [[2.5, 1.0]]
    features, refused = features_by_name(plain, [{"a": 1}, {"a": "x", "b": 1}, {"a": 1, "b": 2, "c": 3}])
    assert features[0].tolist()[1] == 1.0
    assert np.isnan(features[0, 0])
    assert refused[1] == "column 'a' is no number: 'x'; give a number"
    assert "column 'c'" in refused[2]
    with pytest.raises(TableMismatch, match="columns of 1 and of 2 cells"):
        features_by_name(plain, {"a": [1], "b": [1, 2]})


# Memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["bad {}", "", "{}"], ids=["each cell bad", "missing", "each text another"])
def test_decoding_a_batch_takes_a_bounded_multiple_of_its_bytes(cell: str) -> None:
    columns = Encoder((NumberRule("a", "refuse"), HashedRule("b", "fill", buckets=8)))
    rows = frame(most := 8000)
    table = {"a": [cell.format(at) for at in range(most)], "b": [cell.format(-at) for at in range(most)]}
    message = write_named_sample_batch(rows, table, columns, DATA)
    tracemalloc.start()
    try:
        read(message, columns)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(message)
