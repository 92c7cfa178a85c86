"""Streams of every kind that a model can be exported of, and a model that the whole pipeline has made of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats, Int32s
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.codec import codec_of

__all__ = ["NOW", "PLAIN", "ROWS", "STANDARD", "STREAMS", "fixtures_of", "model_of", "model_of_rows"]

NOW = 1_000_000
ROWS = 600

PLAIN: dict[str, Any] = {
    "name": "stream",
    "features": {"names": ["height", "weight", "age"]},
    "grid": {"steps": [2.0**-10, 2.0**-3, 1.0], "offsets": [0.0, 2.0, 0.0]},
    "classes": {"names": ["no", "yes"], "positive": "yes"},
    "window": {"length": "all"},
    "solver": {"C": 1.0},
}
STANDARD = {"centers": [0, 0, 0], "scales": [1024.0, 8.0, 1.0]}
STREAMS: dict[str, dict[str, Any]] = {
    "binary": {},
    "three classes": {"classes": {"names": ["a", "b", "c"]}},
    "missing values filled in": {"features": {"names": ["height", "weight", "age"], "missing": "offset"}},
    "hidden": {"feature_map": {"kind": "hidden", "units": 31, "seed": 5, "sigma": 1.5, **STANDARD}},
    "fourier": {"feature_map": {"kind": "fourier", "units": 32, "seed": 6, "sigma": 2.0, **STANDARD}},
    "fourier of three classes, missing values filled in": {
        "features": {"names": ["height", "weight", "age"], "missing": "offset"},
        "classes": {"names": ["a", "b", "c"]},
        "feature_map": {"kind": "fourier", "units": 20, "seed": 7, **STANDARD},
    },
    "automatic": {"window": {"length": "auto", "max": 2000}, "solver": {}},
    "mixed": {"feature_map": {"kind": "mixed", "units": 24, "seed": 8, **STANDARD}},
    "automatic, mixed, missing values filled in": {
        "features": {"names": ["height", "weight", "age"], "missing": "offset"},
        "window": {"length": "auto", "max": 2000},
        "solver": {},
        "feature_map": {"kind": "mixed", "units": 40, "seed": 9, "curved": [0, 2], **STANDARD},
    },
}


def fixtures_of(*names: str) -> tuple[Any, Any]:
    """(a fixture ``stream`` that is each of these streams in turn, all by default; a fixture ``model`` of it)."""

    @pytest.fixture(scope="module", params=names or STREAMS)
    def stream(request: pytest.FixtureRequest) -> StreamDefinition:
        return StreamDefinition.from_tables(PLAIN | STREAMS[request.param])

    @pytest.fixture(scope="module")
    def model(stream: StreamDefinition) -> Model:
        return model_of(stream)

    return stream, model


def model_of(stream: StreamDefinition) -> Model:
    """A model that the whole pipeline has made of rows of three features."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(ROWS, 3)).round(3)
    codes = (rows[:, 0] ** 2 + rows[:, 1] > 1.0).astype(np.int32)
    if len(stream.classes.names) == 3:
        codes += rows[:, 2] > 0.5
    return model_of_rows(stream, rows, codes)


def model_of_rows(stream: StreamDefinition, rows: Floats, codes: Int32s) -> Model:
    """A model that the whole pipeline has made of rows float64[n, d] and the places of their classes int32[n]."""
    names = stream.classes.names
    runner = EmbeddedRunner(stream, options=RunnerOptions(keep_log=True))
    for start in range(0, len(rows), 100):
        part = slice(start, start + 100)
        ids = [f"row-{at}" for at in range(start, start + 100)]
        samples = Samples.of_record(ids, NOW, names, codes[part], rows[part])
        runner.broker.append(codec_of(stream).sample_batch(0, samples), NOW)
        runner.round(NOW)
    runner.drain(NOW)
    made = runner.merger.model
    assert made is not None
    assert made.plane is not None
    return made
