"""Models that the holder of a merger's rights forges: well made, and taken by every reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.solve.candidates import Blend, Candidates
from deltaplane.solve.score_histograms import EDGES, ScoreHistory
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.wire import read_model
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import DELTAS, MODELS
from simulation.world import World

Forge = Callable[[World, Model], Model | None]


def _with_plane(**changed: Callable[[Any], Any]) -> Forge:
    def forge(_: World, model: Model) -> Model | None:
        if model.plane is None:
            return None
        fields = {name: change(getattr(model.plane, name)) for name, change in changed.items()}
        return replace(model, plane=replace(model.plane, **fields))

    return forge


def _with_position(**changed: Callable[[Any], Any]) -> Forge:
    def forge(_: World, model: Model) -> Model | None:
        first = model.positions[0]
        fields = {name: change(getattr(first, name)) for name, change in changed.items()}
        return replace(model, positions=(replace(first, **fields), *model.positions[1:]))

    return forge


def _with_candidates(name: str) -> Forge:
    """Other numbers beside the candidates of one class, as far as candidates have been tried."""

    def forge(_: World, model: Model) -> Model | None:
        if model.blend is None or model.refusal is not None:
            return None
        target, candidates = next(iter(model.blend.of.items()))
        values = getattr(candidates, name)
        if not (values > 0.0).any():
            return None
        other: Candidates = replace(candidates, **{name: values * 0.75})
        of = {**model.blend.of, target: other}
        return replace(model, blend=Blend(model.blend.choices, of, model.blend.aim))

    return forge


def _with_scores(change: Callable[[ScoreHistory], ScoreHistory]) -> Forge:
    """Other scores of the candidates of one class, or another threshold made of them."""

    def forge(_: World, model: Model) -> Model | None:
        if model.blend is None or model.blend.aim is None or model.refusal is not None:
            return None
        target, history = next(iter(model.blend.aim.of.items()))
        if not history.counts.any():
            return None
        aim = replace(model.blend.aim, of={**model.blend.aim.of, target: change(history)})
        return replace(model, blend=replace(model.blend, aim=aim))

    return forge


def _never_take_a_source_in(world: World, model: Model) -> Model | None:
    """All that an honest merger makes of the deltas of all sources but one."""
    if len(model.positions) < 2 or any(world.broker.begin(DELTAS, partition) for partition in world.workers):
        return None
    merger = MergerProcessor(world.definition)
    last = max(world.broker.everything[MODELS, 0], key=lambda record: read_model(record.value).version)
    merger.restore([], [last])
    first, *others = model.positions
    for position in others:
        merger.process(world.broker.fetch(DELTAS, position.source.partition, 0))
    merger.publish(world.now)
    made = merger.model
    return made if made is not None and made.version > model.version and first.samples else None


def _take_an_earlier_plane(world: World, model: Model) -> Model | None:
    """The plane of before: of rows that have gone since, perhaps because somebody had them retired."""
    for record in reversed(world.broker.everything[MODELS, 0]):
        before = read_model(record.value)
        if before.plane is not None and before.digest != model.digest and model.refusal is None:
            return replace(model, plane=before.plane, blend=before.blend)
    return None


def _write_an_earlier_model_again(world: World, model: Model) -> Model | None:
    """A model that was right once, and has rows that have been retired since."""
    for record in world.broker.everything[MODELS, 0]:
        before = read_model(record.value)
        at = {position.source: position.sequence for position in before.positions}
        less = [
            position for position in model.positions if at.get(position.source, position.sequence) < position.sequence
        ]
        if less:
            return before
    return None


def _refuse(_: World, model: Model) -> Model | None:
    return None if model.refusal is not None else replace(model, refusal="solve: not today")


def _improve(_: World, model: Model) -> Model | None:
    counts = model.scores.counts
    wrong = next(((truth, told) for truth, told in counts if truth != told), None)
    if wrong is None:
        return None
    better = {pair: count for pair, count in counts.items() if pair != wrong}
    better[wrong[0], wrong[0]] = better.get((wrong[0], wrong[0]), 0) + counts[wrong]
    return replace(model, scores=Confusion(better))


def _watermark(_: World, model: Model) -> Model:
    return replace(model, watermark=model.watermark + 1)


def _name_a_source(_: World, model: Model) -> Model:
    """A source of which there is no delta."""
    made_up = replace(model.positions[0], source=Source("nowhere", 0), sequence=3, samples=7)
    return replace(model, positions=tuple(sorted((*model.positions, made_up), key=lambda at: at.source)))


def _with_known(field: str, change: Callable[[Any], Any]) -> Forge:
    """A model whose answers are told otherwise what they need beside the plane."""

    def forge(_world: World, model: Model) -> Model | None:
        known = None if model.plane is None or model.calibration is None else getattr(model.plane, field)
        if model.plane is None or known is None or model.refusal is not None:
            return None
        return replace(model, plane=replace(model.plane, **{field: change(known)}))

    return forge


MODEL_FORGERIES: Mapping[str, Forge] = {
    "other weights": _with_plane(weights=lambda weights: weights * 1.001),
    "weights of zero": _with_plane(weights=lambda weights: weights * 0.0),
    "another bias": _with_plane(biases=lambda biases: biases + 0.001),
    "another C": _with_plane(C=lambda C: C * 2),
    "other class weights": _with_plane(sigmas=lambda sigmas: {label: 2 * sigma for label, sigma in sigmas.items()}),
    "other rows of a class": _with_plane(counts=lambda counts: {label: rows + 1 for label, rows in counts.items()}),
    "hits of candidates": _with_candidates("hits"),
    "rows of candidates": _with_candidates("rows"),
    "shares of candidates": _with_candidates("shares"),
    "biases of candidates": _with_candidates("biases"),
    "scores of candidates": _with_scores(lambda known: replace(known, counts=known.counts * 0.75)),
    "the units of scores": _with_scores(lambda known: replace(known, units=known.units * 1.5)),
    "a threshold": _with_scores(
        lambda known: replace(known, threshold=float(EDGES[0] if known.threshold > 0.0 else EDGES[-1]))
    ),
    "the units of probabilities": _with_known("units", lambda units: units * 1.5),
    "where the live rows lie": _with_known("means", lambda means: means + 10.0),
    "an earlier plane": _take_an_earlier_plane,
    "an earlier model": _write_an_earlier_model_again,
    "another digest": lambda _, model: replace(model, digest_of=lambda: "0" * 64),
    "other live rows": lambda _, model: replace(model, counts={**model.counts, "x": model.counts.get("x", 0) + 1}),
    "better scores": _improve,
    "other outcomes": lambda _, model: replace(model, totals={**model.totals, "applied": 2**40}),
    "a later watermark": _watermark,
    "other options": lambda _, model: replace(model, options=SolverOptions(C=123.0)),
    "a refusal": _refuse,
    "a plane of before": lambda _, model: replace(model, plane_version=1),
    "tiles that never were": _with_position(sequence=lambda sequence: sequence + 1),
    "samples that never were": _with_position(samples=lambda samples: samples + 1),
    "retirements that never were": _with_position(retirements=lambda retirements: retirements + 1),
    "a source's later watermark": _with_position(watermark=lambda watermark: watermark + 1),
    "deltas that never were": _with_position(read_to=lambda read_to: read_to + 2**40),
    "another owner": _with_position(owner=lambda owner: f"{owner}, or rather I"),
    "a source removed": _with_position(removed=lambda removed: not removed),
    "a source never taken in": _never_take_a_source_in,
    "a source made up": _name_a_source,
}
"""What can be forged of a model, by name; None where a history has nothing that it could be done with."""


def forged_model(name: str, world: World, newest: Model) -> Model | None:
    """The newest model, forged, under the next version: readers take it."""
    forged = MODEL_FORGERIES[name](world, newest)
    if forged is None:
        return None
    solved_now = forged.plane_version == forged.version
    version = newest.version + 1
    return replace(forged, version=version, plane_version=version if solved_now else forged.plane_version)
