"""The dashboards against Grafana's own schema, as its makers publish it for Python: no server is there to show them.

What the types do not know is lost on the way through them, so that a misspelt or misplaced setting is found here. A
server would pass over it without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.server import boards

OF_PROMETHEUS = {"titleFormat", "step"}
"""Settings of an annotation that belong to its data source; the schema of dashboards does not list them."""


def lost(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """What is not there any more, or is another value, by its path."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from lost(value, after[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{where}/{at}")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


def through_the_types(board: dict[str, Any]) -> dict[str, Any]:
    """The dashboard as Grafana's types read and write it; panels and queries by those of their own kind."""
    register_default_plugins()
    read: dict[str, Any] = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    return read


@pytest.mark.parametrize("name", boards())
def test_grafanas_own_types_know_every_setting_of_a_dashboard(name: str) -> None:
    board = boards()[name]
    for annotation in board["annotations"]["list"]:
        for setting in OF_PROMETHEUS:
            annotation.pop(setting)
    assert list(lost(board, through_the_types(board))) == []


def test_a_misspelt_setting_would_be_found() -> None:
    board = boards()["overview"]
    panel = board["panels"][0]
    panel["options"]["colourMode"] = "value"
    panel["fieldConfig"]["defaults"]["units"] = "s"
    panel["targets"][0]["expression"] = "up"
    found = [path.rpartition("/")[2] for path in lost(board, through_the_types(board))]
    assert {"colourMode", "units", "expression"} <= set(found)
