"""Tested and trained row by row at once, a stream has the scores, digest and plane of one that has a model after every
row.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats, Int32s
from deltaplane.exact.grid import fit_grid
from deltaplane.log.confusion import Confusion
from deltaplane.log.model import Model
from deltaplane.log.row_scores import RowScores
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.produce.feed_options import ImbalanceSchedule, ReplayOptions
from deltaplane_services.replay import by_row as by_row_module
from deltaplane_services.replay.by_row import ByRowPipeline, by_row, slow_from_the_start
from deltaplane_services.replay.pipeline import EmbeddedPipeline
from deltaplane_services.replay.run import embedded

LABELS = ("a", "b", "c")

STREAMS: dict[str, dict[str, Any]] = {
    "weighted": {},
    "balanced over all that came": {"window": "all", "solver": {"weighting": "balanced"}},
    "without a row held": {"window": "all", "keep_rows": False},
    "one class against two others": {"positive": "b", "classes": 3},
    "of three planes": {"classes": 3},
    "of three classes, the third for a while": {"third_until": 80, "window": "30"},
    "with a class gone for a while": {"gone": (40, 120), "window": "25"},
    "with one class for a long time": {"gone": (0, 60)},
    "a window of three rows": {"window": "3"},
    "of a single constant feature": {"constant": True, "solver": {"C": 1e9}},
    "unweighted": {"solver": {"weighting": "none"}},
    "without a bias": {"solver": {"kind": "lssvm", "bias": "none", "weighting": "inverse"}},
    "of values that overflow 64 bits": {"wide": True},
    "balanced, in raw units": {"solver": {"weighting": "balanced", "standardize": False}},
    "unweighted, in raw units": {
        "solver": {"weighting": "none", "standardize": False},
        "gone": (40, 120),
        "window": "25",
    },
    "without a bias in raw units": {"solver": {"kind": "lssvm", "bias": "none", "standardize": False}},
    "of a free bias": {"solver": {"kind": "lssvm", "bias": "free"}},
    "of a free bias in raw units, balanced": {
        "solver": {"kind": "lssvm", "bias": "free", "standardize": False, "weighting": "balanced"}
    },
    "of weights by class": {"solver": {"weighting": {"a": 1.0, "b": 3.0, "c": 1.0}}},
}


def stream(of: dict[str, Any], seed: int) -> tuple[StreamDefinition, Floats, Int32s]:
    """A definition, rows float64[n, d] and class codes int32[n]."""
    random = np.random.default_rng(seed)
    count, features = 260, 3
    codes = random.integers(0, of.get("classes", 2), size=count).astype(np.int32)
    if "third_until" in of:
        codes[random.integers(20, of["third_until"], size=5)] = 2
    if "gone" in of:
        codes[slice(*of["gone"])] = 0
    rows = random.normal(size=(count, features)) + 0.8 * codes[:, None] * random.normal(size=features)
    if of.get("constant"):
        rows[:, 1] = 4.0
    grid = fit_grid(rows)
    steps = np.exp2(np.ceil(np.log2(np.abs(rows).max(axis=0))) - 29) if of.get("wide") else grid.steps
    tables = {
        "name": "rows",
        "features": {"names": ["x", "y", "z"]},
        "grid": {"steps": steps.tolist(), "offsets": grid.offsets.tolist()},
        "classes": {"positive": of["positive"]} if "positive" in of else {},
        "window": {"length": of.get("window", "50"), "keep_rows": of.get("keep_rows", True)},
        "solver": {"C": 1.0, **of.get("solver", {})},
    }
    return StreamDefinition.from_tables(tables), rows, codes


def records(definition: StreamDefinition, rows: Floats, codes: Int32s, most: int) -> list[Outgoing]:
    """The stream as records of up to ``most`` rows."""
    made = []
    for begin in range(0, len(rows), most):
        part = slice(begin, begin + most)
        ids = [f"r{begin + at}" for at in range(len(codes[part]))]
        samples = Samples.of_record(ids, 0, LABELS, codes[part], rows[part])
        made.append(codec_of(definition).sample_batch(0, samples))
    return made


def run(pipeline: EmbeddedPipeline, stream_records: list[Outgoing]) -> EmbeddedPipeline:
    for record in stream_records:
        pipeline.publish([record], 0)
        pipeline.advance(0)
    pipeline.drain(0)
    return pipeline


@functools.cache
def model_of_single_rows(name: str) -> Model | None:
    """The last model of a stream that has a record, a delta and a model for every row."""
    definition, rows, codes = stream(STREAMS[name], seed=len(name))
    return run(EmbeddedPipeline(definition, 0), records(definition, rows, codes, 1)).model


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("most", [7, 64, 1000])
def test_scores_digest_and_plane_are_those_of_a_record_a_delta_and_a_model_for_every_row(name: str, most: int) -> None:
    definition, rows, codes = stream(STREAMS[name], seed=len(name))
    slow = model_of_single_rows(name)
    fast = run(ByRowPipeline(definition, 0), records(definition, rows, codes, most)).model
    assert slow is not None
    assert fast is not None
    assert slow.scores.rows > 100
    assert fast.scores == slow.scores
    assert fast.digest == slow.digest
    assert fast.plane is not None
    assert slow.plane is not None
    assert fast.plane.weights.tobytes() == slow.plane.weights.tobytes()
    assert fast.plane.biases.tobytes() == slow.plane.biases.tobytes()
    assert fast.plane.sigmas == slow.plane.sigmas
    assert fast.refusal == slow.refusal


def test_rows_that_are_refused_are_not_scored_and_do_not_disturb_the_others() -> None:
    definition, rows, codes = stream({}, seed=5)
    rows[[30, 31, 200], 1] = np.nan
    slow = run(EmbeddedPipeline(definition, 0), records(definition, rows, codes, 1))
    fast = run(ByRowPipeline(definition, 0), records(definition, rows, codes, 50))
    assert fast.model is not None
    assert slow.model is not None
    assert fast.model.scores == slow.model.scores
    assert len(fast.dead_letters()) == len(slow.dead_letters()) == 3


@pytest.mark.parametrize("solver", [{}, {"weighting": "none", "standardize": False}, {"kind": "lssvm", "bias": "free"}])
def test_planes_are_made_many_at_a_time_where_they_can_be(
    solver: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one = 0
    add_one = RowScores._add_one

    def counted(self: RowScores, *of: Any) -> int:
        nonlocal one_by_one
        one_by_one += 1
        return add_one(self, *of)

    monkeypatch.setattr(RowScores, "_add_one", counted)
    definition, rows, codes = stream({"solver": solver}, seed=6)
    run(ByRowPipeline(definition, 0), records(definition, rows, codes, 100))
    assert one_by_one < 10
    run(ByRowPipeline(definition, 0), records(definition, rows, np.arange(len(codes), dtype=np.int32) % 3, 100))
    assert one_by_one > len(codes)


def test_a_replay_scores_rows_together_only_where_no_other_record_can_come_between_them() -> None:
    definition = stream({}, seed=1)[0]
    options = ReplayOptions("rows.csv", chunk=1)
    assert by_row(definition, options)
    assert by_row(definition, replace(options, imbalance=ImbalanceSchedule.parse("0:2")))
    assert not by_row(definition, replace(options, chunk=2))
    assert not by_row(definition, replace(options, retire_fraction=0.1))
    assert not by_row(definition, replace(options, rows_per_second=10.0))
    assert not by_row(definition, replace(options, definition_file=DefinitionFile(input=InputTable(id="name"))))
    assert not by_row(replace(definition, partitions=2), options)
    assert not by_row(replace(definition, choices=(0.1, 1.0)), options)


def of(**tables: Any) -> StreamDefinition:
    """The first stream with other settings."""
    given = stream({}, seed=1)[0].to_tables()
    for name, table in tables.items():
        given[name] = {**given.get(name, {}), **table} if isinstance(table, dict) else table
    return StreamDefinition.from_tables(given)


FITTED = {"centers": [0] * 3, "scales": [1.0] * 3}
BY_ROW = ReplayOptions("rows.csv", chunk=1)
PRIOR = {
    "classes": ["a", "b"],
    "features": ["x", "y", "z"],
    "weights": [[0.0, 0.0, 1.0]],
    "biases": [0.0],
    "positive": "b",
}
SLOW: dict[str, tuple[StreamDefinition, ReplayOptions, str]] = {
    "ids": (of(), replace(BY_ROW, definition_file=DefinitionFile(input=InputTable(id="name"))), "--id"),
    "retirements": (of(), replace(BY_ROW, retire_fraction=0.1), "--retire-fraction"),
    "partitions": (of(partitions=2), BY_ROW, "2 partitions (--partitions 1)"),
    "windows": (of(window={"length": ["50", "100"]}), BY_ROW, "2 windows"),
    "choices of C": (of(solver={"C": [0.1, 1.0]}), BY_ROW, "several choices of C"),
    "time": (of(window={"length": "7d"}), BY_ROW, "a window of time"),
    "a map": (of(feature_map={"kind": "hidden", "units": 3, "seed": 1, **FITTED}), BY_ROW, "--feature-map linear"),
    "a prior": (of(prior=PRIOR), BY_ROW, "leave out --prior"),
    "weights by class": (of(solver={"weighting": {"a": 1.0, "b": 2.0}}), BY_ROW, "weights by class"),
}


@pytest.mark.parametrize("name", SLOW)
def test_what_makes_a_replay_by_row_slow_is_named_with_what_to_do(name: str) -> None:
    definition, options, names = SLOW[name]
    said: list[str] = []
    embedded(options, said.append)(definition).close()
    (warning,) = said
    assert names in warning
    assert "--chunk 100" in warning
    assert slow_from_the_start(definition, replace(options, chunk=100)) is None
    for other, (_, _, others) in SLOW.items():
        assert others not in warning or other == name


def test_nothing_is_said_of_a_replay_by_row_that_is_fast() -> None:
    said: list[str] = []
    definition, rows, codes = stream({}, seed=6)
    pipeline = embedded(BY_ROW, said.append)(definition)
    assert isinstance(pipeline, ByRowPipeline)
    run(pipeline, records(definition, rows, codes, 100))
    assert not said


@pytest.mark.parametrize(
    ("changes", "names"), [({"classes": 3}, "3 classes"), ({"wide": True, "window": "all"}, "a coarser grid")]
)
def test_what_only_the_rows_show_is_said_once_when_many_of_them_had_to_be_solved_for_alone(
    changes: dict[str, Any], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_row_module, "ROWS_ALONE", 100)
    said: list[str] = []
    definition, rows, codes = stream(changes, seed=6)
    pipeline = embedded(BY_ROW, said.append)(definition)
    assert isinstance(pipeline, ByRowPipeline)
    run(pipeline, records(definition, rows, codes, 20))
    (warning,) = said
    assert names in warning


def test_a_pipeline_without_a_row_has_no_model_and_no_scores() -> None:
    definition = stream({}, seed=1)[0]
    assert ByRowPipeline(definition, 0).model is None
    assert RowScores(definition).scores == Confusion()
