"""One value of every record, and how it is written and read: what the golden files are made from and compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import BooleanRule, CategoryRule, NumberRule, TimeRule
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceOrder, SourceState, Tile, TopicIds
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.partial import Partial
from deltaplane.log.records import Checkpoint, DeadLetter, NamedQuery, Prediction, Query, Receipt, Unanswered
from deltaplane.solve.aims import Aim
from deltaplane.solve.calibration import MEMORIES, Calibration, Tallies
from deltaplane.solve.candidates import Blend, Candidates
from deltaplane.solve.objectives import Objective
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.score_histograms import BINS, ScoreHistory
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    read_checkpoint,
    read_claim_or_delta,
    read_dead_letter,
    read_model,
    read_partial,
    read_prediction,
    read_query,
    read_receipt,
    read_retirement,
    read_samples,
    read_unanswered,
    write_checkpoint,
    write_claim,
    write_dead_letter,
    write_delta,
    write_model,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
    write_partial,
    write_prediction,
    write_query,
    write_receipt,
    write_retirement,
    write_sample,
    write_sample_batch,
    write_source_order,
    write_unanswered,
)
from deltaplane.wire.frame import HEADER_BYTES, read_record, write_record

DIRECTORY = Path(__file__).parent / "wire"
DATA, STREAM = bytes(range(16)), bytes(range(16, 32))
FEATURES, DIMENSION = 2, 3
OFFSET, LOG_TIME = 41, 1_700_000_000_123
SOURCE = Source("north", 3)
DIGEST = "0123456789abcdef" * 4

Bytes = bytes | None


@dataclass(frozen=True)
class Example:
    """A value with its golden bytes in the file ``<name>.hex``; ``schema`` is the record that it travels as."""

    name: str
    schema: str
    value: Any
    write: Callable[[], bytes]
    read: Callable[[Bytes], Any]

    @property
    def file(self) -> Path:
        """The golden file: hexadecimal digits, 32 bytes a line."""
        return DIRECTORY / f"{self.name}.hex"

    def golden(self) -> bytes:
        """The bytes that the file holds."""
        return bytes.fromhex(self.file.read_text("ascii"))


def _samples(ids: list[str], times: list[int], labels: list[str], features: list[list[float]]) -> Samples:
    table = tuple(dict.fromkeys(labels))
    rows = len(ids)
    return Samples(
        ids=ids,
        event_times=np.array(times, dtype=np.int64),
        label_table=table,
        label_codes=np.array([table.index(label) for label in labels], dtype=np.int32),
        features=np.array(features, dtype=np.float64),
        offsets=np.full(rows, OFFSET, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int64),
        log_times=np.full(rows, LOG_TIME, dtype=np.int64),
    )


def _read_samples(data: Bytes) -> Samples:
    return read_samples(data, FEATURES, DATA, OFFSET, LOG_TIME)


def _read_named(data: Bytes) -> Samples:
    return read_samples(data, len(COLUMNS.features), DATA, OFFSET, LOG_TIME, columns=COLUMNS)


def _read_deltas(data: Bytes) -> Claim | Delta | SourceOrder:
    return read_claim_or_delta(data, DIMENSION)


SINGLE = _samples(["id-1"], [1_600_000_000_000], ["UP"], [[0.5, -1e300]])
BATCH = _samples(
    ["a", "Zürich", "c" * 40], [0, -1, 2**62], ["UP", "DOWN", "UP"], [[0.1, -0.0], [float("nan"), 1e-310], [3.0, 4.0]]
)
NARROW = _samples(["a", "b"], [5, 6], ["UP", "UP"], [[0.5, -0.25], [float("inf"), 65_504.0]])

COLUMNS = Encoder(
    (
        NumberRule("amount", "fill", fill=12.5),
        CategoryRule("country", levels=("DE", "FR")),
        BooleanRule("known", "refuse"),
        TimeRule("begun", "fill", parts=("days",)),
    )
)
CELLS: dict[str, Any] = {"amount": 20, "country": "FR", "known": True, "begun": "1970-01-03T12:00:00Z"}
TABLE: dict[str, Any] = {
    "amount": [0.5, None, -7],
    "country": ["Zürich", None, "DE"],
    "known": [True, "no", 2],
    "begun": np.array([0.0, np.nan, 86_400.0]),
}
# amount; country DE, FR, other, missing; known; days.
NAMED_SINGLE = _samples(["id-1"], [1_600_000_000_000], ["UP"], [[20.0, 0.0, 1.0, 0.0, 0.0, 1.0, 2.5]])
NAMED_BATCH = replace(
    _samples(
        ["a", "Zürich", "c" * 40],
        BATCH.event_times.tolist(),
        ["UP", "DOWN", "UP"],
        [[0.5, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0], [12.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [math.nan] * 7],
    ),
    unread={
        2: "column 'known' is neither true nor false (yes or no, y or n, t or f, 1 or 0): 2.0; correct the value, count"
        " it among columns.missing, or make the column a category"
    },
)

REBUILD = Rebuild(window_from=120, memory_from=100, retirements_window_from=7, slots_to=99, watermark=-5)
STATISTICS = Statistics(
    DIMENSION,
    {
        (0, "DOWN"): Moments.of_rows(np.array([[3, -4]])),
        (0, "UP"): Moments.of_rows(np.array([[2**30 - 1, 1 - 2**30]] * 20)),
        (1, "DOWN"): Moments.of_rows(np.array([[3, -4], [5, 6]])),
    },
)
SCORES = Confusion({("DOWN", "UP"): 3, ("UP", "UP"): 2**40})

CLAIM = Claim(SOURCE, "worker-0.1.3", STREAM)
TOPICS = TopicIds("q8sTzmHzQbSRlHrKCEbTZA", "0ZtXnlGPQXmWkqVbIGAKng")
CLAIM_ANCHORED = replace(CLAIM, topics=TOPICS)
ORDER = SourceOrder(SOURCE, removed=True, reason="contract ended", stream_fingerprint=STREAM)
DELTA = Delta(
    source=SOURCE,
    writer="worker-0.1.3",
    stream_fingerprint=STREAM,
    tile=Tile(sequence=5, samples_from=130, samples_to=140, retirements_from=8, retirements_to=8),
    rebuild=REBUILD,
    change=STATISTICS - Statistics(DIMENSION, {(1, "UP"): Moments.of_rows(np.array([[1, 1]]))}),
    scores=SCORES,
    scored_by=17,
    counts={"applied": 9, "late": 1},
)
TRIALS = PrequentialCounts(
    choices=(Choice(0.001, "inverse"), Choice(10.0, "none")),
    hits={"UP": np.arange(24, dtype=np.int64).reshape(3, 2, 2, 2)},
    rows={"UP": np.full((3, 2, 2), 2**33, dtype=np.int64)},
)
DELTA_TRIED = replace(DELTA, prequential_counts=TRIALS)
_SCORED = np.zeros((2, 2, BINS), np.int64)
_SCORED[0, 0, 70:73], _SCORED[0, 1, 50:54], _SCORED[1, :, [0, -1]] = (1, 2, 3), 2**40, 7
DELTA_TALLIED = replace(
    DELTA,
    labels=("UP", "DOWN"),
    prequential_counts=PrequentialCounts(
        (Choice(10.0, "none"),),
        {"UP": np.arange(4).reshape(1, 1, 2, 2)},
        {"UP": np.array([[[9, 9]]])},
        {"UP": _SCORED},
    ),
)
DELTA_BINNED = replace(DELTA_TALLIED, tallies=Tallies({"UP": _SCORED[0], "DOWN": _SCORED[1]}))
DELTA_LABELLED = replace(DELTA, labels=("UP", "DOWN"))
CHECKPOINT = Checkpoint(
    SourceState(
        source=SOURCE,
        statistics=STATISTICS,
        owner="worker-0.1.3",
        sequence=6,
        samples_position=140,
        retirements_position=8,
        rebuild=REBUILD,
        scores=SCORES,
        counts={"applied": 130},
        dropped={"stale writer": 2},
    ),
    next_offset=1000,
    stream_fingerprint=STREAM,
)
CHECKPOINT_LABELLED = replace(CHECKPOINT, state=replace(CHECKPOINT.state, labels=("SIDEWAYS", "UP", "DOWN")))
CHECKPOINT_ANCHORED = replace(CHECKPOINT, state=replace(CHECKPOINT.state, topics=TOPICS))


def _model(plane: Plane | None, refusal: str | None, options: SolverOptions) -> Model:
    return Model(
        version=18,
        stream_fingerprint=STREAM,
        data_fingerprint=DATA,
        created=LOG_TIME,
        plane=plane,
        plane_version=17 if plane else 0,
        refusal=refusal,
        options=options,
        digest_of=lambda: DIGEST,
        counts={"DOWN": 3, "UP": 20},
        positions=(
            SourcePosition(SOURCE, 6, 140, 8, -5, "worker-1.2", 77),
            SourcePosition(Source("south", 0), 1, 0, 0, -(2**63), removed=True),
        ),
        scores=SCORES,
        totals={"applied": 130, "refused bad value": 1},
        watermark=1_600_000_000_000,
    )


PLANE = Plane(
    classes=("DOWN", "UP"),
    positive="UP",
    weights=np.array([[0.1, -2.5e-7]]),
    biases=np.array([1 / 3]),
    sigmas={"DOWN": 0.25, "UP": 0.75},
    C=10.0,
    condition=123.5,
    counts={"DOWN": 3, "UP": 20},
)
THREE_PLANES = Plane(
    classes=("a", "b", "c"),
    positive=None,
    weights=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    biases=np.array([-1.0, 0.0, 1.0]),
    sigmas={"a": 1.0, "b": 1.0, "c": 1.0},
    C=1.0,
    condition=2.0,
    counts={"a": 1, "b": 2, "c": 3},
)
MODEL = _model(PLANE, None, SolverOptions(C=10.0))
_FIRST_WINDOW_EMPTY = np.array([np.nan, 0.5, -0.25])[:, None, None]
MODEL_BLENDED = replace(
    MODEL,
    blend=Blend(
        choices=(Choice(0.001, "inverse"), Choice(10.0, "none")),
        of={
            "UP": Candidates(
                weights=np.arange(12.0).reshape(3, 2, 2) * _FIRST_WINDOW_EMPTY,
                biases=np.arange(12.0).reshape(3, 2, 2) * _FIRST_WINDOW_EMPTY,
                hits=np.arange(24.0).reshape(3, 2, 2, 2),
                rows=np.arange(12.0).reshape(3, 2, 2) / 7,
                shares=np.arange(12.0).reshape(3, 2, 2) / 66,
            )
        },
    ),
)
MODEL_AIMED = replace(
    MODEL,
    blend=Blend(
        choices=(Choice(10.0, "none"),),
        of={
            "UP": Candidates(
                weights=np.array([[[0.5, -2.0]]]),
                biases=np.array([[[1.0, 0.25]]]),
                hits=np.array([[[[3.5, 2.0], [1.0, 0.0]]]]),
                rows=np.array([[[4.5, 2.25]]]),
                shares=np.array([[[0.0, 1.0]]]),
            )
        },
        aim=Aim(
            objective=Objective.parse("precision>=0.5"),
            of={"UP": ScoreHistory(np.array([[[0.75, 2.0]]]), _SCORED / 3, 0.0625)},
            milliseconds=86_400_000.0,
            watermark=1_600_000_000_000,
            unmet="precision>=0.5: no threshold",
        ),
    ),
)
MODEL_CALIBRATED = replace(
    MODEL_AIMED,
    plane=replace(PLANE, units=np.array([[-0.5, 1.75]]), means=np.array([0.25, -1e6])),
    calibration=Calibration({"UP": np.stack([_SCORED[at] / 3 for at in range(len(MEMORIES))])}),
)
MODEL_REFUSED = _model(None, "expected two classes with rows, got 'UP' alone", SolverOptions(kind="lssvm", bias="free"))
MODEL_OF_THREE = _model(THREE_PLANES, None, SolverOptions(weighting={"a": 1.0, "b": 0.5, "c": 2.0}, standardize=False))

BY_ID = Retirement("id-1", "asked for by the person", OFFSET, LOG_TIME)
BY_CONTENT = Retirement("row 7", "", OFFSET, None)
"""What is read of a retirement by content: earlier versions wrote such, where rows were not kept."""


def by_content(sample_id: str, label: str | None, features: Sequence[float] | None, fingerprint: bytes) -> bytes:
    """A retirement by content, as earlier versions wrote it where rows were not kept."""
    fields = {"fingerprint": fingerprint, "id": sample_id, "reason": "", "time": None, "label": label}
    return write_record("retirement", {**fields, "features": None if features is None else list(features)})


NAMED_QUERY = NamedQuery("query-1", {"amount": 0.5, "country": "FR", "known": False, "begun": 86_400}, DATA)
QUERY = Query("query-1", np.array([0.5, -3.0]), DATA)
PREDICTION = Prediction("query-1", "UP", {"DOWN": -0.75, "UP": 0.75}, 18, "queries", 2, 77)
PREDICTION_IN_FULL = replace(
    PREDICTION, probabilities={"DOWN": 0.125, "UP": 0.875}, reasons=(("price", 0.5), ("prix en €", -1e-9))
)
UNANSWERED = Unanswered("query-1", 18, "queries", 2, 78, "bad value", "feature 'price' is not a number", b"query-1")
UNANSWERED_UNREAD = Unanswered("", 18, "queries", 0, 0, "bad record", "a null value", None)
RECEIPT = Receipt(STREAM, "id-1", "retired", SOURCE, OFFSET, "worker-0.1.3", 5, 140, 42, DIGEST, DIGEST[::-1])
LETTER = DeadLetter(
    "samples", 3, OFFSET, 12, "bad value", "feature 'price' is not a number", b"id-1", b"\xc3\x01\0", 912
)
LETTER_OF_ROWS = DeadLetter(
    "samples", 3, OFFSET, None, "more rows", "70 more rows", None, b"\xc3", 912, {"bad value": 69, "bad id": 1}
)
LETTER_OF_RECORD = DeadLetter("retirements", 0, 0, None, "bad record", "a null value", None, None, 0)

HISTORY = StreamDefinition.from_tables(
    {
        "name": "history",
        "features": {"names": ["price", "demand"]},
        "grid": {"steps": [0.25, 1.0]},
        "classes": {"names": ["DOWN", "UP"]},
        "window": {"length": "all"},
    }
)
PARTIAL = Partial.of(
    HISTORY,
    _samples(
        ["a", "b", "c", "d"],
        [5, 1_600_000_000_000, 7, 8],
        ["UP", "DOWN", "UP", "sideways"],
        [[0.5, -3.0], [2.0**27, 4.1], [float("inf"), 0.0], [0.0, 0.0]],
    ),
    "part-0: ",
)

EXAMPLES = {
    example.name: example
    for example in (
        Example(
            "sample",
            "sample",
            SINGLE,
            lambda: write_sample("id-1", 1_600_000_000_000, "UP", [0.5, -1e300], DATA),
            _read_samples,
        ),
        Example("sample_batch", "sample_batch", BATCH, lambda: write_sample_batch(BATCH, DATA), _read_samples),
        Example(
            "sample_batch_float32",
            "sample_batch",
            NARROW,
            lambda: write_sample_batch(NARROW, DATA, "float32"),
            _read_samples,
        ),
        Example(
            "named_sample",
            "named_sample",
            NAMED_SINGLE,
            lambda: write_named_sample("id-1", 1_600_000_000_000, "UP", CELLS, COLUMNS, DATA),
            _read_named,
        ),
        Example(
            "named_sample_batch",
            "named_sample_batch",
            NAMED_BATCH,
            lambda: write_named_sample_batch(NAMED_BATCH, TABLE, COLUMNS, DATA),
            _read_named,
        ),
        *(
            Example(name, "retirement", value, write, lambda data: read_retirement(data, FEATURES, DATA, OFFSET))
            for name, value, write in (
                ("retirement", BY_ID, partial(write_retirement, BY_ID, DATA)),
                ("retirement_by_content", BY_CONTENT, partial(by_content, BY_CONTENT.id, "UP", (0.5, -3.0), DATA)),
            )
        ),
        Example("claim", "claim", CLAIM, lambda: write_claim(CLAIM), _read_deltas),
        Example("claim_anchored", "anchored", CLAIM_ANCHORED, lambda: write_claim(CLAIM_ANCHORED), _read_deltas),
        Example("source_order", "source_order", ORDER, lambda: write_source_order(ORDER), _read_deltas),
        *(
            Example(name, schema, value, partial(write_delta, value), _read_deltas)
            for name, schema, value in (
                ("delta", "delta", DELTA),
                ("delta_tried", "delta", DELTA_TRIED),
                ("delta_labelled", "labelled", DELTA_LABELLED),
                ("delta_tallied", "tallied", DELTA_TALLIED),
                ("delta_binned", "binned", DELTA_BINNED),
            )
        ),
        *(
            Example(
                name,
                schema,
                value,
                partial(write_checkpoint, value),
                lambda data: read_checkpoint(data, DIMENSION),
            )
            for name, schema, value in (
                ("checkpoint", "checkpoint", CHECKPOINT),
                ("checkpoint_labelled", "labelled", CHECKPOINT_LABELLED),
                ("checkpoint_anchored", "anchored", CHECKPOINT_ANCHORED),
            )
        ),
        *(
            Example(name, schema, value, partial(write_model, value), read_model)
            for name, schema, value in (
                ("model", "model", MODEL),
                ("model_refused", "model", MODEL_REFUSED),
                ("model_of_three_classes", "model", MODEL_OF_THREE),
                ("model_blended", "model", MODEL_BLENDED),
                ("model_aimed", "aimed", MODEL_AIMED),
                ("model_calibrated", "calibrated", MODEL_CALIBRATED),
            )
        ),
        Example("query", "query", QUERY, lambda: write_query(QUERY), lambda data: read_query(data, FEATURES, DATA)),
        Example(
            "named_query",
            "named_query",
            NAMED_QUERY,
            lambda: write_named_query(NAMED_QUERY, COLUMNS),
            lambda data: read_query(data, FEATURES, DATA, by_name=True),
        ),
        Example("prediction", "prediction", PREDICTION, lambda: write_prediction(PREDICTION), read_prediction),
        Example(
            "prediction_in_full",
            "full_prediction",
            PREDICTION_IN_FULL,
            lambda: write_prediction(PREDICTION_IN_FULL),
            read_prediction,
        ),
        *(
            Example(name, "unanswered", value, partial(write_unanswered, value), read_unanswered)
            for name, value in (("unanswered", UNANSWERED), ("unanswered_unread", UNANSWERED_UNREAD))
        ),
        Example(
            "partial", "partial", PARTIAL, lambda: write_partial(PARTIAL), lambda data: read_partial(data, HISTORY)
        ),
        Example("receipt", "receipt", RECEIPT, lambda: write_receipt(RECEIPT), read_receipt),
        *(
            Example(name, "dead_letter", value, partial(write_dead_letter, value), read_dead_letter)
            for name, value in (
                ("dead_letter", LETTER),
                ("dead_letter_of_record", LETTER_OF_RECORD),
                ("dead_letter_of_rows", LETTER_OF_ROWS),
            )
        ),
    )
}
"""Every example by its name; each record has at least one."""


_COMPARED_BY_FIELD = (
    *(Samples, Query, NamedQuery, Model, Plane, Retirement),
    *(Blend, Candidates, Aim, ScoreHistory, Calibration),
)


def same(a: Any, b: Any) -> bool:
    """Whether two decoded values are the same, bit for bit: arrays by type, shape and bytes, NaN equal to itself."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, float):
        return isinstance(b, float) and np.float64(a).tobytes() == np.float64(b).tobytes()
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and any(isinstance(value, Candidates | ScoreHistory | np.ndarray) for value in a.values()):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, _COMPARED_BY_FIELD):
        return type(a) is type(b) and all(same(vars(a)[key], vars(b)[key]) for key in vars(a))
    # Of what is worked out when it is asked for, what comes of it.
    return bool(a() == b() if callable(a) else a == b)


def zigzag(number: int) -> bytes:
    """Avro's encoding of an int or long."""
    unsigned = number << 1 ^ number >> 63
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes([*out, unsigned])


def header(name: str) -> bytes:
    """The marker and the fingerprint of an example's schema."""
    return EXAMPLES[name].golden()[:HEADER_BYTES]


def with_fields(example: str, **changes: Any) -> bytes:
    """A golden message with some fields of its record changed, as another producer might have written it."""
    schema = EXAMPLES[example].schema
    _, fields = read_record(EXAMPLES[example].golden(), (schema,))
    return write_record(schema, {**fields, **changes})
