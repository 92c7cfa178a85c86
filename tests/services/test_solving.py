"""Whether a merger goes on as the last model was solved, and what it says where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_model, write_sample
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import MODELS, SAMPLES, Outgoing, Record
from deltaplane_services.processors.solving import solver_changed, solver_digest
from services.metrics_models import stream

ONE = {"C": 1.0}
SEVERAL = {"C": [0.1, 10.0], "weighting": ["inverse", "none"]}


def last_model(solver: Mapping[str, Any], rows: int = 20) -> Model:
    """What the merger of a stream with these settings published last."""
    definition = stream(window={"length": "all"}, solver=solver)
    runner = EmbeddedRunner(definition)
    draw = np.random.default_rng(5)
    for row in range(rows):
        value = write_sample(
            str(row), row, "yes" if row % 3 else "no", draw.normal(size=2), definition.data_fingerprint
        )
        runner.broker.append(Outgoing(SAMPLES, 0, None, value), row)
    runner.round(rows)
    assert runner.merger.model is not None
    return runner.merger.model


def definition_of(solver: Mapping[str, Any]) -> StreamDefinition:
    return stream(window={"length": "all"}, solver=solver)


@pytest.mark.parametrize("solver", [ONE, SEVERAL, {"C": 1.0, "weighting": {"no": 2.0, "yes": 1.0}}])
def test_a_merger_that_goes_on_with_the_same_settings_has_nothing_to_say(solver: Mapping[str, Any]) -> None:
    assert solver_changed(definition_of(solver), last_model(solver)) is None
    assert solver_changed(definition_of(solver), last_model(solver, rows=0)) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (ONE, {"C": 5.0}, "wlpsvm, C 1, weighting inverse, standardized, bias regularised; from now on wlpsvm, C 5, "),
        (ONE, {"C": 1.0, "weighting": "balanced"}, "from now on wlpsvm, C 1, weighting balanced, "),
        (ONE, {"C": 1.0, "weighting": {"no": 2.0, "yes": 1.0}}, 'from now on wlpsvm, C 1, weighting {"no": 2.0, "yes'),
        (ONE, {"C": 1.0, "standardize": False}, "weighting inverse, raw units, bias regularised"),
        (ONE, SEVERAL, "from now on wlpsvm, C 0.1 10, weighting inverse none, "),
        (SEVERAL, {"C": 10.0}, "wlpsvm, C 0.1 10, weighting inverse none, standardized, bias regularised; from"),
        (SEVERAL, {**SEVERAL, "C": [0.2, 10.0]}, "from now on wlpsvm, C 0.2 10, "),
        (SEVERAL, {**SEVERAL, "weighting": "inverse"}, "from now on wlpsvm, C 0.1 10, weighting inverse, "),
        (ONE, {**ONE, "objective": "kappa"}, "from now on wlpsvm, C 1, weighting inverse, standardized, bias"),
        (SEVERAL, {**SEVERAL, "objective": "kappa"}, "bias regularised, for kappa"),
    ],
)
def test_other_settings_are_named_with_those_of_before(
    before: Mapping[str, Any], after: Mapping[str, Any], said: str
) -> None:
    last = last_model(before)
    assert said in (solver_changed(definition_of(after), last) or "")
    merger = MergerProcessor(definition_of(after))
    merger.restore([], [Record(MODELS, 0, 0, 0, b"s", write_model(last))])
    assert said in (merger.solver_changed or "")


def test_the_digest_differs_where_settings_or_the_prior_do_and_not_for_the_window() -> None:
    several = [definition_of(one) for one in (ONE, SEVERAL, {"C": 5.0}, {"C": 1.0, "standardize": False})]
    prior = last_model(ONE).plane
    assert prior is not None
    several.append(replace(several[0], prior=prior))
    assert len({solver_digest(one) for one in several}) == len(several)
    assert solver_digest(stream(window={"length": 9}, solver=ONE)) == solver_digest(several[0])
