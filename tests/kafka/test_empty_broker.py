"""A broker that comes back with nothing on its disk: services say so, and go on once there are topics again."""

from __future__ import annotations

import shutil
from pathlib import Path

from deltaplane.reference import Reference
from deltaplane_services.client import LiveModel
from kafka import distribution
from kafka.clients import wait_until
from kafka.cluster import KafkaCluster
from kafka.conftest import StartKafka
from kafka.services import Stream
from kafka.test_topics_made_anew import read, readiness, send, start_worker


def come_back_empty(cluster: KafkaCluster) -> None:
    """Kill the node, take everything from its disk, and start it again under its own name."""
    (home,) = cluster.directories
    cluster.kill(1)
    identity = (home / "data" / "meta.properties").read_text()
    shutil.rmtree(home / "data")
    shutil.copytree(distribution.prepare().formatted, home / "data")
    (home / "data" / "meta.properties").write_text(identity)
    cluster.restart(1)


def test_services_on_a_broker_that_comes_back_empty_say_so_and_go_on_once_there_are_topics(
    start_kafka: StartKafka, tmp_path: Path, stream_name: str
) -> None:
    cluster = start_kafka()
    service = {"checkpoint_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, cluster.bootstrap, service=service, window={"length": "all"}) as stream:
        worker, port = start_worker(stream)
        merger, scorer = stream.start("merger"), stream.start("scorer")
        old = send(stream, 100)
        wait_until(lambda: read(stream) == 100, "all rows are learned")
        with LiveModel(stream.settings) as live:
            live.wait(30.0)
            before = live.predict(old.features[:5])

            come_back_empty(cluster)
            wait_until(lambda: readiness(port)[0] == 503, "the worker is not ready")
            assert list(live.predict(old.features[:5])) == list(before), "the last good model stays in force"
            stream.run("topics", "create")
            rows = send(stream, 150, ids_from=1000)
            reference = Reference(stream.definition)
            rows.tell(reference)
            digest = reference.statistics().digest(stream.definition.data_fingerprint)
            stream.wait_for_digest(digest, "the rows of the new topics, and nothing else")
            wait_until(lambda: live.model is not None and live.model.digest == digest, "the client has it, too")
            wait_until(lambda: readiness(port)[0] == 200, "the worker is ready")
        assert stream.run("audit").stdout.endswith("equal\n")
        for one in (worker, merger, scorer):
            assert "Traceback" not in one.log
            assert "AssertionError" not in one.log
        assert all(one.running for one in (worker, merger, scorer))
