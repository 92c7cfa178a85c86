"""What an audit says of forged models; that it finds nothing in honest ones, every history of test_faults tells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import pytest

from deltaplane.log import model_proof
from deltaplane.solve.candidates import Blend, Fitted
from deltaplane_services.processors import model_account
from deltaplane_services.processors.messages import MODELS
from simulation.audits import newest_of, proof_of_model
from simulation.forgeries import short_history
from simulation.model_forgeries import MODEL_FORGERIES, forged_model
from simulation.world import World

SEEDS = range(30)


def is_found(world: World, name: str) -> bool | None:
    """Whether an audit finds what is forged of the newest model of a history; None where it can not be forged."""
    newest, _ = newest_of(world.broker.everything[MODELS, 0])
    forged = forged_model(name, world, newest)
    if forged is None:
        return None
    proof, faults = proof_of_model(world, forged)
    return bool(proof.faults or faults)


def is_honest(world: World) -> bool:
    """Whether an audit finds nothing in a history, in which models may have been forged while it was lived."""
    proof, faults = proof_of_model(world)
    return not (proof.faults or faults)


@pytest.mark.parametrize("name", MODEL_FORGERIES)
def test_whatever_is_forged_of_a_model_is_found(name: str) -> None:
    found = {seed: is_found(short_history(seed), name) for seed in SEEDS if is_honest(short_history(seed))}
    tried = [seed for seed, so in found.items() if so is not None]
    assert len(tried) >= 5
    assert [seed for seed in tried if not found[seed]] == []


@contextlib.contextmanager
def _believes(owner: object, name: str, answer: object = None) -> Iterator[None]:
    with mock.patch.object(owner, name, return_value=answer):
        yield


@contextlib.contextmanager
def _believes_candidates() -> Iterator[None]:
    """Takes hits and rows as they are told."""

    def told(proof: model_proof._Proof, fitted: Fitted, blend: Blend) -> Blend:
        del proof, fitted
        return blend

    with mock.patch.object(model_proof._Proof, "_weighed", told):
        yield


BREAKS_OF_MODEL_AUDITS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "believes the planes": lambda: _believes(model_proof._Proof, "compare_planes"),
    "believes the figures": lambda: _believes(model_proof._Proof, "compare_figures"),
    "believes the positions": lambda: _believes(model_account, "position_faults", ()),
    "believes the candidates": _believes_candidates,
    "believes that there are no other sources": lambda: _believes(model_account._Reading, "_left_out", ()),
    "believes that nothing is forgotten": lambda: _believes(model_account._Reading, "_told_before", ()),
}
"""Ways in which an audit could believe the merger."""


def first_missed(seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of some seeds, and what is forged in its history, that is not found."""
    for seed in seeds:
        for name in MODEL_FORGERIES:
            if is_found(short_history(seed), name) is False:
                return seed, name
    return None


@pytest.mark.parametrize("name", BREAKS_OF_MODEL_AUDITS)
def test_an_audit_that_believes_the_merger_misses_what_is_forged(name: str) -> None:
    with BREAKS_OF_MODEL_AUDITS[name]():
        assert first_missed(SEEDS) is not None, f"no forgery needs what an audit does not believe: {name}"


def test_a_source_is_missed_even_if_no_model_ever_had_it_once_its_deltas_are_old() -> None:
    tried = 0
    for seed in SEEDS:
        world = short_history(seed)
        newest, _ = newest_of(world.broker.everything[MODELS, 0])
        forged = forged_model("a source never taken in", world, newest)
        if forged is not None:
            tried += 1
            with mock.patch.object(model_account, "EARLIER_MODELS", 0):
                soon, _ = proof_of_model(world, forged)
                late, _ = proof_of_model(world, forged, world.now + 700_000)
            assert not soon.faults
            assert any("without deltas of source" in fault for fault in late.faults)
    assert tried >= 5
