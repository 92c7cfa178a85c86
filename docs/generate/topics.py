"""Every topic as `topics create` makes it, and every record by its schema."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import deltaplane_schemas
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.kafka.topic_plans import plan_topics
from deltaplane_services.processors.topics import TOPICS
from generate.tables import code, table

EXAMPLE: dict[str, Any] = {
    "name": "electricity",
    "partitions": 4,
    "features": {"names": ["a", "b", "c"]},
    "grid": {"steps": [1.0, 1.0, 1.0]},
    "classes": {"names": ["0", "1"], "positive": "1"},
    "window": {"length": "7d"},
}
"""A stream with a window of time in four partitions: the plan of its topics is shown."""


def topic_tables() -> str:
    """What each topic is made with, for a stream with a window of seven days in four partitions."""
    settings = resolve_settings({}, {}, EXAMPLE)
    rows = []
    for plan in plan_topics(settings, settings.clusters[0]):
        topic = plan.name.partition(".")[2]
        declared = TOPICS[topic]
        config = ", ".join(f"`{name}={value}`" for name, value in plan.config.items())
        partitions = "1" if declared.single else "P"
        rows.append([code(topic), declared.carries, " and ".join(declared.on), partitions, config])
    risks = {
        (name, rule.risk) for plan in plan_topics(settings, settings.clusters[0]) for name, rule in plan.rules.items()
    }
    wrong = sorted([code(name), risk] for name, risk in risks if risk)
    made = table(
        ["Topic", "Carries", "Cluster", "Partitions", "Made with, where the cluster's default would not do"], rows
    )
    return f"{made}\n{table(['Where a setting is otherwise', 'what may come of it'], wrong)}"


def record_tables() -> str:
    """Every record that a topic carries, with its fields."""
    parts = []
    files = resources.files(deltaplane_schemas)
    for name in sorted(one.name for one in files.iterdir() if one.name.endswith(".avsc")):
        schema = json.loads(files.joinpath(name).read_text("utf-8"))
        parts.append(f"### {schema['name']}\n\n{schema.get('doc', '')} (`{name}`)\n")
        rows = [[code(one["name"]), code(_kind(one["type"])), one.get("doc", "")] for one in schema["fields"]]
        parts.append(table(["Field", "Type", ""], rows))
    return "\n".join(parts)


def _kind(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return " or ".join(map(_kind, kind))
    if kind["type"] == "array":
        return f"list of {_kind(kind['items'])}"
    if kind["type"] == "map":
        return f"map of {_kind(kind['values'])}"
    return str(kind.get("name", kind["type"]))
