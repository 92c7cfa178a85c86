"""``bench throughput`` on a real broker, in small: the answer is the batch's, and bytes are counted where they pass."""

from __future__ import annotations

import pytest

from deltaplane_benchmarks.speed import throughput
from deltaplane_benchmarks.speed.processes import Load
from deltaplane_services.processors.messages import DELTAS, SAMPLES
from kafka.selection import RunningKafka

SEED = 43


@pytest.mark.parametrize("batch", [0, 500])
def test_what_comes_off_the_wire_is_all_that_was_sent_and_less_of_it(kafka: RunningKafka, batch: int) -> None:
    load = Load(10_000, 20, SEED, batch)
    found = throughput.measure(kafka.bootstrap, load, "4000", lambda _: None)
    assert found.same_digest
    assert (found.samples.records, found.samples.bytes) == (load.messages, found.sent.bytes)
    # Rows of flags and small whole numbers: every codec makes less of them, and none makes nothing.
    assert 0 < found.samples.wire_bytes < found.samples.bytes
    assert found.deltas.records > 0
    assert 0 < found.deltas.wire_bytes < found.deltas.bytes
    assert found.codecs[SAMPLES] in {"zstd", "lz4"}
    assert found.codecs[DELTAS] in {"zstd", "lz4"}
