"""A model as a table: weights that can be ranked where the deviations are known, and raw ones."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane_services.operations.model_listing import print_model
from services.metrics_models import model, plane, stream


def test_features_come_by_the_size_of_their_standardized_weights(capsys: pytest.CaptureFixture[str]) -> None:
    definition = stream(features={"names": ["narrow", "wide"]})
    shown = model(3, definition, plane=plane(("no", "yes"), weights=(-10.0, 0.001)))
    print_model(shown, definition, np.array([0.01, 20_000.0]))
    ranked = capsys.readouterr().out
    assert ranked.index("wide") < ranked.index("narrow")
    assert "+20" in ranked
    assert "-0.1" in ranked
    assert "intercept" not in ranked, "it is not of standardized rows"
    print_model(shown, definition, None)
    raw = capsys.readouterr().out
    assert raw.index("narrow") < raw.index("wide"), "in the order of the definition"
    assert "-10" in raw
    assert "0.001" in raw
    assert "intercept" in raw
