"""What the containers run, on a broker here: a market that is played, joined, learned, asked, and judged as served."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest
from confluent_kafka.admin import AdminClient

from deltaplane_services.definition_file.definition_tables import load_tables
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream
from kafka.test_pipeline_metrics import free_ports

TOP = Path(__file__).parents[2]
ROLES = ("worker", "merger", "scorer", "judge")


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    tables = {key: table for key, table in load_tables(TOP / "deploy" / "deltaplane.toml").items() if key != "name"}
    labels = {**tables["intake"]["labels"], "topic": f"{stream_name}-labels"}
    tables["intake"] = {**tables["intake"], "topic": f"{stream_name}-events", "labels": labels}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, **tables) as opened:
        yield opened


def metrics(port: int) -> dict[str, float]:
    """Every series of a process, by what stands before its value; none while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    except URLError:
        return {}
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def total(found: dict[str, float], name: str) -> float:
    return sum(value for series, value in found.items() if series.split("{")[0] == name)


def test_the_market_of_the_containers_becomes_a_model_and_what_was_served_is_judged(
    kafka: RunningKafka, stream: Stream
) -> None:
    ports = dict(zip((*ROLES, "intake"), free_ports(len(ROLES) + 1), strict=True))
    command = [sys.executable, str(TOP / "examples" / "live_market.py"), str(TOP / "examples" / "electricity.csv.gz")]
    command += ["--definition", str(stream.definition_file), "--broker", kafka.bootstrap, "--rate", "200"]
    market = subprocess.Popen([*command, "--label-delay", "1", "--seed", "3"], stdout=subprocess.PIPE, text=True)
    try:
        for role in ROLES:
            stream.start(role, DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{ports[role]}")
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while f"{stream.definition.name}-events" not in _topics(kafka.bootstrap):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        stream.start(
            "intake",
            DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{ports['intake']}",
            DELTAPLANE_STATE_DIRECTORY=str(stream.definition_file.parent / "state"),
        )
        judged: dict[str, float] = {}
        while total(judged, "deltaplane_served_predictions_total") < 200:
            stream.check_running()
            assert market.poll() is None, "the market goes on for ever"
            assert time.monotonic() < deadline, judged
            time.sleep(0.5)
            judged = metrics(ports["judge"])
        assert total(metrics(ports["intake"]), "deltaplane_intake_waiting_events") > 0
        gmean = next(value for series, value in judged.items() if "served_gmean" in series and 'span="all"' in series)
        assert 0.0 < gmean < 1.0
        at = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        top = [sys.executable, "-m", "deltaplane_services", "top", "--once", "--interval-seconds", "0.5", "--at", at]
        assert "5 of 5 up" in subprocess.run(top, capture_output=True, check=True, timeout=60, text=True).stdout
    finally:
        market.terminate()
        market.communicate(timeout=PATIENCE_SECONDS)


def _topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics)
