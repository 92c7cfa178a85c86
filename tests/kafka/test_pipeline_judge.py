"""The judge on Kafka: what a scorer has answered is held against labels that come later, and known after a restart."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from deltaplane.log.records import Prediction
from deltaplane_services import LiveModel, QueryClient, SampleProducer
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream
from kafka.test_pipeline_metrics import free_ports


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as opened:
        yield opened


def exported(port: int) -> dict[str, float]:
    """The metrics of what was served, by name and labels; none while nobody listens yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except URLError:
        return {}
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if "deltaplane_served" in line[:18]}


def total(found: dict[str, float], name: str) -> float:
    return sum(value for series, value in found.items() if series.startswith(name))


def test_answers_are_judged_when_their_labels_come_even_if_the_judge_was_away(
    kafka: RunningKafka, stream: Stream
) -> None:
    rows, asked = Rows(400, seed=1), Rows(30, seed=2)
    (port,) = free_ports(1)
    for command in ("worker", "merger", "scorer"):
        stream.start(command)
    judge = stream.start("judge", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
    with (
        LiveModel.connect(stream.definition_file, broker=kafka.bootstrap) as live,
        QueryClient.connect(stream.definition_file, broker=kafka.bootstrap) as client,
        SampleProducer.connect(stream.definition_file, broker=kafka.bootstrap) as producer,
    ):
        producer.send_batch(rows.ids, rows.times.tolist(), rows.labels, rows.features)
        producer.flush()
        stream.wait_for_model(lambda model: sum(model.counts.values()) == 400, "all rows are live")
        live.wait(PATIENCE_SECONDS)
        ids = [f"late-{at}" for at in range(30)]
        answers = client.ask_all(asked.features.tolist(), PATIENCE_SECONDS, ids=ids)
        told = [answer.predicted for answer in answers if isinstance(answer, Prediction)]
        assert len(told) == 30

        def wait(name: str, count: float) -> dict[str, float]:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                stream.check_running()
                found = exported(port)
                if total(found, name) == count:
                    return found
                time.sleep(0.1)
            raise AssertionError((name, count, exported(port)))

        wait("deltaplane_served_waiting", 30)
        times = (asked.times + 1).tolist()
        producer.send_batch(ids[:10], times[:10], asked.labels[:10], asked.features[:10])
        producer.flush()
        wait("deltaplane_served_predictions_total", 10)
        judge.kill()
        judge = stream.start("judge", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
        # The predictions lie on their topic. Those that were judged before have their label behind them, and wait.
        wait("deltaplane_served_waiting", 30)
        producer.send_batch(ids[10:], times[10:], asked.labels[10:], asked.features[10:])
        producer.flush()
        found = wait("deltaplane_served_predictions_total", 20)
    for truth in ("no", "yes"):
        for guess in ("no", "yes"):
            right = np.array(asked.labels[10:]) == truth
            expected = np.count_nonzero(right & (np.array(told[10:]) == guess))
            (shown,) = [v for k, v in found.items() if f'predicted="{guess}"' in k and f'truth="{truth}"' in k]
            assert shown == expected
    judge.terminate()
