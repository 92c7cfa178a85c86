"""``deltaplane grid refit``: a wider grid on file, and the window carried over to the stream that has it."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing

from deltaplane.errors import DefinitionMismatch
from deltaplane.exact.grid import fit_grid
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import write_retirement, write_sample_batch
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner
from deltaplane_services.operations.refitting import RowsSeen, refitted_tables
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, Record
from deltaplane_services.processors.regroup import Regroup

NOW = 1_700_000_000_000


def rows_of(seed: int, count: int, jump: float = 0.0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Ordinary rows; or the second feature of every fourth jumps so many times beyond its grid."""
    rows = np.random.default_rng(seed).normal(size=(count, 2))
    if jump:
        rows[::4, 1] = 5000.0 * jump
    return rows


def tables_of(window: str = "all", **more: Any) -> dict[str, Any]:
    grid = fit_grid(rows_of(1, 200))
    return {
        "name": "old",
        "input": {"label": "label"},
        "features": {"names": ["height", "weight"]},
        "grid": {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()},
        "classes": {"names": ["no", "yes"], "positive": "yes"},
        "window": {"length": window},
        "solver": {"C": 1.0},
        **more,
    }


def batch(first: int, rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Samples:
    count = len(rows)
    return Samples.of_record(
        ids=[f"row-{first + at}" for at in range(count)],
        event_times=np.arange(NOW + first, NOW + first + count, dtype=np.int64),
        label_table=("no", "yes"),
        label_codes=np.array([(first + at) % 2 for at in range(count)], dtype=np.int32),
        features=rows,
        log_time=NOW,
    )


BATCHES = [batch(0, rows_of(1, 200)), batch(200, rows_of(2, 80, jump=200.0))]


def log_of(definition: StreamDefinition) -> list[Record]:
    """The log of a stream: ordinary rows, rows of which every fourth jumped, and two retirements."""
    broker = EmbeddedBroker(definition.partitions)
    for samples in BATCHES:
        broker.append(Outgoing(SAMPLES, 0, None, write_sample_batch(samples, definition.data_fingerprint)), NOW)
    for sample_id in ("row-3", "row-204"):
        value = write_retirement(Retirement(sample_id, "asked", 0), definition.data_fingerprint)
        broker.append(Outgoing(RETIREMENTS, 0, None, value), NOW)
    return [*broker.fetch(SAMPLES, 0, 0), *broker.fetch(RETIREMENTS, 0, 0)]


@pytest.mark.parametrize("window", ["all", "1d"])
@pytest.mark.parametrize("kind", ["none", "fourier"])
def test_the_window_is_carried_over_to_the_wider_grid_with_the_rows_that_had_been_refused(
    window: str, kind: str
) -> None:
    feature_map = {"kind": kind, "units": 4, "sigma": 1.0, "seed": 3, "centers": [10, 20], "scales": [1e5, 2e5]}
    tables = tables_of(window, **({"feature_map": feature_map} if kind != "none" else {}))
    old = StreamDefinition.from_tables({key: value for key, value in tables.items() if key != "input"})
    seen = RowsSeen(old)
    seen.add_records(log_of(old))
    assert (seen.fit, seen.refused) == (260, 20)
    found = seen.refit()
    new_tables = refitted_tables(tables, old, found, "new")
    new = StreamDefinition.from_tables({key: value for key, value in new_tables.items() if key != "input"})
    assert new.data_fingerprint != old.data_fingerprint
    with pytest.raises(DefinitionMismatch, match="say --regrid"):
        Regroup(old, new)

    regroup, runner = Regroup(old, new, regrid=True), EmbeddedRunner(new)
    for record in log_of(old):
        runner.broker.append_all(tuple(regroup.record(record)), NOW)
    runner.drain(NOW)
    assert regroup.counts == {"rows": 280, "retirements": 2, "refused rows": 0}
    reference = Reference(new)
    for samples in BATCHES:
        reference.add(0, samples)
    for sample_id in ("row-3", "row-204"):
        reference.retire(sample_id)
    model = runner.merger.model
    assert model is not None
    assert model.digest == reference.statistics().digest(new.data_fingerprint)
    assert sum(model.counts.values()) == 278
    if kind != "none":
        # The map is the same function of raw values, but for the rounding of the wider grid.
        rows = BATCHES[0].features
        assert np.abs(old.plane_inputs(rows)[0] - new.plane_inputs(rows)[0]).max() < 0.02


def run(*arguments: str | Path) -> typer.testing.Result:
    return typer.testing.CliRunner().invoke(app, ["grid", "refit", *map(str, arguments)])


def test_on_a_file_the_command_writes_a_definition_and_says_what_follows(tmp_path: Path) -> None:
    definition, data, out = tmp_path / "old.toml", tmp_path / "rows.csv", tmp_path / "new.toml"
    definition.write_text(as_toml(tables_of()), "utf-8")
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "weight", "label"])
        for samples in BATCHES:
            writer.writerows([*row, "yes"] for row in samples.features.tolist())
    came = run("--definition", definition, "--from", data, "--out", out)
    assert came.exit_code == 0, came.output
    assert "weight: 20 rows were outside" in came.stdout
    assert "260 rows fitted the old grid; of 20 that did not, 0 fit the new one no more" in came.stdout
    assert f"deltaplane copy --regrid --definition {definition} --to {out}" in came.stdout
    old, new = tables_of(), tomllib.loads(out.read_text("utf-8"))
    assert new["name"] == "old-refit"
    assert new["grid"]["steps"][0] == old["grid"]["steps"][0]
    assert new["grid"]["steps"][1] > old["grid"]["steps"][1]
    assert {**new, "name": "old", "grid": old["grid"]} == old


def test_a_file_that_is_there_a_stream_of_the_same_name_and_a_grid_that_is_not_outgrown_are_refused(
    tmp_path: Path,
) -> None:
    definition, data = tmp_path / "old.toml", tmp_path / "rows.csv"
    definition.write_text(as_toml(tables_of()), "utf-8")
    data.write_text("height,weight,label\n" + "0.5,0.25,yes\n" * 9, "utf-8")
    given = ("--definition", definition, "--from", data)
    for more, words in (
        (("--out", definition), "is there already"),
        (("--out", tmp_path / "new.toml", "--name", "old"), "give it another name than 'old'"),
        (("--out", tmp_path / "new.toml"), "no feature has outgrown it; of 9 rows 0 were refused"),
    ):
        came = run(*given, *more)
        assert came.exit_code != 0
        assert words in str(came.exception)
    assert not (tmp_path / "new.toml").exists()


def test_a_wider_range_alone_needs_no_new_grid_and_brings_refused_rows_in() -> None:
    tables = {key: value for key, value in tables_of().items() if key != "input"}
    old = StreamDefinition.from_tables(tables)
    new = StreamDefinition.from_tables({**tables, "name": "new", "grid": {**tables["grid"], "range_bits": 45}})
    assert new.data_fingerprint == old.data_fingerprint
    assert new.stream_fingerprint != StreamDefinition.from_tables({**tables, "name": "new"}).stream_fingerprint
    assert StreamDefinition.from_tables(new.to_tables()) == new
    assert "range_bits" not in old.to_tables()["grid"]
    regroup, runner, reference = Regroup(old, new), EmbeddedRunner(new), Reference(new)
    for record in log_of(old):
        runner.broker.append_all(tuple(regroup.record(record)), NOW)
    runner.drain(NOW)
    assert regroup.counts == {"rows": 280, "retirements": 2, "refused rows": 0}
    for samples in BATCHES:
        reference.add(0, samples)
    for sample_id in ("row-3", "row-204"):
        reference.retire(sample_id)
    assert runner.merger.model is not None
    assert runner.merger.model.digest == reference.statistics().digest(new.data_fingerprint)
