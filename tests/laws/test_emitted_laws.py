"""Every delta that a worker emits is accepted, whatever lies in its logs, however it is cut, and whoever goes on."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement
from deltaplane.wire import read_claim_or_delta, write_retirement, write_sample, write_sample_batch
from deltaplane_services.processors.messages import DELTAS, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor
from golden.wire_examples import by_content
from strategies_streams import Row, definition_of, samples_of

SOURCE = Source("local", 0)
STREAMS = [
    definition_of("all", keep_rows=False),
    definition_of("all"),
    definition_of("3", "5"),
    definition_of("10ms"),
]
IDS = st.sampled_from("abcde")
VALUES = st.sampled_from((0.0, 1.0, -3.0, 1000.0, 2.0**29, 2.0**31, float("nan")))
ROWS = st.builds(Row, IDS, st.sampled_from(("x", "y", "")), st.tuples(VALUES), st.integers(0, 40))


@dataclass(frozen=True)
class Logs:
    """What lies in both logs of a source, and how much of each is read at a time; 0 and 0: by a new worker."""

    samples: list[list[Row]]
    retirements: list[tuple[str, Row | None] | bytes]
    cuts: list[tuple[int, int]]


LOGS = st.builds(
    Logs,
    st.lists(st.lists(ROWS, min_size=1, max_size=4), max_size=8),
    st.lists(st.tuples(IDS, st.none() | ROWS) | st.binary(max_size=5), max_size=8),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8),
)


def written(definition: StreamDefinition, logs: Logs) -> tuple[list[Record], list[Record]]:
    """Both logs as records."""
    data = definition.data_fingerprint
    samples = [
        write_sample(rows[0].id, rows[0].time, rows[0].label, rows[0].values, data)
        if len(rows) == 1
        else write_sample_batch(samples_of([tuple(rows)]), data)
        for rows in logs.samples
    ]
    asked = [
        one
        if isinstance(one, bytes)
        else write_retirement(Retirement(one[0], "asked", 0), data)
        if one[1] is None
        else by_content(one[0], one[1].label, one[1].values, data)
        for one in logs.retirements
    ]
    return (
        [Record(SAMPLES, 0, at, 40, None, value) for at, value in enumerate(samples)],
        [Record(RETIREMENTS, 0, at, 40, None, value) for at, value in enumerate(asked)],
    )


def with_verdicts(
    worker: WorkerProcessor, state: SourceState, samples: list[Record], asked: list[Record]
) -> SourceState:
    """The state behind what a worker makes of these records; all that it emits must be accepted."""
    for one in worker.process(samples, asked).then:
        assert one.topic == DELTAS
        delta = read_claim_or_delta(one.value, worker.definition.dimensions)
        assert isinstance(delta, Delta)
        state, verdict = accept(state, delta, worker.definition.stream_fingerprint)
        assert verdict is Verdict.ACCEPTED
    return state


def claimed(definition: StreamDefinition, state: SourceState, writer: str) -> tuple[WorkerProcessor, SourceState]:
    """A new worker that owns the source and has been told its state."""
    worker = WorkerProcessor(definition, SOURCE, writer)
    claim = read_claim_or_delta(worker.claim().value, definition.dimensions)
    state, _ = accept(state, claim, definition.stream_fingerprint)
    worker.restore(state)
    return worker, state


@given(st.sampled_from(STREAMS), LOGS)
def test_every_delta_that_a_worker_emits_is_accepted(definition: StreamDefinition, logs: Logs) -> None:
    samples, asked = written(definition, logs)
    worker, state = claimed(definition, SourceState(SOURCE, Statistics(definition.dimension)), "w")
    at, of = 0, 0
    for number, (more, more_asked) in enumerate([*logs.cuts, (0, 0), (8, 8)]):
        if not more and not more_asked:
            worker, state = claimed(definition, state, f"w{number}")
            worker.process(samples[:at], asked[:of])  # What it rebuilds from.
            worker.read_to(at, of)
        else:
            state = with_verdicts(worker, state, samples[at : at + more], asked[of : of + more_asked])
            at, of = min(len(samples), at + more), min(len(asked), of + more_asked)
    assert (state.samples_position, state.retirements_position) == (len(samples), len(asked))
    assert worker.partition.statistics == state.statistics


@given(LOGS)
def test_without_rows_the_state_is_that_of_all_samples_however_the_logs_were_read(logs: Logs) -> None:
    definition = STREAMS[0]
    samples, asked = written(definition, logs)
    states = []
    for order in (False, True):
        worker, state = claimed(definition, SourceState(SOURCE, Statistics(definition.dimension)), "w")
        for first in (order, not order):
            state = with_verdicts(worker, state, samples if first else [], [] if first else asked)
        states.append(state)
    alone, nothing_asked = claimed(definition, SourceState(SOURCE, Statistics(definition.dimension)), "w")
    nothing_asked = with_verdicts(alone, nothing_asked, samples, [])
    assert states[0].statistics == states[1].statistics == nothing_asked.statistics
