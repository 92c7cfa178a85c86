"""A stream's models, read from their topic: the newest, each as it comes, for people and as JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import rich.console
from rich.table import Table

from deltaplane.errors import DeltaplaneError
from deltaplane.log import confusion
from deltaplane.log.exported_model import model_tables
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader, topic_watch
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.observe.blend_tables import blend_shares, candidates_table
from deltaplane_services.processors.messages import MODELS
from deltaplane_services.system.printable import plain, sayable

__all__ = [
    "POLL_SECONDS",
    "NoModel",
    "follow_models",
    "model_as_json",
    "model_if_any",
    "model_line",
    "newest_model",
    "print_model",
]

POLL_SECONDS = 0.2


class NoModel(DeltaplaneError):
    """The models topic holds no model."""


def newest_model(settings: ServiceSettings) -> Model:
    """The newest model. Raises :class:`NoModel` where there is none."""
    model = model_if_any(settings)
    if model is None:
        raise NoModel(f"{settings.definition.name}.{MODELS} holds no model; is a merger running?")
    return model


def model_if_any(settings: ServiceSettings) -> Model | None:
    """The newest model, or None before there is one."""
    follower = ModelFollower(reader(settings, "central"), settings.definition)
    follower.close()
    return follower.model


def follow_models(settings: ServiceSettings, deadline_seconds: float = math.inf) -> Iterator[Model]:
    """The newest model, then each newer one, for so long; lower versions and other definitions are left out."""
    watch = topic_watch(settings, "central", (MODELS,))
    follower = ModelFollower(reader(settings, "central"), settings.definition, watch=watch)
    until = time.monotonic() + deadline_seconds
    try:
        if follower.model is not None:
            yield follower.model
        while time.monotonic() < until:
            yield from follower.poll(500, POLL_SECONDS)
    finally:
        follower.close()


def model_line(model: Model) -> str:
    """One line about a model."""
    scores = confusion.summary(model.scores)
    note = f"  plane of version {model.plane_version}: {model.refusal}" if model.refusal else ""
    return (
        f"version {model.version}  rows {sum(model.counts.values()):,}  G-mean {scores.gmean:.4f}"
        f"  imbalance {confusion.imbalance_ratio(model.counts):.2f}  digest {model.digest[:16]}{note}"
    )


def model_as_json(model: Model, definition: StreamDefinition) -> dict[str, Any]:
    """A model in plain values: all that it takes to predict with it elsewhere, and how it came about."""
    plane = model.plane
    tables: dict[str, Any] = sayable(
        {
            **model_tables(model, definition),
            "counts": dict(model.counts),
            "sigmas": None if plane is None else dict(plane.sigmas),
            "C": model.options.C if plane is None else plane.C,
            "blend": blend_shares(model.leaning, definition),
            "candidates": candidates_table(model, definition),
            "kind": model.options.kind,
            "standardize": model.options.standardize,
            "condition": None if plane is None else plane.condition,
            "plane_version": model.plane_version,
            "refusal": model.refusal,
            "measures": confusion.summary(model.scores, None if plane is None else plane.positive).to_dict(),
            "outcomes": dict(model.totals),
        }
    )
    return tables


def print_model(model: Model, definition: StreamDefinition) -> None:
    """A model as a table on standard output."""
    table = Table(title=plain(f"{definition.name}, {model_line(model)}"), title_justify="left")
    if model.plane is not None:
        sides = model.plane.classes if model.plane.positive is None else (model.plane.positive,)
        table.add_column("feature")
        for side in sides:
            table.add_column(plain(side), justify="right")
        for name, weights in zip(definition.plane_features, model.plane.weights.T.tolist(), strict=True):
            table.add_row(plain(name), *(f"{weight:.6g}" for weight in weights))
        table.add_row("intercept", *(f"{-bias:.6g}" for bias in model.plane.biases.tolist()))
    # The names of features and classes are text, and never read as markup.
    rich.console.Console(highlight=False, markup=False, emoji=False).print(table)
