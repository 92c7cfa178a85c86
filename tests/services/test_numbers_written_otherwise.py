"""Columns of numbers that are written otherwise than was declared: refused with the cure, and never taken for texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deltaplane
from deltaplane.errors import DefinitionError

ROWS = 300


def rows() -> list[tuple[float, int, str]]:
    random = np.random.default_rng(7)
    amounts, counts = random.normal(size=ROWS).round(3).tolist(), random.integers(1000, 99_999, ROWS).tolist()
    return [(amount, count, "yes" if amount > 0.4 else "no") for amount, count in zip(amounts, counts, strict=True)]


def file(path: Path, amount: Any = str, count: Any = str) -> Path:
    lines = [f"{amount(one)};{count(other)};{label}" for one, other, label in rows()]
    path.write_text("amount;count;label\n" + "\n".join(lines) + "\n", "utf-8")
    return path


def with_comma(value: float) -> str:
    return str(value).replace(".", ",")


def grouped(sign: str) -> Any:
    return lambda value: f"{value:,}".replace(",", sign)


@pytest.mark.parametrize(
    ("amount", "count", "flags", "cure"),
    [
        (with_comma, str, {"decimal": ","}, "`--decimal ,`"),
        (str, grouped(","), {"thousands": ","}, "`--thousands ,`"),
        (str, grouped(" "), {"thousands": " "}, "`--thousands ' '`"),
        (str, grouped("'"), {"thousands": "'"}, "separates thousands, say `--thousands"),
        (str, grouped("_"), {"thousands": "_"}, "`--thousands _`"),
        (str, lambda value: f"${value:,}", {"thousands": ","}, "`--thousands ,`"),
    ],
)
def test_numbers_in_another_form_are_refused_and_read_where_it_is_declared(
    amount: Any, count: Any, flags: dict[str, Any], cure: str, tmp_path: Path
) -> None:
    plain = deltaplane.replay(file(tmp_path / "plain.csv"), label="label")
    path = file(tmp_path / "rows.csv", amount, count)
    with pytest.raises(DefinitionError, match="looks like numbers") as refused:
        deltaplane.replay(path, label="label")
    assert cure in str(refused.value)
    assert deltaplane.replay(path, label="label", **flags).digest == plain.digest


def test_where_no_column_is_left_the_form_of_their_numbers_is_what_is_said(tmp_path: Path) -> None:
    path = file(tmp_path / "rows.csv", with_comma, lambda value: with_comma(value / 7))
    with pytest.raises(DefinitionError, match="`--decimal ,`"):
        deltaplane.replay(path, label="label")


def test_a_declared_decimal_comma_does_not_read_points_as_decimal_signs(tmp_path: Path) -> None:
    path = file(tmp_path / "rows.csv", with_comma, grouped("."))
    with pytest.raises(DefinitionError, match=r"'count' looks like numbers.*--thousands \."):
        deltaplane.replay(path, label="label", decimal=",")
    plain = deltaplane.replay(file(tmp_path / "plain.csv"), label="label")
    assert deltaplane.replay(path, label="label", decimal=",", thousands=".").digest == plain.digest


def test_a_column_that_is_said_to_be_a_category_is_one(tmp_path: Path) -> None:
    path = file(tmp_path / "rows.csv", str, lambda value: f"{value % 3},{value % 7}")
    with pytest.raises(DefinitionError, match="'count' looks like numbers"):
        deltaplane.replay(path, label="label")
    told = deltaplane.replay(path, label="label", category=["count"])
    assert told.columns.to_pylist()[1]["kind"] == "category"
    assert deltaplane.replay(
        file(tmp_path / "lists.csv", str, lambda value: "1,2,3" if value % 2 else "4,5"), label="label"
    )


def test_numbers_of_json_stand_beside_texts_with_a_decimal_comma(tmp_path: Path) -> None:
    plain = deltaplane.replay(file(tmp_path / "plain.csv"), label="label")
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"amount": with_comma(one), "count": two, "label": label}) for one, two, label in rows()]
    path.write_text("\n".join(lines), "utf-8")
    assert deltaplane.replay(path, label="label", decimal=",").digest == plain.digest
