"""Two sites with a Kafka each and a central one: one model over both, and only statistics leave a site."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.log.records import Query
from deltaplane.reference import Reference
from deltaplane.wire import read_dead_letter, read_receipt, write_query, write_sample
from deltaplane_services.client import SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import DELTAS, QUERIES, SAMPLES, Outgoing
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.cluster import KafkaCluster
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

MARKED_ID = "patient-4711-of-site-a"
MARKED = np.array([98765.4321, -43210.98765, 31415.92653])
"""A raw row that occurs nowhere else."""


@dataclass
class Sites:
    """Two sites, their workers, one merger and one scorer, and a batch account of each site."""

    a: Stream
    b: Stream
    central: str
    workers: dict[str, ServiceProcess]
    references: dict[str, Reference]

    def send(self, site: str, rows: Rows) -> None:
        stream = self.a if site == "a" else self.b
        with SampleProducer(stream.settings) as producer:
            for begin in range(0, len(rows), 100):
                part = slice(begin, begin + 100)
                producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])
        rows.tell(self.references[site])

    def digest(self, *sites: str) -> str:
        """The digest of the batch over these sites."""
        first, *others = [self.references[site].statistics() for site in sites]
        return sum(others, first).digest(self.a.definition.data_fingerprint)

    def wait_for(self, what: str, *sites: str) -> Model:
        """The first model that equals the batch over these sites."""
        self.b.check_running()
        return self.a.wait_for_digest(self.digest(*sites), what)


@pytest.fixture
def sites(
    kafka: RunningKafka, second_kafka: KafkaCluster, third_kafka: KafkaCluster, tmp_path: Path, stream_name: str
) -> Iterator[Sites]:
    settings = {"checkpoint_seconds": 0.5, "central_broker": kafka.bootstrap}
    with (
        Stream.made(tmp_path, stream_name, second_kafka.bootstrap, service=settings | {"site": "a"}) as a,
        Stream.made(tmp_path, stream_name, third_kafka.bootstrap, service=settings | {"site": "b"}) as b,
    ):
        a.start("merger")
        b.start("scorer")
        workers = {"a": a.start("worker"), "b": b.start("worker")}
        yield Sites(a, b, kafka.bootstrap, workers, {"a": Reference(a.definition), "b": Reference(b.definition)})


def topics_on(broker: str, prefix: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": broker})
    topics = admin.list_topics(timeout=PATIENCE_SECONDS).topics
    return {topic.removeprefix(f"{prefix}.") for topic in topics if topic.startswith(f"{prefix}.")}


def test_one_model_over_two_sites_and_nothing_but_statistics_on_the_central_cluster(
    sites: Sites, second_kafka: KafkaCluster, third_kafka: KafkaCluster
) -> None:
    definition, name = sites.a.definition, sites.a.definition.name
    marked = Rows(1500, seed=1)
    marked.ids[700], marked.features[700] = MARKED_ID, MARKED
    sites.send("a", marked)
    sites.send("b", Rows(1000, seed=2))
    # Poison at a site with a raw row in it, and a retirement: their answers stay there.
    spoiled = write_sample(MARKED_ID, 0, "perhaps", MARKED.tolist(), definition.data_fingerprint)
    at_site = publisher(sites.a.settings, "site")
    home = definition.partition_of(MARKED_ID)
    at_site.publish([Outgoing(SAMPLES, home, MARKED_ID.encode(), spoiled)])
    at_site.flush()
    sites.wait_for("over both sites", "a", "b")
    retired = sites.a.run("retire", MARKED_ID).stdout
    assert retired.startswith(f"{MARKED_ID}: retired, model ")
    sites.references["a"].retire(MARKED_ID)
    model = sites.wait_for("after a retirement at one of them", "a", "b")
    assert {position.source for position in model.positions} == {Source(s, p) for s in "ab" for p in range(2)}

    # What cannot be used of the central topics is dead-lettered there.
    in_centre = publisher(sites.b.settings, "central")
    in_centre.publish([Outgoing(topic, 1, b"poison", secrets.token_bytes(50)) for topic in (DELTAS, QUERIES)])
    query = write_query(Query("question", np.array([1.0, 2.0, 3.0]), definition.data_fingerprint))
    in_centre.publish([Outgoing(QUERIES, 0, b"question", query)])
    in_centre.flush()
    wait_until(lambda: len(read_topic(sites.central, f"{name}.dead-letters")) == 2, "two dead letters in the centre")
    wait_until(
        lambda: len(read_topic(sites.central, f"{name}.predictions")) == 2, "an answer to each query in the centre"
    )

    sites_own = {"samples", "retirements", "receipts", "dead-letters"}
    assert topics_on(second_kafka.bootstrap, name) == topics_on(third_kafka.bootstrap, name) == sites_own
    in_the_centre = {"deltas", "checkpoints", "models", "queries", "predictions", "dead-letters"}
    assert topics_on(sites.central, name) == in_the_centre
    secrets_of_a = [MARKED_ID.encode(), b"patient", b"row-", *(b"%r" % value for value in MARKED.tolist())]
    secrets_of_a += [value.tobytes() for value in MARKED] + [value.astype("<f4").tobytes() for value in MARKED]
    seen = 0
    for topic in in_the_centre:
        for record in read_topic(sites.central, f"{name}.{topic}"):
            for part in (record.key(), record.value(), repr(record.headers()).encode()):
                assert not any(secret in (part or b"") for secret in secrets_of_a), f"{topic} at {record.offset()}"
                seen += len(part or b"")
    assert seen > 1000
    letters = [read_dead_letter(one.value()) for one in read_topic(second_kafka.bootstrap, f"{name}.dead-letters")]
    assert [(one.topic, one.kind) for one in letters] == [("samples", "unknown class")]
    receipts = [read_receipt(one.value()) for one in read_topic(second_kafka.bootstrap, f"{name}.receipts")]
    assert [(one.id, one.outcome, one.source.site) for one in receipts] == [(MARKED_ID, "retired", "a")]
    assert read_topic(third_kafka.bootstrap, f"{name}.dead-letters") == []

    for stream, own, other in ((sites.a, "a", "b"), (sites.b, "b", "a")):
        audited = stream.run("audit").stdout
        assert audited.endswith("equal\n")
        own_sources = [line for line in audited.splitlines() if line.startswith(f"{own}/")]
        assert len(own_sources) == 2
        assert all(line.endswith(": equal") for line in own_sources)
        assert audited.count("of another site") == 2, f"those of {other}"


def test_a_site_that_was_cut_off_catches_up_by_itself(sites: Sites, second_kafka: KafkaCluster) -> None:
    sites.send("a", Rows(500, seed=1))
    sites.send("b", Rows(500, seed=2))
    sites.wait_for("before the site is cut off", "a", "b")

    second_kafka.kill(1)
    sites.send("b", Rows(500, seed=3, ids_from=500))
    sites.wait_for("the other site goes on", "a", "b")
    second_kafka.restart(1)
    sites.send("a", Rows(500, seed=4, ids_from=500))

    sites.wait_for("after the site came back", "a", "b")
    assert sites.workers["a"].running
    assert sites.a.run("audit").stdout.endswith("equal\n")


def test_a_removed_site_leaves_exactly_and_does_not_come_back_unasked(sites: Sites) -> None:
    sites.send("a", Rows(500, seed=1))
    sites.send("b", Rows(700, seed=2))
    sites.wait_for("over both sites", "a", "b")

    removed = sites.a.run("source", "remove", "b", "--reason", "left the trial").stdout

    assert removed.count("removed") == 2
    assert f"digest {sites.digest('a')}" in removed
    another = sites.b.start("worker")
    another.wait_for(r"source b/[01] is set aside, .* it was removed from stream")
    sites.workers["b"].wait_for(r"source b/[01] is set aside, .* it was removed from stream")
    sites.send("a", Rows(300, seed=3, ids_from=500))
    sites.wait_for("the other site goes on alone", "a")
    assert sites.a.run("audit").stdout.endswith("equal\n")

    sites.a.run("source", "admit", "b")

    sites.wait_for("after it was let in again", "a", "b")
    assert sites.b.run("audit").stdout.endswith("equal\n")
