"""The example that a user of Python runs first does what it says, on its own table and on another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidy.sources import TOP

EXAMPLE = TOP / "examples" / "first_steps.py"


def first_steps(*arguments: str) -> list[str]:
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_first_steps_are_short_and_exact() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 60
    said = first_steps()
    assert said[0] == "10,000 rows of feat_1, feat_2, feat_3, feat_4, feat_5, feat_6"
    assert said[1:4] == [
        "window = fit on its last 2,000 rows: True",
        "retired = never learned: True",
        "merged = learned at once: True True",
    ]


def test_the_first_steps_take_a_table_of_the_users_own(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    rows = [f"{row % 7 - 3},r{row},{(row * 31) % 97 / 8},{'up' if row % 3 else 'down'}" for row in range(3000)]
    table.write_text("\n".join(["slope,name,height,went", *rows]) + "\n", "utf-8")
    said = first_steps(str(table), "went")
    assert said[0] == "2,664 rows of slope, height"
    assert [line.rpartition(": ")[2] for line in said[1:4]] == ["True", "True", "True True"]


def test_the_automatic_example_predicts_and_withdraws_a_day() -> None:
    example = TOP / "examples" / "automatic_mode.py"
    said = subprocess.run(
        [sys.executable, str(example)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert float(said[0].removeprefix("20,000 half-hours, G-mean ")) > 0.7
    withdrawn = int(said[1].split()[0])
    assert said[1] == f"{withdrawn} of {withdrawn} half-hours withdrawn"
    assert said[2].endswith(f"of {20_000 - withdrawn:,} live rows")
