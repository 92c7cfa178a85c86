"""What a replay holds does not grow with its rounds: neither points nor logs keep statistics that have passed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.model import Model
from deltaplane.log.prequential import PrequentialSeries
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane_services.embedded import embedded_broker, embedded_runner
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, MODELS, Encoding, Outgoing
from deltaplane_services.replay.pipeline import EmbeddedPipeline

FEATURES = 120
ROWS = 50
STATE_BYTES = 10 * 8 * (FEATURES + 1) * (FEATURES + 2) // 2
"""Of the statistics: two classes in each of five windows."""


def wide_stream() -> StreamDefinition:
    return StreamDefinition.from_tables(
        {
            "name": "wide",
            "features": {"names": [f"f{at}" for at in range(FEATURES)]},
            "grid": {"steps": [1.0] * FEATURES},
            "window": {"length": ["100", "200", "400", "800", "all"]},
            "classes": {"positive": "b"},
            "solver": {"C": 1.0, "weighting": "none"},
        }
    )


def rounds(pipeline: EmbeddedPipeline, definition: StreamDefinition, count: int) -> Iterator[Model]:
    """The model after each of some rounds of rows made from a seed."""
    random = np.random.default_rng(3)
    for turn in range(count):
        codes = random.integers(0, 2, ROWS).astype(np.int32)
        rows = np.rint(5.0 * random.normal(size=(ROWS, FEATURES)) + codes[:, None])
        samples = Samples.of_record([f"{turn}-{at}" for at in range(ROWS)], 0, ("a", "b"), codes, rows)
        pipeline.publish([codec_of(definition).sample_batch(0, samples)], 0)
        pipeline.advance(0)
        if pipeline.model is not None:
            yield pipeline.model


def reachable(start: object) -> Iterator[object]:
    """Everything that is kept in memory as long as an object is, but for classes and modules."""
    seen, todo = set[int](), [start]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType)):
            continue
        seen.add(id(one))
        yield one
        # Of a function what it has closed over, and not the module that it is from.
        todo += (one.__closure__ or ()) if isinstance(one, FunctionType) else gc.get_referents(one)


def array_bytes(start: object) -> int:
    return sum(one.nbytes for one in reachable(start) if isinstance(one, np.ndarray) and one.base is None)


def test_no_point_of_the_series_holds_statistics_or_candidates() -> None:
    definition, series = wide_stream(), PrequentialSeries()
    pipeline = EmbeddedPipeline(definition, 0)
    for turn, model in enumerate(rounds(pipeline, definition, 6)):
        series.add(turn * ROWS + ROWS, model)
    points = series.points(6 * ROWS, pipeline.model)
    assert sum(point.plane is not None for point in points) >= 5
    assert all(point.leaning is not None for point in points[1:])
    assert not [type(one) for one in reachable(points) if isinstance(one, (Statistics, Moments, Model))]
    assert array_bytes(points) < 3 * len(points) * 8 * FEATURES


def test_the_logs_in_memory_are_let_go_of_by_their_bytes() -> None:
    definition = wide_stream()
    pipeline = EmbeddedPipeline(definition, 0)
    broker = pipeline._runner.broker
    most = max(array_bytes(broker) for _ in rounds(pipeline, definition, 60))
    allowed = embedded_runner.DELTAS_BYTES + embedded_broker.COMPACT_ABOVE_BYTES + 4 * STATE_BYTES
    assert allowed < 60 * STATE_BYTES
    assert most < allowed


def test_the_bytes_that_a_log_takes_are_those_of_what_its_records_hold() -> None:
    definition = wide_stream()
    pipeline = EmbeddedPipeline(definition, 0)
    broker = pipeline._runner.broker
    for _ in rounds(pipeline, definition, 4):
        deltas = broker.fetch_topic(DELTAS)
        counted = sum(record.message.change.nbytes for record in deltas if hasattr(record.message, "change"))
        claims = sum(len(record.content) for record in deltas if isinstance(record.content, bytes))
        assert broker.nbytes(DELTAS, 0) == counted + claims
    assert counted > STATE_BYTES


def test_a_checkpoint_more_or_less_changes_no_digest_and_no_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    definition, models = wide_stream(), list[Any]()
    for most in (embedded_runner.DELTAS_BYTES, 0):
        monkeypatch.setattr(embedded_runner, "DELTAS_BYTES", most)
        pipeline = EmbeddedPipeline(definition, 0)
        models.append(list(rounds(pipeline, definition, 10))[-1])
        assert bool(pipeline._runner.broker.fetch_topic(CHECKPOINTS)) == (most == 0)
    often, never = models
    assert often.digest == never.digest
    assert often.plane.weights.tobytes() == never.plane.weights.tobytes()
    assert often.scores == never.scores


def test_a_compacted_log_of_large_records_keeps_few_of_them_and_always_the_newest() -> None:
    broker = EmbeddedBroker(1, keep_messages=True)
    for at in range(100):
        content = Encoding("a model", str(at).encode, 2**20)
        broker.append(Outgoing(MODELS, 0, b"stream", content), at)
        broker.append(Outgoing(CHECKPOINTS, 0, str(at % 3).encode(), bytes(2**20)), at)
        assert broker.nbytes(MODELS, 0) <= embedded_broker.COMPACT_ABOVE_BYTES + 3 * 2**20
        assert broker.nbytes(CHECKPOINTS, 0) <= embedded_broker.COMPACT_ABOVE_BYTES + 7 * 2**20
        assert broker.fetch_topic(MODELS)[-1].value == str(at).encode()
    assert {record.key for record in broker.fetch_topic(CHECKPOINTS)} == {b"0", b"1", b"2"}
    assert [record.log_time for record in broker.fetch_topic(CHECKPOINTS)][-3:] == [97, 98, 99]


def test_few_small_records_are_compacted_by_their_number_alone() -> None:
    broker = EmbeddedBroker(1)
    for at in range(embedded_broker.COMPACT_ABOVE):
        broker.append(Outgoing(MODELS, 0, b"stream", b"small"), at)
    assert len(broker.fetch_topic(MODELS)) == embedded_broker.COMPACT_ABOVE
