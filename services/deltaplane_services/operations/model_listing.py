"""A stream's models, read from their topic: the newest one, and each new one, as text and as JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import rich.console
from rich.table import Table

from deltaplane.arrays import Floats
from deltaplane.errors import DeltaplaneError
from deltaplane.exact.deviations import deviations, ranked, standardized
from deltaplane.exact.statistics import Statistics
from deltaplane.log import confusion
from deltaplane.log.exported_model import model_tables
from deltaplane.log.headline import headline, headline_name, positive_of
from deltaplane.log.merger import of_modelled_classes
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import readable_checkpoints, state_at
from deltaplane_services.kafka.clients import reader, topic_watch
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.observe.blend_tables import blend_shares, candidates_table, objective_table
from deltaplane_services.processors.messages import MODELS
from deltaplane_services.system.printable import json_value, plain

__all__ = [
    "POLL_SECONDS",
    "NoModel",
    "StatisticsGone",
    "first_model",
    "follow_models",
    "live_deviations",
    "model_as_json",
    "model_if_any",
    "model_line",
    "newest_model",
    "print_model",
]

POLL_SECONDS = 0.2


class NoModel(DeltaplaneError):
    """The models topic holds no model."""


class StatisticsGone(DeltaplaneError):
    """Checkpoints and deltas do not add up to the statistics behind a model."""


def newest_model(settings: ServiceSettings) -> Model:
    """The newest model. Raises :class:`NoModel` if there is none."""
    model = model_if_any(settings)
    if model is None:
        raise NoModel(f"{settings.definition.name}.{MODELS} holds no model; is a merger running?")
    return model


def model_if_any(settings: ServiceSettings) -> Model | None:
    """The newest model; None if there is none."""
    follower = ModelFollower(reader(settings, "central"), settings.definition)
    follower.close()
    return follower.model


def live_deviations(settings: ServiceSettings, model: Model) -> Floats:
    """Standard deviations float64[d] of the features over the live rows behind a model, in raw units.

    A model does not carry its statistics. They are added up from checkpoints and the deltas after them, and checked
    against the digest of the model. Raises :class:`StatisticsGone` if the digests differ, what
    :func:`~deltaplane_services.kafka.accepted.state_at` raises, and :class:`NotAllowed` if those topics may not be
    read.
    """
    definition = settings.definition
    with closing(reader(settings, "central")) as central:
        checkpoints, live = readable_checkpoints(settings, central), Statistics(definition.dimension)
        for position in model.positions:
            if not position.removed:
                live = live + state_at(settings, central, checkpoints, position).statistics
    if live.digest(definition.data_fingerprint) != model.digest:
        raise StatisticsGone(
            f"model {model.version}: checkpoints and deltas add up to other statistics than the model was made from;"
            " run deltaplane audit to learn why"
        )
    grams = of_modelled_classes(live, definition).grams(definition.nested_windows.longest)
    return deviations(grams.values(), definition.plane_grid)


def follow_models(settings: ServiceSettings, deadline_seconds: float = math.inf) -> Iterator[Model]:
    """The newest model, then each newer one, for ``deadline_seconds``.

    Models with a lower version or of another definition are skipped.
    """
    watch = topic_watch(settings, "central", (MODELS,))
    until = time.monotonic() + deadline_seconds
    with closing(ModelFollower(reader(settings, "central"), settings.definition, watch=watch)) as follower:
        if follower.model is not None:
            yield follower.model
        while time.monotonic() < until:
            yield from follower.poll(500, POLL_SECONDS)


def first_model(settings: ServiceSettings, wanted: Callable[[Model], bool], wait_seconds: float) -> Model | None:
    """The first ``wanted`` model: the newest, or one that comes within ``wait_seconds``; None if there is none."""
    return next(filter(wanted, follow_models(settings, wait_seconds)), None)


def model_line(model: Model, definition: StreamDefinition) -> str:
    """A model in one line of text."""
    positive = positive_of(definition.classes.positive, model.plane, model.scores)
    figure = headline(model.objective, model.scores, positive)
    shown = "–" if math.isnan(figure) else f"{figure:.4f}"
    name = headline_name(model.objective)
    note = f"  not within bounds: {model.unmet}" if model.unmet else ""
    note += f"  plane of version {model.plane_version}: {model.refusal}" if model.refusal else ""
    return (
        f"version {model.version}  rows {sum(model.counts.values()):,}  {name} {shown}"
        f"  imbalance {confusion.imbalance_ratio(model.counts):.2f}  digest {model.digest[:16]}{note}"
    )


def model_as_json(model: Model, definition: StreamDefinition) -> dict[str, Any]:
    """A model as plain values: everything that predictions need, and how the model was solved."""
    plane, positive = model.plane, positive_of(definition.classes.positive, model.plane, model.scores)
    tables: dict[str, Any] = json_value(
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
            "objective": objective_table(model.objective, model, positive),
            "measures": confusion.summary(model.scores, positive).to_dict(),
            "outcomes": dict(model.totals),
        }
    )
    return tables


def print_model(model: Model, definition: StreamDefinition, spread: Floats | None) -> None:
    """Print a model as a table on standard output.

    ``spread`` float64[d] are the standard deviations of the features. With them, weights are standardized, and features
    are sorted by their size. Without them, weights are raw, in the order of the definition, with the intercept.
    """
    # The names of features and classes are text, and never read as markup.
    console = rich.console.Console(highlight=False, markup=False, emoji=False)
    console.print(plain(f"{definition.name}, {model_line(model, definition)}"))
    table = Table()
    if model.plane is not None:
        sides = model.plane.classes if model.plane.positive is None else (model.plane.positive,)
        shown = model.plane.weights if spread is None else standardized(model.plane.weights, spread)
        order = range(len(definition.plane_features)) if spread is None else ranked(shown).tolist()
        table.add_column("feature")
        for side in sides:
            table.add_column(plain(side), justify="right")
        for feature in order:
            name, weights = definition.plane_features[feature], shown[:, feature].tolist()
            table.add_row(plain(name), *(f"{weight:{'.6g' if spread is None else '+.4g'}}" for weight in weights))
        if spread is None:
            table.add_row("intercept", *(f"{-bias:.6g}" for bias in model.plane.biases.tolist()))
        console.print(table)
    if spread is not None:
        console.print("weight times deviation of its feature over the live rows; --raw: raw weights")
