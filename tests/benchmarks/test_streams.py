"""``bench streams`` with labels that come late: what ``replay`` serves of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deltaplane
from benchmarks.made import clouds
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.experiments.streams import StreamTask, no_change, run_stream


def made() -> DataSet:
    table = clouds("two", {"no": 500, "yes": 200}, 3, apart=1.0, seed=4)
    order = np.random.default_rng(4).permutation(700)
    return DataSet(table.name, table.features[order], table.labels[order], table.source)


@pytest.mark.parametrize(("delay", "feature_map"), [(2, "linear"), (40, "linear"), (40, None), (137, "linear")])
def test_the_blend_has_the_gmean_that_a_replay_with_the_delay_has_served(delay: int, feature_map: str | None) -> None:
    data = made()
    columns = {f"x{at}": data.features[:, at] for at in range(3)} | {"label": data.labels.astype(str)}
    of: dict[str, Any] = {
        "label": "label",
        "positive": "yes",
        "chunk": 50,
        "label_delay": delay,
        "feature_map": feature_map,
    }
    served = deltaplane.replay(columns, **of).summary["served"]
    found = run_stream(data, StreamTask("two", "yes", 50, label_delay=delay), curved=feature_map is None)
    assert found.blend == pytest.approx(served["gmean"], rel=1e-12)
    assert found.rows == 700


def test_no_change_knows_what_was_known_at_the_chunk_before_less_the_delay() -> None:
    flags = (made().labels.astype(str) == "yes").tolist()
    hits = {True: [0, 0], False: [0, 0]}
    for row in range(50, 700):
        known = row // 50 * 50 - 40
        guess = flags[known] if known >= 0 else False
        hits[flags[row]][0] += flags[row] == guess
        hits[flags[row]][1] += 1
    expected = np.sqrt(np.prod([right / rows for right, rows in hits.values()]))
    assert no_change(made(), StreamTask("two", "yes", 50, label_delay=40)) == pytest.approx(expected)
