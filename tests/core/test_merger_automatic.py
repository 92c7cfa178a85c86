"""The merger in the automatic mode: trials count once, whatever crashed, and whatever source they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, Tile
from deltaplane.log.merger import Merger, goes_on_from, plane_of
from deltaplane.log.model import Model
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.wire import read_model, write_model
from strategies_streams import definition_of

DEFINITION = replace(definition_of("4", "all", partitions=2), choices=(0.1, 10.0), solver=SolverOptions(C=10.0))
CHOICES = DEFINITION.choices_tried
OTHERS = (Choice(1.0, "inverse"), Choice(2.0, "inverse"))
HERE, THERE = Source("here", 0), Source("there", 1)
ROWS = {"x": [[5.0], [7.0], [4.0]], "y": [[-5.0], [-6.0], [3.0]]}


def sums() -> Statistics:
    return Statistics(2, {(w, label): Moments.of_rows(np.array(rows)) for label, rows in ROWS.items() for w in (0, 1)})


def tried(hits: int, choices: tuple[Choice, ...] = CHOICES, windows: int = 2) -> PrequentialCounts:
    """Ten rows of each side, of which the candidates of the first C had so many right, the others half."""
    right = np.full((windows, len(choices), 2, 2), 5)
    right[:, 0] = hits
    return PrequentialCounts(choices, {"y": right}, {"y": np.full((windows, len(choices), 2), 10)})


def delta(
    source: Source,
    sequence: int,
    prequential_counts: PrequentialCounts | None = None,
    change: Statistics | None = None,
    scored_by: int = 0,
) -> Delta:
    return Delta(
        source=source,
        writer="w",
        stream_fingerprint=DEFINITION.stream_fingerprint,
        tile=Tile(sequence, sequence, sequence + 1, 0, 0),
        rebuild=Rebuild(),
        change=change or Statistics(2),
        prequential_counts=prequential_counts,
        scored_by=scored_by,
    )


def begun() -> Merger:
    """A merger with one model, of the candidates that are tried next."""
    merger = Merger(DEFINITION)
    for source in (HERE, THERE):
        merger.apply(Claim(source, "w", DEFINITION.stream_fingerprint))
    merger.apply(delta(HERE, 0, change=sums()))
    published(merger)
    return merger


def published(merger: Merger) -> Model:
    model = merger.publish(1)
    assert model is not None
    return model


def candidates(model: Model) -> Sequence[bytes]:
    """What is known of the candidates of a model, and its plane, as bytes."""
    assert model.blend is not None
    assert model.plane is not None
    of = model.blend.of["y"]
    arrays = (of.hits, of.rows, of.shares, of.weights, of.biases, model.plane.weights, model.plane.biases)
    return [array.tobytes() for array in arrays]


def test_the_plane_leans_to_the_candidates_that_did_better() -> None:
    merger = begun()
    merger.apply(delta(HERE, 1, tried(9)))
    model = published(merger)
    assert model.blend is not None
    shares = model.blend.of["y"].shares
    assert shares[:, 0].sum() > 0.999
    assert model.plane is not None
    assert pytest.approx(0.1, rel=1e-3) == model.plane.C


def test_the_model_is_the_same_whatever_source_the_prequential_counts_came_from_and_in_what_order() -> None:
    one, two, three = begun(), begun(), begun()
    one.apply(delta(HERE, 1, tried(9)))
    one.apply(delta(HERE, 2, tried(6)))
    two.apply(delta(THERE, 0, tried(6)))
    two.apply(delta(HERE, 1, tried(9)))
    three.apply(delta(THERE, 0, tried(9)))
    three.apply(delta(HERE, 1, tried(6)))
    models = [published(merger) for merger in (one, two, three)]
    assert candidates(models[0]) == candidates(models[1]) == candidates(models[2])


def test_prequential_counts_that_a_restarted_merger_reads_again_count_once() -> None:
    merger = begun()
    checkpoint = [merger.state(source) for source in (HERE, THERE)]
    merger.apply(delta(HERE, 1, tried(9)))
    last = published(merger)
    merger.apply(delta(HERE, 2, tried(2)))
    merger.apply(delta(THERE, 0, tried(3)))

    again = Merger(DEFINITION)
    again.restore(checkpoint, read_model(write_model(last)))
    for one in (delta(HERE, 1, tried(9)), delta(HERE, 2, tried(2)), delta(THERE, 0, tried(3))):
        again.apply(one)
    assert candidates(published(again)) == candidates(published(merger))


def test_a_published_plane_can_be_computed_again_from_its_statistics_and_shares() -> None:
    merger = begun()
    merger.apply(delta(HERE, 1, tried(7)))
    model = published(merger)
    assert model.plane is not None
    again = plane_of(sums(), DEFINITION, model.blend)
    assert again.weights.tobytes() == model.plane.weights.tobytes()
    assert again.biases.tobytes() == model.plane.biases.tobytes()


@pytest.mark.parametrize("others", [tried(9, OTHERS), tried(9, windows=3), tried(9, CHOICES[:1])])
def test_prequential_counts_of_other_candidates_are_left_out_and_counted(others: PrequentialCounts) -> None:
    merger, plain = begun(), begun()
    merger.apply(delta(HERE, 1, others))
    plain.apply(delta(HERE, 1))
    assert candidates(published(merger)) == candidates(published(plain))
    assert merger.void_prequential_counts == 1


@pytest.mark.parametrize("changed", [{"standardize": False}, {"kind": "lpsvm", "weighting": "none"}])
def test_what_was_known_of_candidates_of_other_options_is_forgotten_though_the_choice_is_the_same(
    changed: dict[str, Any],
) -> None:
    merger = begun()
    merger.apply(delta(HERE, 1, tried(9)))
    checkpoint, last = [merger.state(source) for source in (HERE, THERE)], published(merger)
    other = replace(DEFINITION, solver=replace(DEFINITION.solver, **changed))

    again = Merger(other)
    again.restore(checkpoint, read_model(write_model(last)))
    own = tried(4, other.choices_tried)
    again.apply(delta(HERE, 2, own, scored_by=last.version))
    assert again.void_prequential_counts == 1
    first = published(again)
    assert first.blend is not None
    assert first.blend.of["y"].rows.tolist() == np.zeros((2, 2, 2)).tolist()
    assert first.digest == last.digest
    again.apply(delta(HERE, 3, own, scored_by=first.version))
    second = published(again)
    assert second.blend is not None
    assert second.blend.of["y"].rows.tolist() == np.full((2, 2, 2), 10.0).tolist()
    assert again.void_prequential_counts == 1


def test_a_refused_solve_keeps_the_last_good_plane_and_what_was_tried() -> None:
    merger = begun()
    merger.apply(delta(HERE, 1, tried(9), Statistics(2) - sums()))
    refused = published(merger)
    assert refused.refusal is not None
    assert "at least two classes" in refused.refusal
    assert refused.plane_version == 1
    merger.apply(delta(HERE, 2, change=sums()))
    plain = begun()
    plain.apply(delta(HERE, 1, tried(9)))
    assert candidates(published(merger)) == candidates(published(plain))


def test_classes_and_counts_are_those_of_the_longest_window() -> None:
    merger = begun()
    short = Statistics(2, {(0, label): moments for label, moments in sums().grams(0).items()})
    merger.apply(delta(HERE, 1, change=Statistics(2) - short))
    model = published(merger)
    assert model.counts == {"x": 3, "y": 3}
    assert model.blend is not None
    assert model.blend.of["y"].exist.tolist() == [[False, False], [True, True]]


def test_a_merger_goes_on_from_the_last_model_that_is_not_behind_its_checkpoints() -> None:
    merger = begun()
    behind = published(_again_with_nothing_new(merger))
    merger.apply(delta(HERE, 1, tried(9)))
    merger.apply(delta(HERE, 2, tried(2)))
    ahead = published(merger)
    checkpoint = [merger.state(source) for source in (HERE, THERE)]
    # A merger that has not noticed yet that it is no longer elected publishes once more.
    late = replace(behind, version=ahead.version + 1, blend=ahead.blend)
    assert goes_on_from(checkpoint, ahead, DEFINITION)
    assert not goes_on_from(checkpoint, late, DEFINITION)

    merger.apply(delta(HERE, 3, tried(4)))
    again = Merger(DEFINITION)
    again.restore(checkpoint, late, weighed_by=ahead)
    for one in (delta(HERE, 2, tried(2)), delta(HERE, 3, tried(4))):
        again.apply(one)
    found = published(again)
    assert found.version == late.version + 1
    assert candidates(found) == candidates(published(merger))


def test_while_solving_is_refused_plane_and_candidates_are_of_one_model() -> None:
    """Else an audit finds no model that both are from."""
    merger = begun()
    merger.apply(delta(HERE, 1, tried(9)))
    ahead = published(merger)
    assert ahead.plane is not None
    other = replace(ahead.plane, weights=2.0 * ahead.plane.weights)
    late = replace(ahead, version=ahead.version + 1, plane=other, plane_version=ahead.version + 1, blend=None)
    again = Merger(DEFINITION)
    again.restore([merger.state(source) for source in (HERE, THERE)], late, weighed_by=ahead)
    for source in (HERE, THERE):
        state = again.state(source)
        again.apply(delta(source, state.sequence, change=Statistics(2) - state.statistics))
    found = published(again)
    assert found.refusal is not None
    assert (found.plane, found.plane_version) == (ahead.plane, ahead.plane_version)
    assert candidates(found) == candidates(ahead)


def test_trials_count_once_although_a_merger_published_before_it_had_caught_up_with_the_candidates_it_has() -> None:
    merger = begun()
    checkpoint = [merger.state(source) for source in (HERE, THERE)]
    tiles = [delta(HERE, 1, tried(9)), delta(HERE, 2, tried(2)), delta(HERE, 3, tried(4))]
    for one in tiles[:2]:
        merger.apply(one)
    ahead = published(merger)
    catching_up = Merger(DEFINITION)
    catching_up.restore(checkpoint, ahead)
    catching_up.apply(tiles[0])
    behind = published(catching_up)
    assert candidates(behind) == candidates(ahead)

    merger.apply(tiles[2])
    again = Merger(DEFINITION)
    again.restore(checkpoint, behind, weighed_to={HERE: 3})
    for one in tiles:
        again.apply(one)
    assert candidates(published(again)) == candidates(published(merger))


def test_no_merger_goes_on_from_candidates_of_other_options() -> None:
    merger = begun()
    last, states = published(_again_with_nothing_new(merger)), merger.sources()
    assert goes_on_from(states, last, DEFINITION)
    assert not goes_on_from(states, replace(last, options=SolverOptions(C=3.0)), DEFINITION)
    assert not goes_on_from(states, replace(last, blend=None), DEFINITION)


def _again_with_nothing_new(merger: Merger) -> Merger:
    """A merger with the same deltas, which has published nothing yet."""
    again = Merger(merger.definition)
    again.restore(merger.sources(), None)
    return again
