"""A small stream and its settings, for the tests of the settings and of the clients made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaplane_services.definition_file.kafka_properties import ClusterName
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings

STREAM: dict[str, Any] = {
    "name": "electricity",
    "features": {"names": ["price", "demand"]},
    "grid": {"steps": [1.0, 1.0]},
    "classes": {"names": ["down", "up"]},
}

CLUSTERS: tuple[ClusterName, ...] = ("site", "central")


def resolve(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    tables: Mapping[str, Any] | None = None,
    hostname: str = "",
) -> ServiceSettings:
    return resolve_settings(flags or {}, environment or {}, {**STREAM, **(tables or {})}, hostname)
