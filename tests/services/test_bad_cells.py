"""What no rule can read costs its own row: told with its line, column, value and cure, counted, in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane_services.replay.in_python import Replayed

Row = dict[str, Any]
RULES = {
    "rules": [
        {"column": "amount", "kind": "number", "fill": 3.0},
        {"column": "country", "kind": "category", "levels": ["DE", "FR"]},
        {"column": "day", "kind": "time", "parts": ["weekday"]},
        {"column": "known", "kind": "boolean"},
        {"column": "shop", "kind": "hashed", "buckets": 8},
    ]
}
BAD = {
    "a number in text": ({"amount": "12 or so"}, ["column 'amount' is no number", "'12 or so'", "correct the value"]),
    "a number without end": ({"amount": "1e999"}, ["column 'amount' is infinite", "'1e999'", "correct the value"]),
    "a date that is none": (
        {"day": "2026-02-30"},
        ["column 'day' names a day that", "write it as 2026-11-29"],
    ),
    "a word for a date": ({"day": "tomorrow"}, ["column 'day'", "'tomorrow'", "write it as 2026-11-29"]),
    "no truth": ({"known": "perhaps"}, ["column 'known' is neither true nor false", "'perhaps'", "correct the value"]),
    "a level too long": (
        {"country": "D" * 300},
        ["column 'country' is a text of 300 bytes", f"may have {limits.LEVEL_BYTES}", "leave the column out"],
    ),
    "a text too long": (
        {"shop": "s" * (limits.TEXT_BYTES + 1)},
        ["column 'shop' is a text of", f"may have {limits.TEXT_BYTES}", "leave the column out"],
    ),
}


def rows_of(count: int) -> list[Row]:
    random = np.random.default_rng(2)
    rows = []
    for at in range(count):
        fraud = bool(random.random() < 0.3)
        rows.append(
            {
                "amount": f"{random.lognormal(4 if fraud else 3, 1):.2f}",
                "country": str(random.choice(["DE", "FR", "NL"])),
                "day": f"2026-03-{at % 28 + 1:02}",
                "known": str(random.choice(["yes", "no"])),
                "shop": f"shop {random.integers(500)}",
                "label": "fraud" if fraud else "ok",
            }
        )
    return rows


def written(rows: list[Row], kind: str) -> bytes:
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "parquet":
        table = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), table)
        return table.getvalue()
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    return text.getvalue().encode()


def replayed(tmp_path: Path, rows: list[Row], kind: str) -> Replayed:
    file = tmp_path / f"t.{kind}"
    file.write_bytes(written(rows, kind))
    found: Replayed = deltaplane.replay(file, label="label", definition={"columns": RULES}, window="all")
    return found


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_cell_that_no_rule_can_read_costs_its_row_and_says_which_it_is_and_what_to_do(
    kind: str, tmp_path: Path
) -> None:
    good = rows_of(300)
    bad = list(good)
    places = {}
    for number, (name, (cells, _)) in enumerate(BAD.items()):
        at = 120 + 20 * number
        bad[at] = {**good[at], **cells}
        places[name] = at
    found = replayed(tmp_path, bad, kind)
    first_line = 2 if kind == "csv" else 1
    told = {one["line"]: one["reason"] for one in found.summary["rejections"]["first"]}
    assert found.summary["rejected"] == len(BAD)
    assert found.summary["rows"] == 300 - len(BAD)
    assert set(told) == {at + first_line for at in places.values()}
    for name, at in places.items():
        for words in BAD[name][1]:
            assert words in told[at + first_line], name
    left = [row for at, row in enumerate(good) if at not in places.values()]
    grid = found.definition.grid
    without = deltaplane.replay(left, label="label", definition=found.definition.to_tables(), window="all")
    assert without.definition.grid.quantizes_as(grid)
    assert without.digest == found.digest


def test_an_unknown_key_of_a_record_costs_its_row_and_names_it(tmp_path: Path) -> None:
    rows = rows_of(300)
    rows[200] = {**rows[200], "amuont": 5}
    file = tmp_path / "t.jsonl"
    # The first lines tell which keys there are.
    filler = [{**row, "note": "x" * 4000} for row in rows]
    file.write_bytes(written(filler, "jsonl"))
    found = deltaplane.replay(file, label="label", definition={"columns": RULES}, window="all")
    (reason,) = found.summary["rejections"]["reasons"]
    assert (reason["rows"], reason["examples"][0]["line"]) == (1, 201)
    assert "the key `amuont` is none of the first rows" in reason["reason"]
    assert reason["cure"] == "leave it out with `--ignore amuont`"


def test_a_column_with_a_level_for_each_row_is_left_out_and_a_rule_for_it_is_refused() -> None:
    rows = [{**row, "note": f"note {at}"} for at, row in enumerate(rows_of(2500))]
    found = deltaplane.replay(rows, label="label")
    (note,) = [one for one in found.columns.to_pylist() if one["column"] == "note"]
    assert (note["kind"], note["reason"]) == (None, "left out, unique in every row")
    assert not any(name.startswith("note") for name in found.definition.features)
    rules = [*RULES["rules"], {"column": "note", "kind": "category", "levels": [row["note"] for row in rows]}]
    with pytest.raises(DefinitionError, match=r"levels: expected 1 to [0-9]+ levels, got 2500; make the column hashed"):
        deltaplane.replay(rows, label="label", definition={"columns": {"rules": rules}})
    forced = deltaplane.replay(rows, label="label", category="note")
    (note,) = [one for one in forced.columns.to_pylist() if one["column"] == "note"]
    assert note["kind"] == "hashed"
    assert "2,500 levels, hashed into" in note["reason"]
