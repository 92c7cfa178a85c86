"""Deltas that a worker's principal forges, and what an audit and the proof of a receipt say of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, Tile
from deltaplane.log.model import Model
from deltaplane.reference import Reference, exact_moments
from deltaplane.wire import read_claim_or_delta, read_model, write_claim, write_delta, write_model
from deltaplane_services.client import SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import DELTAS, MODELS, Outgoing
from kafka.clients import read_topic
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_restart import trim

HOUR = 3_600_000
SOURCE = Source("local", 0)


class Scene:
    """A stream of one source with 100 rows a second apart, one to a record; row 3 is retired, and no worker runs."""

    def __init__(self, stream: Stream, broker: str) -> None:
        self.stream, self.broker = stream, broker
        self.rows = Rows(100, seed=1)
        self.rows.times = self.rows.times - self.rows.times[-1] + int(time.time() * 1000) - 60_000
        self.reference = Reference(stream.definition)
        self.merger = stream.start("merger")
        worker = stream.start("worker")
        with SampleProducer(stream.settings) as producer:
            for row in range(100):
                rows = self.rows
                producer.send(rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row])
        self.rows.tell(self.reference)
        self.wait("all rows")
        stream.run("retire", "row-3")
        self.reference.retire("row-3")
        self.wait("all rows but one")
        worker.terminate()

    def wait(self, what: str) -> None:
        digest = self.reference.statistics().digest(self.stream.definition.data_fingerprint)
        self.stream.wait_for_digest(digest, what)

    def sum_of(self, rows: range) -> Statistics:
        """The statistics of some rows, in every window."""
        grid, parts = self.stream.definition.grid, dict[tuple[int, str], Moments]()
        for label in ("no", "yes"):
            chosen = [row for row in rows if self.rows.labels[row] == label]
            if chosen:
                moments = exact_moments(grid.quantize(self.rows.features[chosen])[0].astype(np.int64))
                parts |= {
                    (window, label): moments for window, _ in enumerate(self.stream.definition.nested_windows.windows)
                }
        return Statistics(self.stream.definition.dimension, parts)

    def deltas(self) -> list[Delta]:
        records = read_topic(self.broker, f"{self.stream.definition.name}.{DELTAS}")
        changes = [read_claim_or_delta(record.value(), self.stream.definition.dimensions) for record in records]
        return [change for change in changes if isinstance(change, Delta)]

    def forge(self, change: Statistics, **rebuild: int) -> None:
        """Take the source over, and say that over no input at all this has changed."""
        last, fingerprint = self.deltas()[-1], self.stream.definition.stream_fingerprint
        tile = last.tile
        position = (tile.samples_to, tile.samples_to, tile.retirements_to, tile.retirements_to)
        forged = Delta(
            SOURCE, "evil", fingerprint, Tile(tile.sequence + 1, *position), replace(last.rebuild, **rebuild), change
        )
        out = publisher(self.stream.settings, "central")
        for value in (write_claim(Claim(SOURCE, "evil", fingerprint)), write_delta(forged)):
            out.publish([Outgoing(DELTAS, 0, None, value)])
        out.flush()
        self.stream.wait_for_model(lambda model: model.contains(SOURCE, forged.tile.sequence), "the forged delta")

    def forge_model(self, forge: Callable[[Model], Model]) -> None:
        """Write a model above the newest one."""
        model = self.stream.model()
        assert model is not None
        forged = replace(forge(model), version=model.version + 1)
        out = publisher(self.stream.settings, "central")
        out.publish([Outgoing(MODELS, 0, self.stream.definition.name.encode(), write_model(forged))])
        out.flush()

    def audit(self, code: int) -> Mapping[str, Any]:
        """What an audit finds."""
        found: dict[str, Any] = json.loads(self.stream.run("audit", "--json", code=code).stdout)
        assert found["equal"] == (not code)
        return found

    def told(self, code: int) -> str:
        """What it says."""
        said = self.stream.run("audit", code=code).stdout
        assert said.endswith("NOT EQUAL\n" if code else "\nequal\n")
        return said


@pytest.fixture
def window() -> str:
    return "all"


@pytest.fixture
def scene(kafka: RunningKafka, tmp_path: Path, stream_name: str, window: str) -> Iterator[Scene]:
    service = {"checkpoint_seconds": 0.3, "refresh_seconds": 0.05}
    tables: dict[str, Any] = {"partitions": 1, "window": {"length": window.split() if " " in window else window}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=service, **tables) as stream:
        yield Scene(stream, kafka.bootstrap)


def faults(found: Mapping[str, Any]) -> str:
    (source,) = found["sources"]
    return "; ".join(source["faults"])


@pytest.mark.parametrize("window", ["all", "1h"])
def test_a_retired_row_that_is_brought_back_is_found_and_its_receipt_proves_nothing_any_more(scene: Scene) -> None:
    assert faults(scene.audit(0)) == ""
    assert "NOT VERIFIED" not in scene.stream.run("verify-receipt", "row-3").stdout

    scene.forge(scene.sum_of(range(3, 4)), retirements_window_from=1)

    found = faults(scene.audit(1))
    assert f"+1 of '{scene.rows.labels[3]}'" in found
    assert "retirements_window_from: deltas say 1, the log says 0" in found
    refused = scene.stream.run("verify-receipt", "row-3", code=1).stdout
    assert "NOT VERIFIED: model" in refused
    assert "retirements_window_from" in refused

    # An honest worker that takes over goes on from what it is told; what was forged is found all the same, even once
    # the row is out again.
    scene.stream.start("worker")
    scene.stream.run("retire", "row-3")
    scene.wait("the row is out again")
    assert "retirements_window_from: deltas say 1, the log says 0" in faults(scene.audit(1))


@pytest.mark.parametrize("window", ["200"])
def test_rows_that_are_left_out_are_found(scene: Scene) -> None:
    left_out = Statistics(scene.stream.definition.dimension) - scene.sum_of(range(3))

    scene.forge(left_out, window_from=3, memory_from=3)

    found = scene.told(1)
    assert "window_from: deltas say 3, the log says 0" in found
    assert "live rows in the model beyond those in the log: -" in found


@pytest.mark.parametrize("window", ["1h"])
@pytest.mark.parametrize("ahead", [10 * 365 * 24 * HOUR, HOUR + 1000])
def test_a_watermark_that_no_row_has_made_is_found(scene: Scene, ahead: int) -> None:
    everything = sum((delta.change for delta in scene.deltas()), Statistics(scene.stream.definition.dimension))
    forged = int(scene.rows.times[-1]) + ahead

    scene.forge(
        Statistics(scene.stream.definition.dimension) - everything, watermark=forged, window_from=100, memory_from=100
    )

    found = faults(scene.audit(1))
    assert f"watermark: deltas say {forged}, the log says {scene.rows.times[-1]}" in found
    assert "live rows in the model beyond those in the log: -" in found


@pytest.mark.parametrize("window", ["50"])
def test_fields_from_which_the_next_worker_would_go_astray_are_found_though_the_sums_are_right(scene: Scene) -> None:
    nothing, rebuild = Statistics(scene.stream.definition.dimension), scene.deltas()[-1].rebuild
    assert rebuild == Rebuild(50, 0, 0, 100, int(scene.rows.times[-1]))
    assert faults(scene.audit(0)) == ""

    scene.forge(nothing, slots_to=90, memory_from=60, window_from=70)

    found = faults(scene.audit(1))
    assert "slots_to: deltas say 90, the log says 100 samples" in found
    assert "window_from: deltas say 70, the log says 50" in found
    assert "the model contains" not in found


@pytest.mark.parametrize("window", ["50", "30s"])
def test_of_a_log_without_its_beginning_it_is_said_from_where_on_the_model_is_proved(scene: Scene) -> None:
    rebuild = scene.deltas()[-1].rebuild
    begin = rebuild.window_from
    assert begin >= 50
    trim(scene.broker, f"{scene.stream.definition.name}.samples", {0: begin})

    (source,) = scene.audit(0)["sources"]

    assert source["proved_from"] == {"samples": begin, "retirements": 0}
    assert f"proved from offset {begin} of samples and 0 of retirements on" in scene.told(0)

    # Rows that are there, and are said to be out of the window, are found here, too.
    left_out = Statistics(scene.stream.definition.dimension) - scene.sum_of(range(begin, begin + 1))
    scene.forge(left_out, window_from=begin + 1, memory_from=begin + 1)
    assert f"window_from: deltas say {begin + 1}, the log says {begin}" in faults(scene.audit(1))


def of_this_version(model: Model, **plane: Any) -> Model:
    """A model that says that its plane, with some fields changed, was solved for the version after its own."""
    assert model.plane is not None
    return replace(model, plane=replace(model.plane, **plane), plane_version=model.version + 1)


def turned(model: Model) -> Model:
    """The plane that says yes where the other says no."""
    assert model.plane is not None
    return of_this_version(model, weights=-model.plane.weights, biases=-model.plane.biases)


def ahead(model: Model) -> Model:
    """A model that says that it contains a tile that nobody has written."""
    (position,) = model.positions
    return replace(of_this_version(model), positions=(replace(position, sequence=position.sequence + 1),))


@pytest.mark.parametrize("window", ["50", "50 all"])
def test_a_model_that_no_merger_made_is_found(scene: Scene) -> None:
    planes = scene.audit(0)["planes"]
    assert planes["equal"]
    assert planes["rounding"] == 0.0
    told = scene.told(0)
    assert "planes and figures of the model, made again: equal\n" in told
    assert "not checked: what workers say of scores, outcomes and trials" in told
    scene.merger.terminate()

    scene.forge_model(turned)

    (first, *_) = scene.audit(1)["planes"]["faults"]
    assert first.startswith("plane.weights[0, 0]: the model says ")
    assert "planes and figures of the model, made again: NOT EQUAL: plane.weights[0, 0]" in scene.told(1)

    # A merger that begins again goes on above it, and all is well.
    forged = scene.stream.model()
    assert forged is not None
    scene.stream.start("merger")
    scene.stream.wait_for_model(lambda model: model.version > forged.version, "a model above the forged one")
    assert scene.audit(0)["planes"]["equal"]


@pytest.mark.parametrize("window", ["all"])
def test_positions_that_never_were_and_models_that_come_again_are_found(scene: Scene) -> None:
    scene.merger.terminate()
    before = scene.stream.model()
    assert before is not None

    scene.forge_model(ahead)

    told = before.positions[0].sequence
    assert f"tile: the model says {told + 1}, its deltas add up to {told}" in faults(scene.audit(1))

    # One that was right when it was written, with the row that has been retired since.
    records = read_topic(scene.broker, f"{scene.stream.definition.name}.{MODELS}")
    models = [read_model(record.value()) for record in records]
    (old,) = [model for model in models if sum(model.counts.values()) == 100][-1:]
    scene.forge_model(lambda _: replace(old, plane_version=models[-1].version + 1))

    found = scene.told(1)
    assert f"tile: model {before.version} had come to {told}, this one has {old.positions[0].sequence}" in found
    assert "tiles are on the log and not in the model" in found
