"""Small streams, models and records, and what an exporter makes of them, for the tests of the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Source
from deltaplane.log.model import Model, SourcePosition
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.observe.metrics import StreamView
from deltaplane_services.observe.metrics.metric import Metric

Series = dict[tuple[str, ...], float]


def stream(**tables: Any) -> StreamDefinition:
    given: dict[str, Any] = {
        "name": "s",
        "features": {"names": ["a", "b"]},
        "grid": {"steps": [1.0, 0.5]},
        "classes": {"names": ["no", "yes"], "positive": "yes"},
        "window": {"length": 100},
    }
    return StreamDefinition.from_tables({**given, **tables})


BINARY = stream()
OPEN = stream(classes={})


def plane(classes: tuple[str, ...] = ("no", "yes"), weights: tuple[float, ...] = (3.0, 4.0)) -> Plane:
    return Plane(
        classes=classes,
        positive=classes[1] if len(classes) == 2 else None,
        weights=np.array([weights] if len(classes) == 2 else [weights] * len(classes)),
        biases=np.zeros(1 if len(classes) == 2 else len(classes)),
        sigmas={label: 0.5 + at for at, label in enumerate(classes)},
        C=2.0,
        condition=1e3,
        counts=dict.fromkeys(classes, 1),
    )


def model(version: int, definition: StreamDefinition = BINARY, **fields: Any) -> Model:
    """A model with these fields and nothing else."""
    given: dict[str, Any] = {
        "version": version,
        "stream_fingerprint": definition.stream_fingerprint,
        "data_fingerprint": definition.data_fingerprint,
        "created": 1_000_000 + version,
        "plane": None,
        "plane_version": 0,
        "refusal": None,
        "options": definition.solver,
        "digest_of": str,
        "counts": {},
        "positions": (),
        "scores": Confusion(),
        "totals": {},
    }
    return Model(**{**given, **fields})


def position(partition: int = 0, sequence: int = 1, owner: str = "w.1", *, removed: bool = False) -> SourcePosition:
    return SourcePosition(Source("here", partition), sequence, 0, 0, 0, owner, 0, removed)


def scores(**counts: int) -> Confusion:
    """``no_yes=3``: three of class no that were predicted to be yes."""
    return Confusion({(pair.split("_")[0], pair.split("_")[1]): count for pair, count in counts.items()})


def exported(registry: CollectorRegistry) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Name of a series → labels and value, as Prometheus reads them off the wire."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def series(source: StreamView | CollectorRegistry, metric: Metric, ending: str = "") -> Series:
    """The series of a metric: its own labels' values, in their order, to the value."""
    if isinstance(source, CollectorRegistry):
        registry = source
    else:
        registry = CollectorRegistry()
        registry.register(source)
    found = exported(registry).get(metric.name + ending, [])
    assert all(labels["stream"] == "s" for labels, _ in found)
    return {tuple(labels[name] for name in metric.labels): value for labels, value in found}


def only(source: StreamView | CollectorRegistry, metric: Metric, ending: str = "") -> float | None:
    """The value of a metric without labels of its own; None where it has no series."""
    return series(source, metric, ending).get(())
