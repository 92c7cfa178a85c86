"""A model made again: equal, equal but for rounding, another, and what nobody can tell any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from core.test_merger_automatic import CHOICES, DEFINITION, HERE, THERE, delta, published, sums, tried
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Source
from deltaplane.log.merger import Merger
from deltaplane.log.model import Model
from deltaplane.log.model_proof import ModelProof, SourcePrequentialCounts, prove_model
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver_options import SolverOptions

ONE = replace(
    DEFINITION,
    choices=(),
    nested_windows=replace(DEFINITION.nested_windows, windows=DEFINITION.nested_windows.windows[1:]),
)
"""One window and one C: the plane is solved and not blended."""


def of_one_window(change: Statistics, sequence: int) -> Delta:
    kept = {(0, label): moments for (window, label), moments in change.items() if window == 0}
    return replace(delta(HERE, sequence, change=Statistics(2, kept)), stream_fingerprint=ONE.stream_fingerprint)


def merger_of_one() -> Merger:
    merger = Merger(ONE)
    merger.apply(Claim(HERE, "w", ONE.stream_fingerprint))
    merger.apply(of_one_window(sums(), 0))
    return merger


def proved(merger: Merger, model: Model, earlier: Sequence[Model] = ()) -> ModelProof:
    return prove_model(model, earlier, merger, {}, merger.statistics, merger.definition)


def with_weights(model: Model, factor: float) -> Model:
    assert model.plane is not None
    return replace(model, plane=replace(model.plane, weights=model.plane.weights * factor))


def test_what_a_merger_makes_is_equal_bit_for_bit() -> None:
    merger = merger_of_one()
    assert proved(merger, published(merger)) == ModelProof((), ())


def test_the_last_digits_of_another_processor_count_as_equal_and_their_size_is_said() -> None:
    merger = merger_of_one()
    proof = proved(merger, with_weights(published(merger), 1 + 2**-50))
    assert proof.faults == ()
    assert 2**-51 < proof.rounding < 2**-49


@pytest.mark.parametrize("factor", [1 + 1e-6, -1.0, 0.0])
def test_more_than_rounding_is_another_plane(factor: float) -> None:
    merger = merger_of_one()
    (fault,) = proved(merger, with_weights(published(merger), factor)).faults
    assert fault.startswith("plane.weights[0, 0]: the model says ")


def test_a_plane_that_is_kept_must_be_that_of_the_model_it_is_from() -> None:
    merger = merger_of_one()
    first = published(merger)
    merger.apply(of_one_window(Statistics(2) - merger.statistics, 1))
    kept = published(merger)
    assert kept.refusal is not None
    proof = proved(merger, kept, [first])
    assert proof.faults == ()
    assert "the plane and the candidates of model 1" in proof.unproved[0]

    assert proved(merger, with_weights(kept, 2.0), [first]).faults[0].startswith("plane: the model has another")
    assert proved(merger, replace(kept, refusal=None), [first]).faults[0].startswith("refusal: the model has none")
    assert proved(merger, replace(kept, plane_version=2), [first]).faults[0].startswith("plane_version")


def test_other_solver_options_than_the_definitions_are_found_though_the_plane_is_what_they_give() -> None:
    mine, theirs = merger_of_one(), merger_of_one()
    theirs.definition = replace(ONE, solver=SolverOptions(C=1e-9))
    assert proved(mine, published(theirs)).faults[0].startswith("options: the model says")


def test_prequential_counts_since_the_model_before_weigh_the_candidates_and_no_others() -> None:
    merger = Merger(DEFINITION)
    for source in (HERE, THERE):
        merger.apply(Claim(source, "w", DEFINITION.stream_fingerprint))
    merger.apply(delta(HERE, 0, change=sums()))
    first = published(merger)
    merger.apply(delta(THERE, 0, tried(9)))
    second = published(merger)
    prequential_counts = {HERE: SourcePrequentialCounts(1), THERE: SourcePrequentialCounts(0, {0: (tried(9), 0)})}

    def proof(prequential_counts: Mapping[Source, SourcePrequentialCounts], earlier: Sequence[Model]) -> ModelProof:
        return prove_model(second, earlier, merger, prequential_counts, merger.statistics, DEFINITION)

    assert proof(prequential_counts, [first]) == ModelProof((), ())
    (fault,) = proof({**prequential_counts, THERE: SourcePrequentialCounts(0, {0: (tried(8), 0)})}, [first]).faults
    assert fault.startswith("candidates.hits")
    # Where the model before is gone, or trials are, nobody can tell.
    gone_prequential_counts = {**prequential_counts, THERE: SourcePrequentialCounts(1)}
    for gone in (proof(gone_prequential_counts, []), proof(gone_prequential_counts, [first])):
        assert gone.faults == ()
        assert gone.unproved[0].startswith("the hits and rows of the candidates")


def test_new_trials_are_no_fault_of_candidates_that_are_kept_since_too_few_classes_have_a_plane() -> None:
    """Of three open classes two have one row left: candidates can be fitted, but their blend is refused."""
    rows = {"x": [[5.0], [7.0], [4.0], [6.0]], "y": [[-5.0], [-6.0], [3.0]], "z": [[1.0], [2.0], [0.0]]}
    moments = {(label, few): Moments.of_rows(np.array(rows[label])[:few]) for label in rows for few in (1, None)}
    whole = Statistics(2, {(w, label): moments[label, None] for label in rows for w in (0, 1)})
    few = {"x": None, "y": 1, "z": 1}
    left = Statistics(2, {(w, label): moments[label, few[label]] for label in rows for w in (0, 1)})
    trials = PrequentialCounts(
        CHOICES,
        {label: np.full((2, len(CHOICES), 2, 2), 5) for label in rows},
        {label: np.full((2, len(CHOICES), 2), 10) for label in rows},
    )
    merger = Merger(DEFINITION)
    merger.apply(Claim(HERE, "w", DEFINITION.stream_fingerprint))
    merger.apply(delta(HERE, 0, change=whole))
    first = published(merger)
    assert first.refusal is None
    merger.apply(delta(HERE, 1, trials, left - whole, scored_by=1))
    kept = published(merger)
    assert kept.refusal is not None
    assert "a plane of at least two classes" in kept.refusal
    prequential_counts = {HERE: SourcePrequentialCounts(0, {1: (trials, 1)})}
    proof = prove_model(kept, [first], merger, prequential_counts, merger.statistics, DEFINITION)
    assert proof.faults == ()
    assert "the plane and the candidates of model 1" in proof.unproved[0]


def test_trials_may_be_gone_that_a_merger_knew_which_did_not_go_on_from_the_last_model_of_the_log() -> None:
    """Another merger wrote a model of the same version, which readers pass over, and trials before it were deleted."""
    merger, other = Merger(DEFINITION), Merger(DEFINITION)
    for one in (merger, other):
        for source in (HERE, THERE):
            one.apply(Claim(source, "w", DEFINITION.stream_fingerprint))
        one.apply(delta(HERE, 0, change=sums()))
    other.apply(delta(THERE, 0, tried(9)))
    taken, passed_over = published(merger), published(other)
    assert taken.version == passed_over.version
    merger.apply(delta(THERE, 0, tried(9)))
    merger.apply(delta(THERE, 1, tried(6)))
    second = published(merger)

    def proof(first_of_there: int) -> ModelProof:
        there = {at: (trials, 0) for at, trials in enumerate((tried(9), tried(6))) if at >= first_of_there}
        counts = {HERE: SourcePrequentialCounts(0), THERE: SourcePrequentialCounts(first_of_there, there)}
        return prove_model(second, [taken, passed_over], merger, counts, merger.statistics, DEFINITION)

    assert proof(0) == ModelProof((), ())
    assert proof(1).faults == ()
    assert proof(1).unproved[0].startswith("the hits and rows of the candidates")
