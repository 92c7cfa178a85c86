"""A stream is changed while it is live: its solver at once, its window, classes and features by a stream beside it.

Two streams for the module; a test begins with what the tests before it have left running.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.log.merger import plane_of
from deltaplane.log.model import Model
from deltaplane.reference import Reference
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner
from deltaplane_services.kafka.clients import reader
from deltaplane_services.processors.messages import DELTAS, RETIREMENTS, SAMPLES, Outgoing
from deltaplane_services.processors.solving import solver_digest
from kafka.clients import wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import STREAM, ServiceProcess, Stream
from kafka.test_pipeline_metrics import ask, free_ports

WINDOW, BATCH = 600, 100
FIRST, SECOND = {"C": 1.0}, {"C": 30.0, "weighting": "balanced"}
THIRD, FOURTH = {"C": [0.1, 10.0]}, {"C": [0.2, 20.0]}


def changed(stream: Stream, **tables: Any) -> Stream:
    """A stream of the same clusters and processes with some tables of its definition changed, in a file of its own."""
    whole = tomllib.loads(stream.definition_file.read_text("utf-8")) | tables
    settings = resolve_settings({}, {}, whole)
    file = stream.directory / f"{settings.definition.name}-{solver_digest(settings.definition)}.toml"
    file.write_text(as_toml(whole), "utf-8")
    return replace(stream, definition_file=file, settings=settings)


def send(rows: Rows, *streams: Stream) -> None:
    for stream in streams:
        with SampleProducer(stream.settings, check=False) as producer:
            for begin in range(0, len(rows), BATCH):
                part = slice(begin, begin + BATCH)
                producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])


def digest_of(reference: Reference) -> str:
    return reference.statistics().digest(reference.definition.data_fingerprint)


def digest_of_log(stream: Stream) -> str:
    """The digest of what lies in a stream's samples and retirements, without services."""
    runner, log = EmbeddedRunner(stream.definition), reader(stream.settings, "site")
    try:
        for topic in (SAMPLES, RETIREMENTS):
            for partition in range(stream.definition.partitions):
                for record in log.read(topic, partition, *log.bounds(topic, partition)):
                    runner.broker.append(Outgoing(topic, partition, record.key, record.value or b""), record.log_time)
    finally:
        log.close()
    runner.drain(2**60)
    assert runner.merger.model is not None
    return runner.merger.model.digest


# The solver ----------------------------------------------------------------------------------------------------------


@dataclass
class Solving:
    """A stream whose merger is started again and again with another definition, while its worker keeps the first."""

    stream: Stream
    worker: ServiceProcess
    merger: ServiceProcess
    reference: Reference
    port: int
    rows: int = 0

    def send(self, count: int) -> None:
        rows = Rows(count, seed=self.rows, ids_from=self.rows)
        self.rows += count
        send(rows, self.stream)
        rows.tell(self.reference)

    def next_merger(self, solver: Mapping[str, Any]) -> Stream:
        """End the merger and start one with these settings."""
        self.merger.terminate()
        stream = changed(self.stream, solver=solver)
        self.merger = stream.start("merger", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{self.port}")
        return stream

    def solved(self, stream: Stream) -> Model:
        """The first model of all rows by the options of a definition; its plane must be that of the batch."""
        digest, options = digest_of(self.reference), stream.definition.solver
        model = self.stream.wait_for_model(
            lambda newest: newest.digest == digest and newest.options == options, f"all rows by {options}"
        )
        expected = plane_of(self.reference.statistics(), stream.definition, model.blend)
        assert model.plane is not None
        assert model.plane.weights.tolist() == expected.weights.tolist()
        assert model.plane.biases.tolist() == expected.biases.tolist()
        return model


@pytest.fixture(scope="module")
def solving(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solving]:
    directory, name = tmp_path_factory.mktemp("solving"), Rows.stream_name("solving")
    service = {"checkpoint_seconds": 0.3, "metrics_address": "127.0.0.1:0"}
    with Stream.made(directory, name, kafka.bootstrap, service=service, window={"length": 400}) as stream:
        assert stream.definition.solver == changed(stream, solver=FIRST).definition.solver
        merger, worker = stream.start("merger"), stream.start("worker")
        yield Solving(stream, worker, merger, Reference(stream.definition), free_ports(1)[0])


def metric(port: int, name: str) -> list[tuple[str, float]]:
    found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", ask(port, "/metrics")[1], re.MULTILINE)
    return [(labels, float(value)) for labels, value in found]


def test_another_c_and_weighting_are_live_with_the_next_merger_and_no_sample_is_read(solving: Solving) -> None:
    solving.send(700)
    before = solving.solved(solving.stream)
    # Nobody is there who could read a sample.
    solving.worker.kill()
    stream = solving.next_merger(SECOND)
    after = solving.solved(stream)
    assert stream.definition.stream_fingerprint == solving.stream.definition.stream_fingerprint
    assert before.plane is not None
    assert after.plane is not None
    assert after.plane.weights.tolist() != before.plane.weights.tolist()
    assert [(one.sequence, one.samples) for one in after.positions] == [
        (one.sequence, one.samples) for one in before.positions
    ]
    solving.merger.wait_for(
        "the last model was solved with wlpsvm, C 1, weighting inverse, standardized, bias regularised; from now on"
        r" wlpsvm, C 30, weighting balanced, .* start this merger again with the newer definition"
    )


def test_workers_with_the_old_definition_try_the_candidates_of_a_merger_that_has_several(solving: Solving) -> None:
    stream = solving.next_merger(THIRD)
    first = solving.solved(stream)
    assert first.blend is not None
    assert not first.blend.of["yes"].rows.any()
    solving.worker = solving.stream.start("worker")
    solving.worker.wait_for("claimed local/", count=2)
    solving.send(200)
    tried = solving.solved(stream)
    assert tried.blend is not None
    assert tried.blend.choices == stream.definition.choices_tried
    assert tried.blend.of["yes"].rows.all()


def test_prequential_counts_of_the_candidates_of_before_are_void_and_a_metric_counts_them(solving: Solving) -> None:
    solving.merger.terminate()
    log = reader(solving.stream.settings, "central")
    ends = {partition: log.bounds(DELTAS, partition)[1] for partition in range(2)}
    solving.send(200)
    wait_until(lambda: all(log.bounds(DELTAS, p)[1] > end for p, end in ends.items()), "a delta of each partition")
    log.close()
    stream = solving.next_merger(FOURTH)
    model = solving.solved(stream)
    assert model.blend is not None
    assert not model.blend.of["yes"].rows.any()
    ((_, void),) = metric(solving.port, "deltaplane_merger_void_trials_total")
    assert void >= 2.0
    for _ in range(20):
        # Soon the worker has seen that the candidates are others.
        solving.send(50)
        model = solving.solved(stream)
        if model.blend is not None and model.blend.of["yes"].rows.any():
            break
    assert model.blend is not None
    assert model.blend.of["yes"].rows.any()


def test_another_objective_is_live_with_the_next_merger_and_workers_count_scores_for_it(solving: Solving) -> None:
    kept = solving.solved(changed(solving.stream, solver=FOURTH))
    aimed = solving.next_merger({**FOURTH, "objective": "cost:FN=1,FP=1000"})
    model = solving.stream.wait_for_model(lambda newest: str(newest.objective) == "cost:FN=1,FP=1000", "an objective")
    assert (model.digest, model.version > kept.version) == (kept.digest, True)
    assert aimed.definition.stream_fingerprint == solving.stream.definition.stream_fingerprint
    for _ in range(20):
        # Soon the worker has seen what is asked for, and counts scores.
        solving.send(50)
        model = solving.solved(aimed)
        assert model.blend is not None
        if model.blend.aim is not None and model.blend.aim.of["yes"].counts.any():
            break
    assert model.blend is not None
    assert model.blend.aim is not None
    assert model.blend.aim.of["yes"].counts.any()
    ((labels, unmet),) = metric(solving.port, "deltaplane_objective_unmet")
    assert ('objective="cost:FN=1,FP=1000"' in labels, unmet) == (True, 0.0)
    solving.next_merger(FOURTH)
    back = solving.stream.wait_for_model(lambda newest: str(newest.objective) == "gmean", "the G-mean again")
    assert back.digest == model.digest


def test_a_merger_with_a_forgotten_definition_is_told_apart_while_both_run_and_says_so_when_it_is_elected(
    solving: Solving,
) -> None:
    (port,) = free_ports(1)
    forgotten = solving.stream.start("merger", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
    forgotten.wait_for("metrics at http")
    solvers = [metric(one, "deltaplane_merger_solver_info")[0] for one in (solving.port, port)]
    definitions = [changed(solving.stream, solver=solver).definition for solver in (FOURTH, FIRST)]
    expected = [f'solver="{solver_digest(one)}",stream="{one.name}"' for one in definitions]
    assert [labels for labels, _ in solvers] == expected
    # The group may have chosen either. Once the other has ended there is no choice.
    solving.merger.terminate()
    forgotten.wait_for(
        r"solved with wlpsvm, C 0\.2 20, weighting inverse.*; from now on wlpsvm, C 1, weighting inverse"
    )
    solving.solved(solving.stream)
    forgotten.terminate()


# Windows, classes, features ------------------------------------------------------------------------------------------


@dataclass
class Origin:
    """A stream with a window of rows, some of them retired, that is to go on in another shape."""

    stream: Stream
    rows: Rows
    retired: tuple[str, ...]

    def account(self, target: Stream, rows: Rows | None = None) -> Reference:
        """What a stream holds that was told these rows, or all, and the retirements."""
        reference = Reference(target.definition)
        (rows or self.rows).tell(reference)
        for sample_id in self.retired:
            reference.retire(sample_id)
        return reference

    def target(self, suffix: str, **tables: Any) -> Stream:
        return changed(self.stream, name=f"{self.stream.definition.name}-{suffix}", **tables)

    def copy(self, target: Stream, *options: str) -> str:
        return self.stream.run("copy", "--to", target.definition_file, "--idle-seconds", "0.5", *options).stdout


@pytest.fixture(scope="module")
def origin(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    directory, name = tmp_path_factory.mktemp("origin"), Rows.stream_name("origin")
    rows = Rows(1500, seed=41)
    # A third class, which this stream does not know.
    rows.labels[1203:1500:10] = ["maybe"] * 30
    with Stream.made(directory, name, kafka.bootstrap, window={"length": WINDOW}) as stream:
        stream.start("merger")
        stream.start("worker")
        send(rows, stream)
        made = Origin(stream, rows, ("row-1450", "row-1461", "row-20"))
        stream.run("retire", *made.retired)
        stream.wait_for_digest(digest_of(made.account(stream)), "the origin is full")
        yield made


def some(rows: Rows, at: list[int]) -> Rows:
    """The rows with these numbers."""
    part = Rows(1, 0)
    part.ids, part.labels = [rows.ids[row] for row in at], [rows.labels[row] for row in at]
    part.features, part.times = rows.features[at], rows.times[at]
    return part


def with_features(rows: Rows, features: Floats) -> Rows:
    """The same rows with other features."""
    other = some(rows, list(range(len(rows))))
    other.features = features
    return other


def number_of(sample_id: str) -> int:
    return int(sample_id.removeprefix("row-"))


def test_a_shorter_window_holds_the_last_rows_and_goes_on_with_those_that_come(origin: Origin) -> None:
    target = origin.target("short", window={"length": 200})
    assert "its windows hold other rows" in origin.copy(target)
    target.start("merger")
    target.start("worker")
    reference = origin.account(target)
    assert sum(target.wait_for_digest(digest_of(reference), "the last rows").counts.values()) < 200
    more = Rows(150, seed=42, ids_from=1500)
    send(more, target)
    more.tell(reference)
    target.wait_for_digest(digest_of(reference), "and more")
    assert target.run("audit").stdout.endswith("equal\n")


def test_a_longer_window_holds_what_was_live_or_if_asked_what_the_log_still_has_in_other_classes_too(
    origin: Origin,
) -> None:
    longer = origin.target("long", window={"length": 1200})
    origin.copy(longer)
    # Of each partition, from the first record on in which there is a live row.
    live = {number_of(row.id) for row in origin.account(origin.stream).live()}
    copied: list[int] = []
    for samples in origin.rows.partitioned(2).values():
        numbers = list(map(number_of, samples.ids))
        begin = min(live.intersection(numbers)) // BATCH * BATCH
        copied += [number for number in numbers if number >= begin]
    was_live = origin.account(longer, some(origin.rows, sorted(copied)))
    assert digest_of_log(longer) == digest_of(was_live)

    # Rows whose class only the new stream knows come in, and take places in the window as others do.
    whole = origin.target("whole", window={"length": 1200}, classes={"names": ["maybe", "no", "yes"]})
    told = origin.copy(whole, "--whole-log")
    assert "1,500 rows, 3 retirements" in told
    assert "it admits other rows, or has other classes" in told
    everything = origin.account(whole)
    assert digest_of_log(whole) == digest_of(everything)
    assert WINDOW < len(was_live.live()) < len(everything.live())
    assert "maybe" in {row.label for row in everything.live()}


def test_a_feature_is_dropped_by_a_copy_and_the_window_comes_along(origin: Origin) -> None:
    names, steps = ["height", "age"], [2.0**-10] * 2
    target = origin.target("fewer", features={"names": names}, grid={"steps": steps})
    assert "its features or grid are others" in origin.copy(target, "--regrid")
    rows = with_features(origin.rows, origin.rows.features[:, [0, 2]])
    assert digest_of_log(target) == digest_of(origin.account(target, rows))


def test_a_feature_is_added_by_a_stream_beside_that_is_cut_over_to_when_its_window_is_full(origin: Origin) -> None:
    names = [*STREAM["features"]["names"], "income"]
    target = origin.target("more", features={"names": names}, grid={"steps": [2.0**-10] * 4})
    target.run("topics", "create")
    target.start("merger")
    target.start("worker")
    rows = Rows(800, seed=43, ids_from=1500)
    wider = with_features(rows, np.hstack([rows.features, rows.features[:, :1] * 0.5]))
    send(rows, origin.stream)
    send(wider, target)
    old, new = origin.account(origin.stream), Reference(target.definition)
    rows.tell(old)
    wider.tell(new)
    counts = [
        one.wait_for_digest(digest_of(of), "both go on").counts for one, of in ((origin.stream, old), (target, new))
    ]
    assert [sum(one.values()) for one in counts] == [WINDOW, WINDOW]


def test_a_source_that_was_removed_does_not_come_back_in_a_copy(origin: Origin) -> None:
    origin.stream.run("source", "remove", "local/1")
    model = origin.stream.model()
    assert model is not None
    target = origin.target("without")
    assert f"digest of the old stream {model.digest}" in origin.copy(target)
    assert digest_of_log(target) == model.digest
