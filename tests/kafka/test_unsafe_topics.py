"""Topics that somebody made by hand: what is unsafe about them is said when a service starts, and is a metric."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from deltaplane_services.operations.topics import create_topics
from deltaplane_services.operations.unsafe_topics import UnsafeSettings, topics_watched
from kafka.clients import create_topic, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_topics import EVERY_TOPIC, alter, settings_of


def test_services_on_topics_made_by_hand_say_what_is_unsafe_and_do_their_work(
    kafka: RunningKafka, stream_name: str, tmp_path: Path
) -> None:
    tables: dict[str, Any] = {
        "window": {"length": "1h"},
        "input": {"label": "label", "id": "id", "time": "time"},
        "partitions": 1,
    }
    with Stream.of(tmp_path, stream_name, kafka.bootstrap, **tables) as stream:
        for topic in EVERY_TOPIC:
            # By the defaults of a broker that makes topics by itself.
            create_topic(kafka.bootstrap, f"{stream_name}.{topic}")
        services = {command: stream.start(command) for command in ("worker", "merger", "scorer")}
        worker = services["worker"]
        for topic, setting, found, expected in (
            ("samples", "retention.ms", "604800000", "at least"),
            ("samples", "message.timestamp.type", "CreateTime", "LogAppendTime"),
            ("samples", "compression.type", "producer", "zstd"),
            ("retirements", "retention.ms", "604800000", "-1"),
            ("checkpoints", "cleanup.policy", "delete", "compact"),
        ):
            (line, *again) = worker.wait_for(rf"WARNING [^\n]*{stream_name}\.{topic} on the site cluster: [^\n]*")
            assert not again, "one line for each topic"
            said = re.search(
                rf"{re.escape(setting)}: expected [^|]*{re.escape(expected)}[^|]*, got {found}; else [^|]+", line[0]
            )
            assert said is not None, line[0]
            assert f"--entity-name {stream_name}.{topic} --add-config {setting}=" in said[0]
        services["merger"].wait_for(
            rf"WARNING [^\n]*{stream_name}\.checkpoints on the site cluster: [^\n]*cleanup.policy"
        )
        services["scorer"].wait_for(
            rf"WARNING [^\n]*{stream_name}\.queries on the site cluster: [^\n]*compression.type"
        )
        assert f"{stream_name}.samples on" not in services["scorer"].log, "each says what it uses"
        rows = Rows(50, seed=1)
        stream.run("produce", rows.write(tmp_path / "rows.csv"))
        stream.wait_for_model(lambda model: sum(model.counts.values()) == 50, "all rows are live")


def test_a_cure_is_noticed_and_so_is_a_change_for_the_worse(
    kafka: RunningKafka, stream_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings)
    alter(kafka.bootstrap, f"{stream_name}.samples", {"retention.ms": "3600000", "retention.bytes": "1000000"})
    # What serves worse but loses nothing is no warning.
    alter(kafka.bootstrap, f"{stream_name}.models", {"segment.bytes": "1073741824"})
    told: list[UnsafeSettings] = []
    with caplog.at_level(logging.INFO), topics_watched(settings, "worker", told.append, seconds=0.2):
        wait_until(lambda: bool(told), "the topics have been looked at")
        used = {"samples", "retirements", "receipts", "dead-letters", "deltas", "checkpoints", "models"}
        assert told[0] == {**dict.fromkeys(used, 0), "samples": 2}
        wait_until(lambda: len(told) >= 3, "they are looked at again")
        alter(kafka.bootstrap, f"{stream_name}.samples", {"retention.ms": "-1", "retention.bytes": "-1"})
        wait_until(lambda: told[-1]["samples"] == 0, "the cure is seen")
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "rows inside the window are deleted, and no worker can begin again" in warnings[0]
    remarks = [record.message for record in caplog.records if record.levelno == logging.INFO]
    assert any(f"{stream_name}.samples is as it should be now" in remark for remark in remarks)
    assert sum("segment.bytes" in remark for remark in remarks) == 1


def test_a_cluster_that_does_not_answer_is_said_once_and_ends_nothing(
    stream_name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaplane_services.operations.unsafe_topics.ANSWER_SECONDS", 0.3)
    turns: list[UnsafeSettings] = []
    settings = settings_of(stream_name, "127.0.0.1:9")
    with caplog.at_level(logging.WARNING), topics_watched(settings, "merger", turns.append, seconds=0.1):
        wait_until(lambda: "does not answer" in caplog.text, "it is said")
    assert caplog.text.count("does not answer") == 1
    assert turns == []
