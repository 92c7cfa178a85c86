"""``deltaplane replay --engine``: counts, digest and plane are those of one replay, however a table is cut."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
from deltaplane.errors import DefinitionError
from deltaplane_services.cli import application
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.replay.in_pieces import ReplayedInPieces, replay_in_pieces
from deltaplane_services.replay.keywords import replay_options, with_keywords
from deltaplane_services.replay.local_pieces import cut, local_engine
from deltaplane_services.replay.result import ReplayError

ROWS = 1_234
PLAIN = {"label": "target", "positive": "UP", "window": "all", "C": "1", "weighting": "inverse"}


def table_of(rows: int = ROWS) -> pa.Table:
    """Rows in runs of one class, of which some are refused by the reader or by the definition."""
    random = np.random.default_rng(7)
    labels = np.repeat(random.choice(["UP", "DOWN"], rows // 3 + 1), 3)[:rows].tolist()
    labels = [None if row % 97 == 0 else label for row, label in enumerate(labels)]
    price = random.normal(size=rows) + np.array([label == "UP" for label in labels])
    price[500::101] = 1e300
    return pa.table({"price": price, "demand": random.normal(size=rows), "target": pa.array(labels, pa.string())})


def folder_of(table: pa.Table, folder: Path, files: int) -> Path:
    folder.mkdir()
    for number, (begin, end) in enumerate(itertools.pairwise(at * len(table) // files for at in range(files + 1))):
        pq.write_table(table.slice(begin, end - begin), folder / f"part-{number:03}.parquet")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "table.parquet"
    pq.write_table(table_of(), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven files of rows, and one of none among them, as engines write for parts that came out empty."""
    made = folder_of(table_of(), tmp_path_factory.mktemp("lake") / "table", 11)
    pq.write_table(table_of().slice(0, 0), made / "part-003x.parquet")
    return made


def in_pieces(source: Path, given: dict[str, Any], pieces: int | None = None, **others: Any) -> ReplayedInPieces:
    options = replay_options(str(source), with_keywords(DefinitionFile(), given), given, {}, **others)
    return replay_in_pieces(options, local_engine(2, pieces))


@pytest.mark.parametrize(
    ("pieces", "more"),
    [
        (1, {}),
        (7, {}),
        (2, {"window": "100"}),
        (12, {"window": "100"}),
        (5, {"window": "900", "chunk": 33, "positive": None}),
    ],
    ids=str,
)
def test_any_number_of_pieces_has_the_counts_the_digest_and_the_plane_of_one_replay(
    whole: Path, folder: Path, pieces: int, more: dict[str, Any]
) -> None:
    given = PLAIN | more
    one = deltaplane.replay(whole, **given)
    found = in_pieces(folder, given, pieces)
    model = one._result.model
    assert model.plane is not None
    assert found.plane is not None
    assert found.pieces == pieces
    assert (found.digest, found.scores) == (one.digest, model.scores)
    assert (found.rows, found.positive) == (one.summary["rows"], one.summary["positive"])
    assert sum(found.refusals.values()) == one.summary["rejected"] > 20
    assert found.plane.weights.tobytes() == model.plane.weights.tobytes()


def test_a_mapped_stream_is_followed_too(whole: Path, folder: Path) -> None:
    given = PLAIN | {"window": "300", "feature_map": "hidden", "units": 12}
    one = deltaplane.replay(whole, **given)
    found = in_pieces(folder, given, 5)
    assert (found.digest, found.scores) == (one.digest, one._result.model.scores)


def test_pieces_without_a_plane_of_their_own_are_replayed_again_with_the_one_before(tmp_path: Path) -> None:
    """The last rows are of one class, so that the window comes to hold no other."""
    table = table_of(400).append_column("n", pa.array(range(400)))
    tail = table.filter(pa.compute.equal(table["target"], "UP"))
    table = pa.concat_tables([table, tail, tail]).drop_columns(["n"])
    pq.write_table(table, tmp_path / "whole.parquet")
    given = PLAIN | {"window": "50", "chunk": 10}
    one = deltaplane.replay(tmp_path / "whole.parquet", **given)
    found = in_pieces(folder_of(table, tmp_path / "folder", 9), given, 9)
    assert found.again > 2
    assert found.refusal is not None
    assert found.scores == one._result.model.scores
    assert found.digest == one.digest


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"window": None}, "several windows"),
        ({"C": None}, "the automatic mode"),
        ({"objective": "f1"}, "the automatic mode"),
        ({"id": "demand"}, "--id"),
        ({"shuffle": 3}, "--shuffle"),
        ({"retire_fraction": 0.1}, "--retire-fraction"),
        ({"imbalance": "2"}, "--imbalance"),
        ({"verify": True}, "--verify"),
        ({"chunk": 1}, "--chunk 1"),
        ({"partitions": 3}, "3 partitions"),
    ],
    ids=str,
)
def test_what_pieces_cannot_follow_is_refused_by_its_name(folder: Path, more: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=f"cannot follow {told}"):
        in_pieces(folder, PLAIN | more)


def test_a_table_of_which_no_row_is_admitted_is_told(folder: Path) -> None:
    with pytest.raises(ReplayError, match="none of"):
        in_pieces(folder, PLAIN | {"positive": None, "classes": ["a", "b"]})


def test_pieces_are_of_nearly_as_many_files_each() -> None:
    assert [(piece.first, piece.end) for piece in cut(7, 3)] == [(0, 2), (2, 4), (4, 7)]
    assert len(cut(2, 9)) == 2


# The command ----------------------------------------------------------------------------------------------------------

Run = Callable[..., int]


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command as a shell would, and return its exit code."""

    def run(*arguments: Any) -> int:
        monkeypatch.setattr("sys.argv", ["deltaplane", "replay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            application.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


FLAGS: Sequence[str] = ("--label", "target", "--window", "200", "--C", "1", "--weighting", "none", "--engine", "local")


def test_the_command_writes_the_keys_that_any_replay_has(
    replay: Run, whole: Path, folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert replay(folder, *FLAGS, "--pieces", 3, "--processes", 2, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert replay(whole, *FLAGS[:-2], "--json", "-") == 0
    one = json.loads(capsys.readouterr().out)
    same = ("rows", "gmean", "sensitivity", "f_measure", "digest", "confusion", "positive", "classes", "rejected")
    assert {key: found[key] for key in same} == {key: one[key] for key in same}
    assert (found["engine"], found["pieces"]) == ("local", 3)
    assert replay(folder, *FLAGS, "--write-definition", tmp_path / "made.toml") == 0
    assert f"digest {one['digest']}" in capsys.readouterr().out
    assert (tmp_path / "made.toml").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((*FLAGS, "--report", "page.html"), "engine: it has no --report"),
        ((*FLAGS[:-2], "--pieces", "3"), "name one"),
        ((*FLAGS, "--id", "demand"), "cannot follow --id"),
    ],
)
def test_what_an_engine_has_not_is_said_in_one_line(
    replay: Run, folder: Path, capsys: pytest.CaptureFixture[str], flags: Sequence[str], told: str
) -> None:
    assert replay(folder, *flags) == 2
    assert told in capsys.readouterr().err


def test_an_engine_that_is_not_installed_names_its_extra(
    replay: Run, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    assert replay(folder, *FLAGS[:-1], "spark") == 2
    assert "pip install 'deltaplane[spark]'" in capsys.readouterr().err
