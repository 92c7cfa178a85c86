"""Checkpoints that their topic is too small for: said, counted, tried again, and no reason to stop for anyone."""

from __future__ import annotations

from pathlib import Path

from deltaplane.reference import Reference
from deltaplane.wire import read_checkpoint
from kafka.clients import read_topic, wait_until
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_foreign_logs import digest_of
from kafka.test_topics import alter, config_of
from kafka.test_topics_made_anew import send


def test_a_checkpoint_that_is_larger_than_its_topic_admits_stops_no_model_and_is_written_once_it_fits(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}) as stream:
        topic = f"{stream_name}.checkpoints"
        right = config_of(kafka.bootstrap, topic)["max.message.bytes"]
        reference = Reference(stream.definition)

        def checkpointed() -> int:
            """How far the checkpoints of the source have come."""
            dimensions = stream.definition.dimensions
            found = [read_checkpoint(one.value(), dimensions) for one in read_topic(kafka.bootstrap, topic)]
            return max((one.state.samples_position for one in found), default=0)

        stream.start("worker")
        merger = stream.start("merger")
        send(stream, 100).tell(reference)
        stream.wait_for_digest(digest_of(reference), "all rows")
        wait_until(lambda: checkpointed() > 0, "a checkpoint")
        alter(kafka.bootstrap, topic, {"max.message.bytes": "200"})
        send(stream, 100, ids_from=500).tell(reference)
        stream.wait_for_digest(digest_of(reference), "rows behind the last checkpoint that fits")
        merger.wait_for(f"are more than {topic} admits")
        before = checkpointed()
        # It is said once, however often it is tried.
        send(stream, 100, ids_from=900).tell(reference)
        stream.wait_for_digest(digest_of(reference), "rows behind a refused checkpoint")
        assert checkpointed() == before
        assert merger.running
        assert "beginning again" not in merger.log
        # Who starts meanwhile begins at the older one, and has the same model.
        merger.kill()
        merger = stream.start("merger")
        send(stream, 100, ids_from=1300).tell(reference)
        stream.wait_for_digest(digest_of(reference), "after a restart")
        alter(kafka.bootstrap, topic, {"max.message.bytes": right})
        wait_until(lambda: checkpointed() > before, "a checkpoint that fits again")
        assert stream.run("audit").stdout.endswith("equal\n")
