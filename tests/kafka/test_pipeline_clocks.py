"""Clocks that run ahead, mistaken units and watermarks that are made up, on a real broker whose own clock is right.

Whatever they say, the rows of everybody else stay live, and rows that come stay in time.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Rebuild, Tile
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.wire import read_dead_letter, write_delta, write_model
from deltaplane_services.client import SampleProducer
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

SECOND, HOUR, YEAR = 1_000, 3_600_000, 365 * 86_400_000


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    tables = {"window": {"length": "1h"}, "partitions": 3}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as opened:
        yield opened


def now() -> int:
    return time.time_ns() // 1_000_000


def send(stream: Stream, what: str, times: Sequence[int]) -> None:
    """One sample for each event time, with ids and features of its own."""
    draw = np.random.default_rng(len(what))
    with SampleProducer(stream.settings, check=False) as producer:
        for at, when in enumerate(times):
            producer.send(f"{what}-{at}", when, ("no", "yes")[at % 2], np.round(draw.normal(size=3), 3).tolist())


def live(model: Model) -> int:
    return sum(model.counts.values())


def wait_for_live(stream: Stream, rows: int, what: str) -> Model:
    return stream.wait_for_model(lambda model: live(model) == rows, what)


def letters(stream: Stream) -> list[DeadLetter]:
    records = read_topic(stream.settings.site_cluster.broker, f"{stream.definition.name}.dead-letters")
    return [read_dead_letter(record.value()) for record in records]


def forge(stream: Stream, change: Callable[[Model], Model]) -> None:
    """Publish a model that is well made, newer than the newest, and says what it likes of event time."""
    good = stream.model()
    assert good is not None
    forged = replace(change(good), version=good.version + 1000)
    producer = Producer({"bootstrap.servers": stream.settings.central_cluster.broker})
    producer.produce(f"{stream.definition.name}.models", write_model(forged), key=stream.definition.name.encode())
    assert producer.flush(PATIENCE_SECONDS) == 0


def years_ahead(model: Model) -> Model:
    return replace(model, watermark=now() + 10 * YEAR)


def a_source_is_years_ahead(model: Model) -> Model:
    first = replace(model.positions[0], watermark=now() + 10 * YEAR)
    return replace(model, positions=(first, *model.positions[1:]))


def is_told(stream: Stream, worker: ServiceProcess, change: Callable[[Model], Model]) -> bool:
    """Whether a worker has said that it passes watermarks over; if not, one more is forged."""
    told = "farther ahead of the log than max_skew and are passed over" in worker.log
    if not told:
        forge(stream, change)
    return told


def restart(stream: Stream) -> None:
    """End a worker and a merger, if there are, and start others."""
    for service in stream.processes:
        if service.running:
            service.terminate()
    stream.start("worker").wait_for("claimed local/2")
    stream.start("merger")


def test_one_clock_that_is_ahead_costs_its_own_rows_and_nobody_elses(stream: Stream) -> None:
    restart(stream)
    before = now()
    send(stream, "before", range(before - 50 * SECOND, before, SECOND))
    wait_for_live(stream, 50, "rows of the last minute are live")
    ahead = [HOUR * 9 // 10, 2 * HOUR, 23 * HOUR, 10 * YEAR]
    send(stream, "fast", [now() + far for far in ahead])
    send(stream, "after", [now()] * 50)
    model = wait_for_live(stream, 100, "rows that came after it are live beside those of before")
    assert model.totals["refused bogus time"] == len(ahead)
    assert model.totals.get("late", 0) == model.totals.get("expired", 0) == 0
    wait_until(lambda: len(letters(stream)) == len(ahead), "each row of the fast clock has its letter")
    assert all("ahead of the log, expected at most 360000 ms (max_skew)" in letter.reason for letter in letters(stream))

    restart(stream)
    send(stream, "again", [now() + 2 * HOUR, now()])
    wait_for_live(stream, 101, "so it is after a restart")
    assert stream.run("audit").stdout.endswith("equal\n")


def test_a_forged_model_empties_no_window(stream: Stream) -> None:
    restart(stream)
    worker = stream.processes[0]
    before = now()
    send(stream, "before", range(before - 60 * 58 * SECOND, before, 60 * SECOND))
    wait_for_live(stream, 58, "rows of the last hour are live")
    for round_of, change in enumerate((years_ahead, a_source_is_years_ahead)):
        forge(stream, change)
        if not round_of:
            # A worker looks at the newest model of those that came together; the merger may have published above it.
            said = partial(is_told, stream, worker, change)
            wait_until(said, "the worker says that watermarks are passed over")
        send(stream, f"after {round_of}", [now()] * 30)
        wait_for_live(stream, 58 + 30 * (round_of + 1), "what was live is live, and what came since")
    # The newest record of the topic may be a forged one when services start again.
    forge(stream, years_ahead)
    restart(stream)
    send(stream, "later", [now()] * 2)
    model = wait_for_live(stream, 120, "so it is after a restart")
    assert model.watermark <= now() + stream.definition.max_skew_milliseconds
    assert model.totals.get("late", 0) == model.totals.get("expired", 0) == 0
    assert stream.run("audit").stdout.endswith("equal\n")


def test_a_forged_delta_moves_the_windows_of_no_other_source(stream: Stream) -> None:
    restart(stream)
    before = now()
    send(stream, "before", range(before - 60 * 58 * SECOND, before, 60 * SECOND))
    # Until every source has heard how far the others are there are more deltas to come.
    model = stream.wait_for_model(
        lambda model: live(model) == 58 and {place.watermark for place in model.positions} == {model.watermark},
        "rows of the last hour are live, and all is quiet",
    )
    definition = stream.definition
    place = next(position for position in model.positions if position.source.partition == 0)
    tile = Tile(place.sequence, place.samples, place.samples, place.retirements, place.retirements)
    rebuild, nothing = Rebuild(watermark=now() + 10 * YEAR), Statistics(definition.dimension)
    delta = Delta(place.source, place.owner, definition.stream_fingerprint, tile, rebuild, nothing)
    producer = Producer({"bootstrap.servers": stream.settings.central_cluster.broker})
    producer.produce(f"{definition.name}.deltas", write_delta(delta), key=b"local/0", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    stream.processes[1].wait_for("1 watermarks of deltas and checkpoints are farther ahead of the log")
    send(stream, "after", [now()] * 60)
    records = read_topic(stream.settings.site_cluster.broker, f"{definition.name}.samples")
    elsewhere = [record.key() or b"" for record in records if record.partition() != 0]
    model = stream.wait_for_model(
        lambda model: sum(p.samples for p in model.positions if p.source.partition != 0) == len(elsewhere),
        "the other sources go on",
    )
    assert live(model) >= 58 + sum(key.startswith(b"after") for key in elsewhere) > 58
    assert model.watermark <= now() + definition.max_skew_milliseconds


@pytest.mark.parametrize(("unit", "per_second"), [("microseconds", 10**6), ("nanoseconds", 10**9)])
def test_a_unit_that_is_too_small_is_named_in_the_letter_of_each_row(
    stream: Stream, unit: str, per_second: int
) -> None:
    restart(stream)
    send(stream, unit, [int((time.time() - 36 * at) * per_second) for at in range(100)])
    wait_until(lambda: len(letters(stream)) == 100, "each row has a letter")
    assert all(f"it looks like {unit} since the epoch, expected milliseconds" in one.reason for one in letters(stream))


def test_seconds_are_named_in_the_log_while_the_window_is_empty_and_in_each_letter_afterwards(stream: Stream) -> None:
    restart(stream)
    send(stream, "seconds", [int(time.time()) - 36 * at for at in range(100)])
    wait_for_live(stream, 100, "a window without other rows takes them for what they say")
    stream.processes[0].wait_for(r"rows have event times that look like seconds since the epoch", 3)
    send(stream, "right", [now()])
    wait_for_live(stream, 1, "one row of today, and those of 1970 have left")
    send(stream, "still seconds", [int(time.time())] * 5)
    wait_until(lambda: len(letters(stream)) == 5, "each late row has a letter")
    assert all("it looks like seconds since the epoch, expected milliseconds" in one.reason for one in letters(stream))


def test_topics_whose_records_are_stamped_by_their_producers_are_found(stream: Stream) -> None:
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    name = f"{stream.definition.name}.samples"
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": stream.settings.site_cluster.broker})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    said = stream.run("topics", "check", code=1)
    assert f"{name} on the site cluster: message.timestamp.type: expected LogAppendTime, got CreateTime" in (
        said.stdout + said.stderr
    ).replace("\n", " ")


def test_a_stream_of_before_is_told_the_line_that_its_definition_lacks(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    window = {"length": "1h"}
    with Stream.made(tmp_path / "old", stream_name, kafka.bootstrap, window=window, max_skew="1d") as old:
        old.start("worker").wait_for("claimed local/1")
        old.start("merger")
        send(old, "old", [now()] * 10)
        wait_for_live(old, 10, "a stream with a max_skew of a day is what it was")
        with Stream.of(tmp_path / "new", stream_name, kafka.bootstrap, window=window) as new:
            for command in ("worker", "merger", "audit"):
                ended = subprocess.run(
                    new.line(command), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
                )
                assert ended.returncode == 2, ended.stderr
                assert 'add the line max_skew = "1d"' in " ".join(ended.stderr.split())
