"""The records of the topics: each decoder by itself, and the processors that must go on as if nothing had come."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from prometheus_client.exposition import generate_latest

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceOrder, SourceState, Tile, Verdict
from deltaplane.log.model import Model
from deltaplane.log.records import NamedQuery, Query, Unanswered
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    read_answer,
    read_model,
    write_claim,
    write_delta,
    write_model,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
    write_query,
    write_retirement,
    write_sample,
    write_sample_batch,
    write_source_order,
)
from deltaplane.wire.frame import read_record, write_record
from deltaplane_services.observe.metrics import MergerMetrics
from deltaplane_services.operations.model_listing import model_as_json, model_line
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import DELTAS, QUERIES, RETIREMENTS, SAMPLES, Output, Record
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor
from fuzz.mutation import WHOLE
from fuzz.target import Broken, Target
from golden.wire_examples import EXAMPLES, MODEL, PLANE, Example, by_content

FLOATS = (0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 2.0**53, 1e300, float("inf"), float("-inf"), float("nan"))
BYTES_PER_BYTE = 100
"""Memory that a byte of a message may take while it is decoded. The densest there is are scores, 3 bytes each."""

LARGE_ITEM = 1000
"""Characters of an item that is not repeated a hundred thousand times."""

TEXTS = ("", "a", "UP", "not UP", "\0", "\U0001f600" * 70, "x" * 300, "{", "[bold]", '{"UP": 1e999}', "no", "yes")

# One field of a record ----------------------------------------------------------------------------------------------


def reshaped(schemas: tuple[str, ...]) -> Callable[[random.Random, bytes], bytes]:
    """Damage to one field of a record, or a few, that its schema still allows; what is no record is left alone."""

    def reshape(chance: random.Random, data: bytes) -> bytes:
        try:
            name, fields = read_record(data, schemas)
            for _ in range(chance.choice((1, 1, 2, 4))):
                fields = _other(chance, fields)
            return write_record(name, fields)
        except WireError:
            return data

    return reshape


def _other(chance: random.Random, value: Any) -> Any:  # noqa: PLR0911 - one type, one return.
    """A value of the same type, but another; of a container, with one part of it changed, gone, or there twice."""
    match value:
        case bool():
            return not value
        case int():
            return chance.choice((*WHOLE, value + 1, value - 1, -(2**63)))
        case float():
            return chance.choice((*FLOATS, -value, value * 2**600))
        case str():
            return chance.choice((*TEXTS, value + value, value[1:]))
        case bytes():
            return _other_bytes(chance, value)
        case dict() if value:
            key = chance.choice(sorted(value))
            return {**value, key: _other(chance, value[key])}
        case list() if value:
            at = chance.randrange(len(value))
            times = 2 if chance.random() < 0.95 else chance.choice((300, 2**17))
            # What is large in itself would not fit the memory of this process so many times over.
            times = min(times, 300) if len(repr(value[at])) > LARGE_ITEM else times
            parts = ([], [value[at]] * times, [_other(chance, value[at])])[chance.choice((0, 1, 2, 2, 2))]
            return [*value[:at], *parts, *value[at + 1 :]]
        case None:
            return chance.choice((None, 0, "x", 1.0, [1.0, 2.0]))
        case _:
            return value


def _other_bytes(chance: random.Random, value: bytes) -> bytes:
    """Arrays travel as bytes: one number of them changed, or one more, or one less."""
    at = 8 * chance.randrange(max(1, len(value) // 8))
    number = (
        np.array([chance.choice(WHOLE)], dtype="<i8") if chance.random() < 0.5 else np.array([chance.choice(FLOATS)])
    )
    match chance.randrange(4):
        case 0:
            return value[:at] + value[at + 8 :]
        case 1:
            return value[:at] + number.tobytes() + value[at:]
        case _:
            return value[:at] + number.tobytes() + value[at + 8 :]


# Decoders by themselves ----------------------------------------------------------------------------------------------


def _decoder(example: Example) -> Target:
    def take(data: bytes) -> str:
        if len(data) <= limits.UNWALKED_BYTES:
            example.read(data)
            return "read"
        tracemalloc.start()
        try:
            example.read(data)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > BYTES_PER_BYTE * len(data):
                raise Broken(f"{len(data)} bytes took {peak} bytes of memory")
        return "read"

    return Target(f"decode {example.name}", (example.golden(),), take, reshape=reshaped((example.schema,)))


# Processors ----------------------------------------------------------------------------------------------------------

SOURCE = Source("local", 0)
NOW = 1_700_000_000_000


def _stream(**tables: Any) -> StreamDefinition:
    given: dict[str, Any] = {
        "name": "s",
        "features": {"names": ["a", "b"]},
        "grid": {"steps": [1.0, 0.5]},
        "classes": {"names": ["no", "yes"], "positive": "yes"},
        "window": {"length": ["20", "40"]},
        "solver": {"C": [0.1, 10.0]},
    }
    return StreamDefinition.from_tables({**given, **tables})


STREAM = _stream()
TIMED = _stream(window={"length": "10s"}, classes={}, features={"names": ["a", "b"], "missing": "offset"})
UNKEPT = _stream(window={"length": "all", "keep_rows": False})
NAMED = _stream(
    columns={
        "rules": [
            {"column": "a", "kind": "number", "fill": 2.0, "log": True},
            {"column": "b", "kind": "boolean", "missing": "refuse"},
            {"column": "c", "kind": "category", "levels": ["x", "Zürich"]},
            {"column": "d", "kind": "hashed", "buckets": 3, "missing": "fill"},
            {"column": "e", "kind": "time", "parts": ["hour", "days"], "missing": "fill"},
        ]
    },
    features={},
    grid={"steps": [2.0**-20] * 13},
)
CELLS: dict[str, Any] = {"a": -1.5, "b": True, "c": "Zürich", "d": 5411, "e": "2026-11-29T18:00:00.5+01:00"}
ROWS = np.array([[1.0, 2.0], [3.0, 0.5], [2.0, 2.5], [-1.0, 0.0], [-2.0, 1.0], [-3.0, 4.0]])
LABELS = ("no", "yes")


def _batch(first: int, features: int = 2) -> Samples:
    rows = len(ROWS)
    return Samples(
        ids=[f"id-{first + at}" for at in range(rows)],
        event_times=np.arange(NOW, NOW + rows, dtype=np.int64),
        label_table=LABELS,
        label_codes=np.array([0, 0, 0, 1, 1, 1], dtype=np.int32),
        features=np.pad(ROWS + first, ((0, 0), (0, features - 2))),
        offsets=np.zeros(rows, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, NOW, dtype=np.int64),
    )


def _record(topic: str, offset: int, value: bytes) -> Record:
    return Record(topic, 0, offset, NOW, b"key", value)


def _check_published(output: Output) -> None:
    """What is published must be readable by whoever reads it."""
    for out in (*output.first, *output.then):
        if out.topic == "models":
            read_model(out.value)


def _change(first: int) -> Statistics:
    quantized = {"no": ROWS[:3] + first, "yes": ROWS[3:] + first}
    return Statistics(3, {(w, label): Moments.of_rows(rows) for label, rows in quantized.items() for w in (0, 1)})


def _delta(sequence: int, definition: StreamDefinition = STREAM) -> Delta:
    tile = Tile(sequence, sequence, sequence + 1, 0, 0)
    fingerprint = definition.stream_fingerprint
    return Delta(SOURCE, "w", fingerprint, tile, Rebuild(), _change(sequence), counts={"applied": 6})


def _merged(between: bytes | None = None) -> tuple[MergerProcessor, str]:
    """A merger that took a claim and a delta, then this record, then the next delta; and what it said of the record."""
    merger = MergerProcessor(STREAM)
    claim = write_claim(Claim(SOURCE, "w", STREAM.stream_fingerprint))
    said = ""
    for offset, value in enumerate((claim, write_delta(_delta(0)), between, write_delta(_delta(1)))):
        if value is not None:
            before = dict(merger.verdicts)
            output = merger.process([_record(DELTAS, offset, value)])
            verdicts = [str(verdict) for verdict, count in merger.verdicts.items() if count != before[verdict]]
            said = ("dead letter" if output.first else verdicts[0]) if offset == 2 else said
            _check_published(merger.publish(NOW))
    _check_published(merger.checkpoints())
    return merger, said


def _model_of(merger: MergerProcessor) -> Model:
    assert merger.model is not None
    return merger.model


def _merger_target() -> Target:
    plain, _ = _merged()
    expected = _model_of(plain).digest

    def take(data: bytes) -> str:
        merger, said = _merged(data)
        harmless = said in {"dead letter", *map(str, (Verdict.STALE_WRITER, Verdict.REPEAT, Verdict.GAP))}
        if harmless and _model_of(merger).digest != expected:
            raise Broken(f"{said}, and the digest after it is another")
        return said

    tried = replace(_delta(1), prequential_counts=_tried(plain))
    order = write_source_order(
        SourceOrder(SOURCE, removed=True, reason="r", stream_fingerprint=STREAM.stream_fingerprint)
    )
    seeds = (
        write_delta(_delta(1)),
        write_delta(tried),
        write_claim(Claim(SOURCE, "v", STREAM.stream_fingerprint)),
        order,
    )
    return Target("merger", seeds, take, 0.5, reshape=reshaped(("delta", "claim", "source_order")))


def _tried(merger: MergerProcessor) -> Any:
    blend = _model_of(merger).blend
    assert blend is not None
    return blend.try_out(ROWS, np.array([0, 0, 0, 1, 1, 1]), LABELS)


def _worked(definition: StreamDefinition, topic: str, between: bytes | None) -> tuple[WorkerProcessor, list[Output]]:
    """A worker that took a batch, then this record, then another batch."""
    worker = WorkerProcessor(definition, SOURCE, "w")
    worker.claim()
    worker.restore(SourceState(SOURCE, Statistics(definition.dimension)))
    data = definition.data_fingerprint
    features = len(definition.features)
    values = [write_sample_batch(_batch(0, features), data), between, write_sample_batch(_batch(50, features), data)]
    if topic == RETIREMENTS:
        values = [values[0], values[2]]
    outputs = []
    for offset, value in enumerate(values):
        if value is not None:
            outputs.append(worker.process([_record(SAMPLES, offset, value)], []))
    if topic == RETIREMENTS and between is not None:
        outputs.append(worker.process([], [_record(RETIREMENTS, 0, between)]))
    outputs.append(worker.process([_record(SAMPLES, 5, write_sample_batch(_batch(100, features), data))], []))
    return worker, outputs


def _worker_target(name: str, definition: StreamDefinition, topic: str, seeds: tuple[bytes, ...]) -> Target:
    plain, _ = _worked(definition, topic, None)
    expected = plain.partition.statistics.digest(b"")
    named = () if definition.columns is None else ("named_sample", "named_sample_batch")
    schemas = ("sample", "sample_batch", *named) if topic == SAMPLES else ("retirement",)

    def take(data: bytes) -> str:
        worker, outputs = _worked(definition, topic, data)
        refused = [out for output in outputs for out in output.first if out.topic == "dead-letters"]
        whole = any(b"bad record" in (out.value or b"") or b"other definition" in (out.value or b"") for out in refused)
        if whole and worker.partition.statistics.digest(b"") != expected:
            raise Broken("a record became a dead letter, and the state after it is another")
        return "dead letter" if whole else "rows refused" if refused else "taken"

    return Target(f"worker {name}", seeds, take, 0.3, reshape=reshaped(schemas))


def _named_seeds() -> tuple[bytes, ...]:
    """Samples by name: one, and batches of texts, of codes, of numbers alone, and of many rows."""
    columns, data = NAMED.columns, NAMED.data_fingerprint
    assert columns is not None
    rows: list[dict[str, Any]] = [CELLS, {"b": 0}, {**CELLS, "a": None, "c": "y"}, {"b": "yes", "e": 5}, {"a": "x"}, {}]
    table = {name: [row.get(name) for row in rows] for name in columns.columns}
    many = Samples.of_record(["m"] * 300, NOW, LABELS, np.zeros(300, dtype=np.int32), np.empty((300, 0)))
    numbers = np.arange(300.0)
    wide: dict[str, Any] = {"a": numbers, "b": numbers % 2, "d": [f"text {at}" for at in range(300)]}
    return (
        write_named_sample("id-1", NOW, "yes", CELLS, columns, data),
        write_named_sample_batch(_batch(200), table, columns, data),
        write_named_sample_batch(_batch(3), {"a": numbers[:6], "b": [True] * 6}, columns, data),
        write_named_sample_batch(many, wide, columns, data),
    )


def _named_scorer_target() -> Target:
    columns, features = NAMED.columns, len(NAMED.features)
    assert columns is not None
    plane = replace(PLANE, classes=("no", "yes"), positive="yes", weights=np.ones((1, features)))
    good = write_named_query(NamedQuery("q", CELLS, NAMED.data_fingerprint), columns)
    dense = write_query(Query("q", np.zeros(features), NAMED.data_fingerprint))
    model = replace(MODEL, plane=plane, blend=None, data_fingerprint=NAMED.data_fingerprint)
    return replace(_scorer_target(NAMED, model, (good, dense)), name="scorer by name")


def _scorer_target(definition: StreamDefinition, model: Model, seeds: tuple[bytes, ...]) -> Target:
    good = seeds[0]

    def take(data: bytes) -> str:
        scorer = ScorerProcessor(definition)
        scorer.see_model(model)
        output = scorer.process([_record(QUERIES, 0, data), _record(QUERIES, 1, good)])
        told = [read_answer(one.value) for one in output.then]
        if len(told) != 2 or len(output.first) != sum(isinstance(one, Unanswered) for one in told):
            raise Broken("two queries did not get two answers, and a dead letter each that is none")
        return "dead letter" if output.first else "answered"

    return Target("scorer", seeds, take, 0.2, reshape=reshaped(("query", "named_query")))


def _asked(model: Model, query: Record) -> None:
    scorer = ScorerProcessor(STREAM)
    scorer.see_model(model)
    if scorer.ready:
        scorer.process([query])
    if model.blend is not None:
        model.blend.try_out(ROWS, np.array([0, 0, 0, 1, 1, 1]), LABELS)
    metrics = MergerMetrics(STREAM)
    metrics.model(model)
    generate_latest(metrics.registry)
    model_line(model, STREAM)
    json.dumps(model_as_json(model, STREAM))


def _model_target() -> Target:
    """A model as workers and scorers take it."""
    model = _model_of(_merged()[0])
    query = _record(QUERIES, 0, write_query(Query("q", np.array([1.0, 2.0]), STREAM.data_fingerprint)))

    def take(data: bytes) -> str:
        came = read_model(data)
        try:
            came.check(STREAM)
        except DefinitionMismatch:
            return "of another stream"
        except WireError:
            return "impossible in this stream"
        with np.errstate(all="ignore"):  # A plane of enormous weights says nothing, and that is all.
            _asked(came, query)
        merger = MergerProcessor(STREAM)
        merger.restore([], [Record("models", 0, 0, NOW, None, data)])
        merger.process([_record(DELTAS, 0, write_claim(Claim(SOURCE, "w", STREAM.stream_fingerprint)))])
        merger.process([_record(DELTAS, 1, write_delta(_delta(0)))])
        _check_published(merger.publish(NOW))
        return "used"

    return Target("model in use", (write_model(model),), take, 0.3, reshape=reshaped(("model",)))


def _by_stream(write: Callable[[bytes], tuple[bytes, ...]]) -> Mapping[str, tuple[StreamDefinition, tuple[bytes, ...]]]:
    streams = {"count": STREAM, "timed": TIMED, "unkept": UNKEPT}
    return {name: (stream, write(stream.data_fingerprint)) for name, stream in streams.items()}


def targets() -> list[Target]:
    """Every decoder, and the processors behind them."""
    samples = _by_stream(
        lambda data: (
            write_sample_batch(_batch(200), data),
            write_sample_batch(_batch(3), data, "float32"),
            write_sample("id-1", NOW, "yes", [0.5, -3.0], data),
        )
    )
    retirements = _by_stream(
        lambda data: (
            write_retirement(Retirement("id-1", "asked", 0, NOW), data),
            by_content("r", "no", (1.0, 2.0), data),
        )
    )
    query = write_query(Query("q", np.array([1.0, 2.0]), STREAM.data_fingerprint))
    return [
        *map(_decoder, EXAMPLES.values()),
        *(_worker_target(f"samples, {name}", stream, SAMPLES, seeds) for name, (stream, seeds) in samples.items()),
        *(_worker_target(f"retirements, {name}", at, RETIREMENTS, seeds) for name, (at, seeds) in retirements.items()),
        _merger_target(),
        _worker_target("samples, by name", NAMED, SAMPLES, _named_seeds()),
        _scorer_target(STREAM, _model_of(_merged()[0]), (query,)),
        _named_scorer_target(),
        _model_target(),
    ]
