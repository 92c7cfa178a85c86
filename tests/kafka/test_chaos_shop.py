"""A short run of the chaos with an intake, one event of each kind: labels early, late, twice, contradicting, never."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.shop import KINDS, run_shop
from kafka.cluster import KafkaCluster


@pytest.mark.parametrize("seed", [5])
def test_whatever_dies_the_model_is_that_of_the_joined_table_with_the_labels_that_count(
    seed: int, kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    report = run_shop(kafka_three, tmp_path, seed, kills=len(KINDS))
    assert report.faults == [], f"seed {seed}: {report}"
    assert report.live == report.payments > 1000
    assert set(report.done) == set(KINDS)
