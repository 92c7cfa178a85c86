"""Where ids come several times, Spark counts the rows that one partition of a stream and local processes count."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane.wire.histories import write_history
from deltaplane_services.lake import id_shares, spans, spark, spark_sums
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.spark_sums import SparkSums
from lake_tables import COLUMNS, DEFINITION, ids_of, partition_of_folder, table_of, write_folder
from spark_killing import killing_once

RETIRED = ids_of([*range(40), 5000])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows in files of three row groups, two of which are read together; most ids come three times, here and there."""
    monkeypatch.setattr(spans, "ROWS_OF_A_SPAN", 50)
    monkeypatch.setattr(spans, "_BYTES_OF_A_SMALL_FILE", 0)
    monkeypatch.setattr(id_shares, "_ROWS_AT_ONCE", 20)
    numbers = np.random.default_rng(1).permutation(np.repeat(np.arange(300), 3)).tolist()
    return write_folder(tmp_path / "table", table_of(900, ids=ids_of(numbers)), 7, rows_of_a_group=45)


@pytest.mark.parametrize(("partitions", "last_by"), [(1, "place"), (5, "place"), (16, "time")])
def test_the_last_admitted_version_of_an_id_counts_at_any_number_of_partitions(
    session: Any, folder: Path, partitions: int, last_by: Any
) -> None:
    assert session is not None
    computing = Computing(last_by=last_by, retired=frozenset(RETIRED))
    history = compute_history(str(folder), COLUMNS, computing, partial(SparkSums, partitions=partitions))
    assert write_history(history) == write_history(compute_history(str(folder), COLUMNS, computing))
    assert history.partial.counts["replaced"] > 400
    if last_by == "place":
        held = partition_of_folder(folder, RETIRED)
        assert history.partial.digest() == held.statistics.digest(DEFINITION.data_fingerprint)


def test_workers_that_are_killed_at_any_stage_change_no_byte(
    session: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session is not None
    stages = {"SumOfFiles": spark, "JoinSpans": spark, "LosersOfBuckets": spark_sums, "PartsOfLosers": spark_sums}
    for name, module in stages.items():
        monkeypatch.setattr(module, name, killing_once(getattr(module, name), tmp_path / name, executor=False))
    computing = Computing(retired=frozenset(RETIRED))
    history = compute_history(str(folder), COLUMNS, computing, partial(SparkSums, partitions=4))
    assert all((tmp_path / name).exists() for name in stages)
    assert write_history(history) == write_history(compute_history(str(folder), COLUMNS, computing))
