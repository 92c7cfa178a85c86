"""A whole embedded pipeline that is fed hard rows, and its oracle beside it, compared after every record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.exact.grid import Grid
from deltaplane.log.merger import plane_of
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.reference import Reference
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import read_dead_letter, read_model, write_retirement, write_sample_batch
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.messages import DEAD_LETTERS, MODELS, RETIREMENTS, SAMPLES, Outgoing

MODES = ("plain", "automatic", "hidden", "fourier")
"""One window and one C; nested windows and several C; and one window behind either feature map."""


def definition_for(
    mode: str,
    steps: Sequence[float],
    window: int | str = 50,
    offsets: Sequence[float] | None = None,
    scales: Sequence[float] | None = None,
    solver: SolverOptions | None = None,
) -> StreamDefinition:
    """A stream of classes "no" and "yes", in one of the modes; ``window`` is the longest one.

    ``scales``: grid steps that a feature map takes for one standard deviation; 1000 by default.
    """
    features, lengths = len(steps), [str(window)]
    feature_map = NO_MAP
    if mode in ("hidden", "fourier"):
        scaled = tuple(scales or [1000.0] * features)
        feature_map = FeatureMap(mode, 6, 7, 2.0, (0,) * features, scaled)  # type: ignore[arg-type]
    if mode == "automatic":
        lengths = ["20", *lengths]
    return StreamDefinition(
        name="torture",
        features=tuple(f"f{at}" for at in range(features)),
        grid=Grid(np.array(steps), np.array(offsets or [0.0] * features)),
        nested_windows=NestedWindows(tuple(map(Window.parse, lengths))),
        solver=solver or SolverOptions(),
        classes=ClassDefinition(("no", "yes"), "yes"),
        choices=(0.01, 1.0, 100.0) if mode == "automatic" else (),
        weightings=("inverse", "none") if mode == "automatic" else (),
        feature_map=feature_map,
    )


class TortureStream:
    """One source through worker, merger and the wire. After each record the digest is the oracle's, and the plane is
    what the live rows give, to the bit; or there is a refusal, and the plane is the one of before.
    """

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.runner = EmbeddedRunner(definition, options=RunnerOptions(keep_log=True))
        self.reference = Reference(definition)
        self.model: Model | None = None
        self._rows = 0
        self._retired = 0

    def take(
        self, rows: Floats | Sequence[Sequence[float]], labels: Sequence[str], first_id: int | None = None
    ) -> Model:
        """Rows float64[n, d] as one record; their ids are numbers that go on."""
        values = np.array(rows, dtype=np.float64)
        begin = self._rows if first_id is None else first_id
        table = tuple(sorted(set(labels)))
        samples = Samples.of_record(
            ids=[str(begin + at) for at in range(len(values))],
            event_times=np.arange(begin, begin + len(values), dtype=np.int64),
            label_table=table,
            label_codes=np.array([table.index(label) for label in labels], dtype=np.int32),
            features=values,
        )
        self._rows = max(self._rows, begin + len(values))
        value = write_sample_batch(samples, self.definition.data_fingerprint)
        self.runner.broker.append(Outgoing(SAMPLES, 0, None, value), 0)
        self.reference.add(0, samples)
        return self._drained()

    def retire(self, ids: Sequence[int]) -> Model:
        """Retire rows by their numbers."""
        for number in ids:
            retirement = Retirement(str(number), "asked", 0)
            value = write_retirement(retirement, self.definition.data_fingerprint)
            self.runner.broker.append(Outgoing(RETIREMENTS, 0, None, value), 0)
            self.reference.retire(str(number))
        return self._drained()

    def _drained(self) -> Model:
        before = self.model
        self.runner.drain(0)
        model = read_model(self.runner.broker.fetch_topic(MODELS)[-1].value)
        live = self.reference.statistics()
        assert model.digest == live.digest(self.definition.data_fingerprint)
        if model.refusal is None:
            assert model.plane is not None
            assert model.plane_version == model.version
            assert bits(model.plane) == bits(plane_of(live, self.definition, model.blend))
            assert 1.0 <= model.plane.condition < 2.0**53
        else:
            assert bits(model.plane) == bits(None if before is None else before.plane)
            assert model.plane_version == (0 if before is None else before.plane_version) < model.version
        self.model = model
        return model

    def letters(self) -> list[DeadLetter]:
        """The dead letters so far."""
        return [read_dead_letter(record.value) for record in self.runner.broker.fetch_topic(DEAD_LETTERS)]


def bits(plane: Plane | None) -> bytes:
    """All numbers of a plane."""
    return b"" if plane is None else plane.weights.tobytes() + plane.biases.tobytes()


def planes_of(model: Model) -> bytes:
    """All numbers of the plane; in the automatic mode of every candidate, but not what it has done so far."""
    if model.blend is None:
        return bits(model.plane)
    return b"".join(one.weights.tobytes() + one.biases.tobytes() for one in model.blend.of.values())


def plane(model: Model) -> Plane:
    """The plane of a model that was solved anew."""
    assert model.refusal is None, model.refusal
    assert model.plane is not None
    return model.plane


def inputs_of(stream: TortureStream, rows: Sequence[Sequence[float]]) -> Floats:
    """What a plane of the stream is asked about raw rows."""
    return stream.definition.plane_inputs(np.array(rows, dtype=np.float64))[0]


def cloud(
    seed: int, rows: int, features: int = 2, share: float = 0.5, apart: float = 1500.0
) -> tuple[Floats, list[str]]:
    """Whole numbers of a deviation of 1000 about two means that lie ``apart``, and their labels."""
    random = np.random.default_rng(seed)
    own = random.random(rows) < share
    own[:2] = [True, False]
    values = np.rint(random.normal(size=(rows, features)) * 1000.0 + np.where(own, apart, -apart)[:, None] / 2)
    return values, ["yes" if yes else "no" for yes in own.tolist()]


def with_window(definition: StreamDefinition, *windows: str, keep_rows: bool = True) -> StreamDefinition:
    """The same stream with other windows."""
    return replace(definition, nested_windows=NestedWindows(tuple(map(Window.parse, windows)), keep_rows=keep_rows))
