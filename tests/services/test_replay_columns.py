"""Tables of any columns go into a replay: rules are decided from the first rows, and every way in gives the same."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import BooleanRule, CategoryRule, HashedRule, NumberRule
from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.readers import ReaderOptions, open_rows
from deltaplane_services.readers.bounds import MATRIX_BYTES
from deltaplane_services.replay.result import ReplayResult
from deltaplane_services.replay.run import embedded
from deltaplane_services.replay.run import replay as run_replay

Row = dict[str, Any]


def mixed_rows(count: int = 3000, seed: int = 7) -> list[Row]:
    """Payments with numbers, texts of few and of many levels, truths, dates, ids, and cells that are missing."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for at in range(count):
        fraud = chance.random() < 0.05
        cells: Row = {
            "amount": round(chance.lognormvariate(4.5 if fraud else 3.2, 1.0), 2),
            "country": chance.choice(["DE", "FR", "NG"] if not fraud else ["NG", "RO"]),
            "merchant": f"shop-{chance.randrange(5000)}",
            "card": chance.random() < (0.2 if fraud else 0.7),
            "day": f"2024-{1 + at % 12:02d}-{1 + at % 28:02d}",
        }
        shown = {name: None if chance.random() < 0.05 else cell for name, cell in cells.items()}
        rows.append({"id": f"tx{at}", **shown, "label": "fraud" if fraud else "ok"})
    return rows


def as_csv(rows: list[Row], **form: Any) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", **form)
    writer.writerow(rows[0])
    for row in rows:
        told = {True: "true", False: "false", None: ""}
        writer.writerow([told[cell] if cell is None or isinstance(cell, bool) else cell for cell in row.values()])
    return out.getvalue().encode()


def as_json_lines(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def replayed(tmp_path: Path, data: bytes, name: str, **given: Any) -> ReplayResult:
    file = tmp_path / name
    file.write_bytes(data)
    tables = {"input": {"label": "label"}, "classes": {"positive": "fraud"}, "window": {"length": 1000}}
    tables |= {"solver": {"C": 1.0}, **given.pop("tables", {})}
    options = ReplayOptions(str(file), DefinitionFile.of(tables), **given)
    return run_replay(options, lambda _: None, embedded(options, lambda _: None))


def test_a_mixed_table_goes_in_with_nothing_but_its_label_and_is_the_same_from_every_format(tmp_path: Path) -> None:
    rows = mixed_rows()
    found = replayed(tmp_path, as_csv(rows), "rows.csv", retire_fraction=0.2, verify=True)
    assert found.verification is not None
    assert found.verification.passed
    assert (found.rows, found.refusals.total) == (3000, 0)
    kinds = {one.column: None if one.rule is None else one.rule.KIND for one in found.decisions}
    assert kinds == {
        "id": None,
        "amount": "number",
        "country": "category",
        "merchant": "hashed",
        "card": "boolean",
        "day": "time",
    }
    others = [
        replayed(tmp_path, data, name, retire_fraction=0.2)
        for data, name in (
            (as_json_lines(rows), "rows.jsonl"),
            (as_parquet(rows), "rows.parquet"),
            (as_csv(rows, quoting=csv.QUOTE_ALL), "quoted.csv"),
            (as_csv(rows, delimiter=";"), "semicolons.csv"),
        )
    ]
    assert [one.definition.data_fingerprint for one in others] == [found.definition.data_fingerprint] * 4
    assert [one.model.digest for one in others] == [found.model.digest] * 4


def test_the_grid_is_fitted_on_as_many_rows_of_every_format(tmp_path: Path) -> None:
    rows = mixed_rows(20_000)
    for at, row in enumerate(rows):
        # Whoever fits on more rows has a coarser grid.
        row["amount"] = float(at * at)
    found = [
        replayed(tmp_path, data, name, chunk=1000)
        for data, name in (
            (as_csv(rows), "rows.csv"),
            (as_json_lines(rows), "rows.jsonl"),
            (as_parquet(rows), "rows.parquet"),
        )
    ]
    assert len({one.definition.data_fingerprint for one in found}) == 1
    assert len({one.model.digest for one in found}) == 1


def test_the_window_is_the_same_for_every_size_of_chunk(tmp_path: Path) -> None:
    data = as_csv(mixed_rows(1500))
    assert len({replayed(tmp_path, data, "rows.csv", chunk=chunk).model.digest for chunk in (7, 100, 1500)}) == 1


def test_a_definition_that_was_written_down_reads_the_file_as_it_was_read(tmp_path: Path) -> None:
    data = as_csv(mixed_rows(1500))
    found = replayed(tmp_path, data, "rows.csv")
    again = replayed(tmp_path, data, "rows.csv", tables=found.definition.to_tables() | {"input": {"label": "label"}})
    assert again.decisions == ()
    assert again.model.digest == found.model.digest


def test_a_table_of_numbers_is_read_as_it_was_before_there_were_rules(tmp_path: Path) -> None:
    chance = random.Random(1)
    lines = [f"{chance.gauss(0, 1)},{chance.gauss(1, 1)},{at},{chance.choice(['ok', 'fraud'])}" for at in range(500)]
    found = replayed(tmp_path, ("a,b,row,label\n" + "\n".join(lines)).encode(), "rows.csv")
    assert (found.decisions, found.definition.columns) == ((), None)
    assert found.definition.features == ("a", "b", "row")


def test_a_long_table_of_numbers_has_one_digest_from_every_format(tmp_path: Path) -> None:
    chance = random.Random(3)
    # Long cells: blocks of text end after other rows than blocks of numbers.
    rows: list[Row] = [
        {**{f"a{column}": chance.gauss(0, 1 + at / 1000) for column in range(12)}, "label": chance.choice("pq")}
        for at in range(15_000)
    ]
    files = {"rows.csv": as_csv(rows), "rows.jsonl": as_json_lines(rows), "rows.parquet": as_parquet(rows)}
    found = [replayed(tmp_path, data, name, chunk=5000, tables={"classes": {}}) for name, data in files.items()]
    assert [one.decisions for one in found] == [()] * 3
    assert len({one.model.digest for one in found}) == 1


def test_a_column_of_codes_can_be_a_category_and_a_row_that_fits_no_rule_costs_itself(
    tmp_path: Path,
) -> None:
    rows = mixed_rows(1500)
    for at, row in enumerate(rows):
        row["amount"] = row["amount"] or 1.0
        row["code"] = at % 3
    rows[1300]["amount"] = "plenty"
    found = replayed(tmp_path, as_csv(rows), "rows.csv", category=("code",))
    assert next(one for one in found.decisions if one.column == "code").rule == CategoryRule(
        "code", missing="fill", levels=("0", "1", "2")
    )
    assert found.rows == 1499
    (refused,) = [one for group in found.refusals.reasons.values() for one in group.examples]
    assert refused.line_number == 1302
    assert "column 'amount' is no number: 'plenty'" in refused.reason


def test_how_numbers_are_written_is_said_of_the_file_and_not_of_the_rule(tmp_path: Path) -> None:
    rows = mixed_rows(600)
    english = replayed(tmp_path, as_csv(rows), "english.csv")
    for row in rows:
        row["amount"] = None if row["amount"] is None else f"{row['amount']:,.2f}".translate({46: 44, 44: 46})
    german = as_csv(rows, delimiter=";")
    tables = {"input": {"label": "label", "decimal": ",", "thousands": "."}}
    assert replayed(tmp_path, german, "german.csv", tables=tables).model.digest == english.model.digest


def test_without_a_label_column_of_that_name_the_message_is_the_readers(tmp_path: Path) -> None:
    with pytest.raises(DeltaplaneError, match="has no column `label`"):
        replayed(tmp_path, b"a,b\n1,x\n2,y\n", "rows.csv")


@pytest.mark.parametrize("form", ["csv", "quoted over lines", "jsonl", "parquet"])
def test_a_block_of_encoded_rows_takes_no_more_memory_than_one_of_numbers_may(form: str) -> None:
    rows: list[Row] = [{"shop": f"s{at % 700}", "label": "pq"[at % 2]} for at in range(12_000)]
    data = {"jsonl": as_json_lines, "parquet": as_parquet}.get(form, as_csv)(rows)
    data = data.replace(b"s0,", b'"s\n0",', 1) if form == "quoted over lines" else data
    options = ReaderOptions(
        label="label",
        format="csv" if form.startswith("quoted") else form,
        encoder=Encoder((HashedRule("shop", buckets=1024),)),
    )
    with open_rows(io.BytesIO(data), options) as reader:
        blocks = list(reader)
    assert max(block.features.nbytes for block in blocks) <= MATRIX_BYTES
    assert sum(map(len, blocks)) == 12_000
    first = blocks[0].line_numbers[0]
    lines = np.concatenate([block.line_numbers for block in blocks])
    assert (
        lines.tolist() == (first + np.arange(12_000) + (form.startswith("quoted") & (np.arange(12_000) > 0))).tolist()
    )
    assert (np.vstack([block.features for block in blocks]).sum(axis=1) == 1).all()


ENCODER = Encoder(
    (
        NumberRule("a"),
        NumberRule("b", log=True, fill=2.0),
        BooleanRule("c"),
        CategoryRule("d", levels=("x", "y y")),
        HashedRule("e", buckets=4),
    )
)
CELLS = {
    "a": st.sampled_from(["1", "-2.5", " 3 ", "+4", "1e5", "", "?", "nan", "inf", "1_0", "x", "0x10", "1D3"]),
    "b": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.just("NA"),
    "c": st.sampled_from(["yes", "no", "T", "0", "1", "maybe", ""]),
    "d": st.sampled_from(["x", "y y", " x", "z", "", "NULL"]),
    "e": st.text("abc é", max_size=4),
    "label": st.sampled_from(["p", "q", ""]),
}


@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=12))
def test_columns_and_rows_are_encoded_alike_and_as_the_encoder_alone_does(rows: list[dict[str, str]]) -> None:
    plain = "\n".join([",".join(CELLS), *(",".join(row[name] for name in CELLS) for row in rows)]) + "\n"
    # A quoted cell over two lines, and then rows one by one.
    by_row = plain.replace("label\n", 'label\n1,1,"yes\nno",x,a,p\n', 1)
    read = []
    for text in (plain, by_row):
        with open_rows(
            io.BytesIO(text.encode()), ReaderOptions(label="label", format="csv", encoder=ENCODER)
        ) as reader:
            assert reader.feature_names == ENCODER.features
            blocks = list(reader)
        features = np.vstack([block.features for block in blocks])
        read.append((features.tobytes(), [label for block in blocks for label in block.labels]))
        refused = {one.line_number: one.reason for block in blocks for one in block.refused}
    shift = 3
    encoded = ENCODER.encode({name: [row[name] for row in rows] for name in ENCODER.columns})
    expected = {one.row + 1 + shift: one.reason for one in encoded.refused}
    kept = [at for at, row in enumerate(rows) if encoded.fits[at] and row["label"]]
    assert read[0] == read[1] == (encoded.features[kept].tobytes(), [rows[at]["label"] for at in kept])
    labelled = {at + 1 + shift for at, row in enumerate(rows) if row["label"]}
    assert {line: reason for line, reason in refused.items() if line in labelled} == {
        line: reason for line, reason in expected.items() if line in labelled
    }
