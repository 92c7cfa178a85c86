"""The settings of services: flag, variable, key, default, bounds, who heeds them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.definition_file.settings import PREFIX, SETTING_NAMES
from generate.tables import code, table

_PLACES = {
    "broker": ("127.0.0.1:9092", "Brokers with this site's samples, with commas between."),
    "central_broker": ("that of `broker`", "Brokers with deltas and models, if they are others."),
    "site": ("local", "Name of this site."),
}
"""Default and purpose of what is no knob."""


def settings_table() -> str:
    """Every setting but the properties of librdkafka."""
    knobs = {knob.name: knob for knob in dataclasses.fields(Knobs)}
    if set(SETTING_NAMES) != knobs.keys() | _PLACES.keys():
        raise LookupError(f"settings without a description: {set(SETTING_NAMES) ^ (knobs.keys() | _PLACES.keys())}")
    rows = []
    for name in SETTING_NAMES:
        variable, flag = code(f"{PREFIX}{name.upper()}"), code("--" + name.replace("_", "-"))
        if name in knobs:
            knob = knobs[name]
            default = f"{knob.default:g}" if isinstance(knob.default, float) else str(knob.default) or "none"
            about, heeded = knob.metadata["help"], ", ".join(knob.metadata["heeded_by"])
            rows.append([flag, variable, default, _bounds(knob.metadata["bounds"]), heeded, about])
        else:
            default, about = _PLACES[name]
            rows.append([flag, variable, default, "", "every command on Kafka", about])
    return table(["Flag", "Variable", "Default", "May be", "Heeded by", "What it does"], rows)


def _bounds(bounds: Any) -> str:
    if bounds.words:
        return ", ".join(bounds.words)
    return "" if math.isinf(bounds.low) else f"{bounds.low:g} to {bounds.high:g}"
