"""A soak of half a minute: too short for a word on memory, long enough for every part of it to do its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka.conftest import StartKafka
from soak.curves import read_curves
from soak.run import Plan, run
from soak.stream import BROKER
from soak.verdicts import disk_stays_small


@pytest.mark.parametrize("seed", [4])
def test_a_short_soak_with_restarts_accounts_for_every_row_and_watches_every_process(
    seed: int, start_kafka: StartKafka, tmp_path: Path
) -> None:
    plan = Plan(seed, seconds=24.0, rows_per_second=500.0, pause_seconds=6.0, look_seconds=1.0)
    outcome = run(start_kafka(properties=BROKER), tmp_path, plan, print)
    missed = [one for one in outcome.account if not one.met]
    assert missed == [], f"seed {seed}: {missed}"
    assert len(outcome.account) == 9
    curves = outcome.curves
    assert curves == read_curves(tmp_path / "curves.jsonl")
    assert len(curves.events) >= 2
    assert {sample.role for sample in curves.processes} == {"worker", "merger", "scorer", "broker", "load"}
    assert all(
        sample.resident_megabytes > 10 and sample.files > 3 and sample.threads > 0 for sample in curves.processes
    )
    assert max(sample.live_rows for sample in curves.stream) > 5_000
    assert curves.stream[-1].rows_behind == 0
    assert any(sample.freshness_seconds is not None for sample in curves.stream)
    assert disk_stays_small(curves).met
