"""A replay that is saved and continued adds up to what one run does, bit for bit, and says the same of its rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from services.test_replay import refused, replay, write_csv

__all__ = ["refused", "replay"]
Run = Callable[..., dict[str, Any]]
HEADER = ["t", "a", "b", "y"]


def rows_of(rows: int) -> list[list[object]]:
    """Rows of two classes, of which one in 230 is a million: beyond 2**30 steps of the grid."""
    chance = random.Random(5)
    return [
        [
            1_690_000_000 + 600 * at,
            "1e6" if at % 230 == 229 else f"{chance.gauss(at % 2, 1):.3f}",
            f"{chance.gauss(0, 1):.3f}",
            "pq"[at % 2],
        ]
        for at in range(rows)
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--time", "t", "--window", "3d"),
        ("--ignore", "t"),
        ("--ignore", "t", "--window", "300", "--partitions", "3"),
        ("--ignore", "t", "--window", "all"),
        ("--id", "t", "--window", "all"),
    ],
)
def test_a_replay_saved_and_continued_twice_is_one_run(replay: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    rows, state = rows_of(1500), tmp_path / "state"
    whole = replay(write_csv(tmp_path / "whole.csv", HEADER, rows), "--label", "y", *options)
    parts = [write_csv(tmp_path / f"{at}.csv", HEADER, rows[at : at + 500]) for at in (0, 500, 1000)]
    # The grid of the whole is fitted to its first thousand rows, and so must that of the part be.
    definition = tmp_path / "d.toml"
    replay(tmp_path / "whole.csv", "--label", "y", *options, "--write-definition", definition)
    replay(parts[0], "--definition", definition, "--save", state)
    replay(parts[1], "--resume", state, "--save", state)
    end = replay(parts[2], "--resume", state)
    same = ("digest", "gmean", "scored", "not_scored", "classes", "outcomes", "order", "confusion", "rows")
    assert {name: end[name] for name in same} == {name: whole[name] for name in same}
    assert end["rounding_error"] == whole["rounding_error"]
    assert whole["rejected"] == 0


def test_the_file_is_an_avro_container_that_holds_the_live_rows_and_no_more(replay: Run, tmp_path: Path) -> None:
    file, state = write_csv(tmp_path / "rows.csv", HEADER, rows_of(4000)), tmp_path / "state"
    replay(file, "--label", "y", "--ignore", "t", "--window", "200", "--C", "1", "--save", state)
    with state.open("rb") as opened:
        records: list[Any] = list(fastavro.reader(opened))
    topics = [record["topic"] for record in records]
    # The last 200 rows, and the thousand before them that a duplicate would be known by.
    assert 2 <= topics.count("samples") <= 14
    assert topics[-1] == "end"


def test_what_cannot_go_on_is_refused_with_the_reason(replay: Run, refused: Callable[..., str], tmp_path: Path) -> None:
    file, state = write_csv(tmp_path / "rows.csv", HEADER, rows_of(300)), tmp_path / "state"
    plain = (file, "--label", "y", "--ignore", "t")
    for flags, what in (
        (("--chunk", "1"), "--chunk 1"),
        (("--retire-fraction", "0.1"), "--retire-fraction"),
        (("--shuffle", "1"), "--shuffle"),
        (("--imbalance", "2"), "--imbalance"),
        (("--broker", "localhost:1"), "leave --broker out"),
    ):
        assert what in refused(*plain, *flags, "--save", state)
    assert not state.exists()
    replay(*plain, "--save", state)
    assert "the options change window" in refused(file, "--resume", state, "--window", "50")
    assert "its own definition" in refused(file, "--resume", state, "--definition", file)
    assert "--verify" in refused(file, "--resume", state, "--verify")
    data = state.read_bytes()
    for damaged in (b"", b"junk", data[: len(data) // 2], data[:-30], data.replace(b'"last_line"', b'"xast_line"')):
        state.write_bytes(damaged)
        assert str(state) in refused(file, "--resume", state)
