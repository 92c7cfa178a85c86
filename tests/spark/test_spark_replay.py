"""A replay by Spark has the counts and the digest of one by processes, which are those of one replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.replay import spark_pieces
from deltaplane_services.replay.in_pieces import OpenEngine, ReplayedInPieces, replay_in_pieces
from deltaplane_services.replay.keywords import replay_options, with_keywords
from deltaplane_services.replay.local_pieces import local_engine
from spark_killing import killing_once

ROWS, FILES = 3_000, 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in runs of one class, so that some pieces have no plane of their own."""
    folder, random = tmp_path_factory.mktemp("lake"), np.random.default_rng(3)
    labels = np.repeat(random.choice(["UP", "DOWN"], ROWS // 50), 50)
    table = pa.table({"price": random.normal(size=ROWS) + (labels == "UP"), "load": random.normal(size=ROWS)})
    table = table.append_column("target", pa.array(labels.tolist()))
    for number in range(FILES):
        pq.write_table(table.slice(number * ROWS // FILES, ROWS // FILES), folder / f"part-{number}.parquet")
    return folder


def replayed(folder: Path, window: str, engine: OpenEngine) -> ReplayedInPieces:
    given = {"label": "target", "window": window, "C": "1", "weighting": "inverse", "chunk": 20}
    return replay_in_pieces(replay_options(str(folder), with_keywords(DefinitionFile(), given), given, {}), engine)


@pytest.mark.parametrize(("window", "pieces"), [("all", 2), ("all", 9), ("60", 7)])
def test_spark_counts_what_processes_count(session: Any, folder: Path, window: str, pieces: int) -> None:
    assert session is not None
    found, local = (replayed(folder, window, one(pieces)) for one in (spark_pieces.spark_engine, one_process))
    assert (found.digest, found.scores, found.rows) == (local.digest, local.scores, local.rows)
    assert found.again == local.again
    assert (found.again > 0) == (window == "60")


def one_process(pieces: int) -> OpenEngine:
    return local_engine(1, pieces)


def test_a_worker_that_is_killed_while_it_replays_changes_no_count(
    session: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session is not None
    mark, local = tmp_path / "killed", replayed(folder, "all", one_process(4))
    monkeypatch.setattr(spark_pieces, "_ReplayPieces", killing_once(spark_pieces._ReplayPieces, mark, executor=False))
    found = replayed(folder, "all", spark_pieces.spark_engine(4))
    assert mark.exists()
    assert (found.digest, found.scores) == (local.digest, local.scores)
