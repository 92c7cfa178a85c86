"""A short run of the chaos that ``make chaos`` does at length: one event of each of the kinds that hurt most."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import events
from chaos.run import run
from kafka.cluster import KafkaCluster

KINDS = (
    events.SCALED_UP,
    events.WORKER_KILLED,
    events.MERGER_KILLED,
    events.BROKER_KILLED_IN_TRANSACTION,
    events.WORKER_FROZEN,
    events.WORKER_REPLACED,
    events.DEAD_SPEAKS,
)


@pytest.mark.parametrize("seed", [3])
def test_whatever_dies_on_a_real_kafka_nothing_is_lost_and_nothing_counts_twice(
    seed: int, kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    report = run(kafka_three, tmp_path, seed, kills=len(KINDS), kinds=KINDS, rows_per_second=400.0)
    assert report.faults == [], f"seed {seed}: {report}"
    assert report.figures["records lost"] == report.figures["records double"] == 0
