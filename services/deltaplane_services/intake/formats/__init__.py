"""The forms that records of users' topics may have: each module reads one, and is named here once."""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane_services.intake.formats import debezium_json, json_objects
from deltaplane_services.intake.formats.change import Decoder

__all__ = ["DECODERS"]

DECODERS: Mapping[str, Decoder] = {"json": json_objects.read_change, "debezium-json": debezium_json.read_change}
"""The reader of each form that a definition may name."""
