"""``deltaplane replay --broker``: on Kafka, with several workers and partitions, the same bits as in one process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from deltaplane_services.client import SampleProducer
from kafka.clients import wait_until
from kafka.rows import FIRST_TIME
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream
from mixed_table import mixed_table

EXAMPLES = Path(__file__).parents[2] / "examples"
ELECTRICITY = EXAMPLES / "electricity.csv.gz"
DEFINITION = EXAMPLES / "deltaplane.toml"


OF_THE_EXAMPLE = (str(ELECTRICITY), "--definition", str(DEFINITION))


def replay(*arguments: str, code: int = 0, source: tuple[str, ...] = OF_THE_EXAMPLE) -> dict[str, Any]:
    """Replay the example, or another file, and return its summary."""
    line = [sys.executable, "-m", "deltaplane_services", "replay", *source]
    ended = subprocess.run([*line, *arguments, "--json", "-"], capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


def topics_of_replays(broker: str, name: str) -> list[str]:
    topics = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=PATIENCE_SECONDS).topics
    return [topic for topic in topics if topic.startswith(f"{name}-replay-")]


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        pytest.param(("--window", "all", "--C", "1"), ("rows", "retired", "rejected", "classes"), id="window-all"),
        # A chunk is longer than the window here: how many of its rows come too late depends on who reads first.
        pytest.param(("--window", "7d", "--C", "1"), ("rows", "retired", "classes"), id="window-7d"),
        # Whether a retired row had left the window by itself depends on who reads first, too.
        pytest.param(
            ("--window", "3000", "--C", "1", "--retire-fraction", "0.05"),
            ("rows", "rejected", "classes"),
            id="window-3000-with-retirements",
        ),
        pytest.param(
            ("--window", "all", "--C", "1", "--label-delay", "7000"),
            ("rows", "retired", "rejected", "classes", "served"),
            id="labels-that-come-late",
        ),
    ],
)
def test_a_replay_on_kafka_ends_with_the_bits_of_the_embedded_one(
    kafka: RunningKafka, arguments: tuple[str, ...], same: tuple[str, ...]
) -> None:
    arguments = (*arguments, "--partitions", "4", "--chunk", "5000", "--verify")

    embedded = replay(*arguments)
    on_kafka = replay(*arguments, "--broker", kafka.bootstrap, "--workers", "2")

    assert on_kafka["digest"] == embedded["digest"]
    assert on_kafka["verified"] is True
    assert on_kafka["max_difference"] == 0.0
    for key in ("weights", "bias", "deviations"):
        assert on_kafka["model"][key] == embedded["model"][key], key
    assert on_kafka["series"][-1]["deviations"] is not None
    assert on_kafka["drifts"] == embedded["drifts"]
    # Workers keep the counts alone.
    assert (on_kafka["roc_auc"], on_kafka["baselines"]) == (None, None)
    for key in same:
        assert on_kafka[key] == embedded[key], key
    assert topics_of_replays(kafka.bootstrap, "electricity") == [], "a replay deletes the topics it made"


def test_the_automatic_mode_on_kafka_has_the_digest_of_the_embedded_one_and_a_plane_that_is_proved(
    kafka: RunningKafka,
) -> None:
    arguments = ("--partitions", "4", "--chunk", "2000", "--verify")
    embedded, on_kafka = replay(*arguments), replay(*arguments, "--broker", kafka.bootstrap)
    assert on_kafka["digest"] == embedded["digest"]
    # When a model is made depends on who polls when, and so does how each candidate has done: shares, not planes.
    assert (on_kafka["verified"], on_kafka["max_difference"]) == (True, 0.0)
    assert len(on_kafka["model"]["candidates"]) == len(embedded["model"]["candidates"]) == 72
    assert abs(on_kafka["gmean"] - embedded["gmean"]) < 0.05


def test_rows_that_are_refused_on_kafka_are_reported_with_their_lines_and_all_are_counted(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    rows = [f"{number},{number % 7},{'yes' if number % 3 else 'no'}" for number in range(9000)]
    rows[1234] = "1e300,1,yes"
    rows[2500] = "1,1,perhaps"
    # A chunk of nothing else, and of more than have a letter each.
    rows[5000:8000] = ["1,1,perhaps", "1e300,1,yes"] * 1500
    file.write_text("height,weight,label\n" + "\n".join(rows) + "\n")
    definition = tmp_path / "deltaplane.toml"
    definition.write_text(
        'name = "refusals"\npartitions = 2\n[features]\nnames = ["height", "weight"]\n[grid]\nsteps = [1.0, 1.0]\n'
        '[classes]\nnames = ["no", "yes"]\n[window]\nlength = 500\n[input]\nlabel = "label"\n'
    )
    line = [sys.executable, "-m", "deltaplane_services", "replay", str(file), "--definition", str(definition)]

    ended = subprocess.run(
        [*line, "--broker", kafka.bootstrap, "--chunk", "5000", "--verify", "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    # The heading is line 1.
    assert sorted((item["line"], item["kind"]) for item in summary["rejections"]["first"])[:2] == [
        (1236, "bad value"),
        (2502, "unknown class"),
    ]
    assert summary["rejected"] == 3002
    assert summary["rejections"]["counts"] == {"bad value": 1501, "unknown class": 1501}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_replay_that_is_interrupted_leaves_no_service_and_no_topic_behind(
    kafka: RunningKafka, tmp_path: Path, number: signal.Signals
) -> None:
    name = f"interrupted-{secrets.token_hex(4)}"
    definition = tmp_path / "deltaplane.toml"
    definition.write_text(DEFINITION.read_text().replace('"electricity"', f'"{name}"'))
    line = [sys.executable, "-m", "deltaplane_services", "replay", str(ELECTRICITY), "--definition", str(definition)]
    with (tmp_path / "replay.log").open("wb") as log:
        process = subprocess.Popen(
            [*line, "--broker", kafka.bootstrap, "--speed", "200"],
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - nothing else runs in this process that could hold a lock.
        )
    try:
        wait_until(lambda: bool(_services(name)), "the replay has started its services")
        time.sleep(2.0)  # Any moment will do; this one is in the midst of the rows.
        # As from a terminal: to the whole group.
        os.killpg(process.pid, number)
        # It stops two services and deletes nine topics on its way out, each in bounded time.
        code = process.wait(3 * PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert code == 130, (tmp_path / "replay.log").read_text()
    assert _services(name) == []
    assert topics_of_replays(kafka.bootstrap, name) == []


def _heed_interrupts() -> None:
    """A shell starts what it puts in the background with interrupts ignored, and that is passed on to every process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _services(name: str) -> list[int]:
    """Processes whose definition is that of a replay of this stream: their names are in the definition's file."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        files = [Path(word) for word in words if "deltaplane-" in word and word.endswith("deltaplane.toml")]
        found += [int(entry.name) for file in files if file.exists() and f'"{name}-replay-' in file.read_text()]
    return found


def test_a_mixed_table_on_kafka_and_its_rows_by_name_have_the_digest_of_the_embedded_replay(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    table, labels = mixed_table(3000, seed=8, fraud=0.1)
    file, definition = tmp_path / "payments.parquet", tmp_path / "made.toml"
    pq.write_table(pa.table({**table, "label": labels}), file)
    both = ("--label", "label", "--window", "all", "--C", "1", "--chunk", "500", "--retire-fraction", "0.2", "--verify")
    embedded = replay(*both, "--write-definition", str(definition), source=(str(file),))
    on_kafka = replay(*both, "--partitions", "3", "--broker", kafka.bootstrap, "--workers", "2", source=(str(file),))
    assert (on_kafka["verified"], on_kafka["rejected"]) == (True, 0)
    assert on_kafka["retired"] == embedded["retired"] > 400
    assert on_kafka["digest"] == embedded["digest"]

    # The same rows by name: worker after worker encodes what a producer sent as people have it.
    whole = replay(*both[:-3], source=(str(file),))
    tables = tomllib.loads(definition.read_text("utf-8"))
    made = {name: tables[name] for name in ("columns", "grid")}
    window, solver = {"length": "all"}, {"C": 1.0}
    with Stream.made(
        tmp_path, stream_name, kafka.bootstrap, features={}, classes={}, window=window, solver=solver, **made
    ) as stream:
        for command in ("worker", "merger"):
            stream.start(command)
        columns = stream.definition.columns
        assert columns is not None
        rows = [
            {name: cell for name, cell in zip(table, cells, strict=True) if name in columns.columns}
            for cells in zip(*table.values(), strict=True)
        ]
        with SampleProducer(stream.settings) as producer:
            for at, row in enumerate(rows[:700]):
                producer.send(str(at), FIRST_TIME, labels[at], row)
            for begin in range(700, 3000, 460):
                part = slice(begin, begin + 460)
                ids = list(map(str, range(begin, begin + 460)))
                producer.send_batch(ids, np.full(460, FIRST_TIME), labels[part], rows[part])
        stream.wait_for_digest(whole["digest"], "rows by name")
