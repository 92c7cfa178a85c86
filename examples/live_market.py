"""Publish the electricity market again and again, as it might come: events, labels that come late, and questions.

    python examples/live_market.py examples/electricity.csv.gz --definition deploy/deltaplane.toml --broker HOST:PORT

It plays whoever has Kafka: events in JSON on one topic, and their labels on another, which [intake] of the definition
names. Of each event a scorer is asked when it comes, under the event's id, so that a judge can hold the answer against
the label. Some labels come twice, some are corrected, and some never come. When the file is at its end it begins again,
under other ids. One seed decides all of it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import heapq
import io
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deltaplane.errors import DeltaplaneError
from deltaplane_services import NoAnswer, QueryClient
from deltaplane_services.definition_file.definition_tables import load_tables

NEVER, TWICE, CORRECTED = 0.02, 0.02, 0.01
"""The shares of labels that never come, that come twice, and that are wrong at first."""

TICK_SECONDS = 0.2
PARTITIONS = 3
ANSWER_SECONDS = 1.0


def events(file: Path, label: str, names: list[str]) -> Iterator[tuple[str, dict[str, float], str]]:
    """Endlessly: an id, the features, and the label of each row of a file."""
    for turn in range(sys.maxsize):
        data = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text("utf-8")
        for line, row in enumerate(csv.DictReader(io.StringIO(data)), start=2):
            yield f"{turn}-{line}", {name: float(row[name]) for name in names}, row[label]


def make_topics(broker: str, topics: tuple[str, str]) -> None:
    """Make what is not there yet."""
    admin = AdminClient({"bootstrap.servers": broker})
    wanted = [NewTopic(topic, num_partitions=PARTITIONS) for topic in topics]
    for topic, made in admin.create_topics(wanted).items():
        try:
            made.result()
        except KafkaException as fault:
            if fault.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise SystemExit(f"topic {topic}: {fault}") from fault


def play(options: argparse.Namespace) -> None:
    """Publish until interrupted, or until so many seconds are over."""
    tables = load_tables(options.definition)
    intake, names = tables["intake"], list(tables["features"]["names"])
    labels_topic = intake["labels"]["topic"]
    make_topics(options.broker, (intake["topic"], labels_topic))
    chance = random.Random(options.seed)  # noqa: S311 - a made market has no secrets.
    out = Producer({"bootstrap.servers": options.broker, "linger.ms": 20})
    rows = events(options.file, tables["input"]["label"], names)
    # Moment, number (so that equal moments have an order), id, label.
    due: list[tuple[float, int, str, str]] = []
    sent = answered = 0
    began = time.monotonic()
    with QueryClient.connect(options.definition, broker=options.broker) as client:
        while options.seconds is None or time.monotonic() - began < options.seconds:
            now = time.monotonic()
            asked: dict[str, dict[str, float]] = {}
            while sent < (now - began) * options.rate:
                sent += 1
                ref, features, label = next(rows)
                asked[ref] = features
                event = {"ref": ref, "at": time.time_ns() // 1_000_000, **features}
                out.produce(intake["topic"], json.dumps(event).encode(), key=f"area-{sent % 7}".encode())
                late = now + options.label_delay * chance.uniform(0.5, 1.5)
                told = ["0" if label == "1" else "1", label] if chance.random() < CORRECTED else [label]
                told += [label] if chance.random() < TWICE else []
                for at, one in enumerate([] if chance.random() < NEVER else told):
                    heapq.heappush(due, (late + at, sent, ref, one))
            while due and due[0][0] <= now:
                _, _, ref, label = heapq.heappop(due)
                out.produce(labels_topic, json.dumps({"ref": ref, "moved": label}).encode(), key=ref.encode())
            out.poll(0)
            try:
                rows_asked = [list(features.values()) for features in asked.values()]
                answered += len(client.ask_all(rows_asked, ANSWER_SECONDS, ids=list(asked))) if asked else 0
            except NoAnswer:
                pass  # There is no model yet, or no scorer; the market goes on.
            time.sleep(max(0.0, now + TICK_SECONDS - time.monotonic()))
    out.flush(10.0)
    print(f"{sent:,} events, {answered:,} answers, {len(due):,} labels that had not come")


def main() -> None:
    """Read the command line, and play."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--definition", type=Path, required=True)
    parser.add_argument("--broker", required=True)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")
    parser.add_argument("--label-delay", type=float, default=30.0, help="seconds until a label comes, on average")
    parser.add_argument("--seconds", type=float, help="how long; for ever by default")
    parser.add_argument("--seed", type=int, default=0)
    try:
        play(parser.parse_args())
    except DeltaplaneError as fault:
        raise SystemExit(f"live_market: {fault}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
