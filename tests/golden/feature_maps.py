"""Feature maps and rows whose images every machine must reproduce: the committed table is ``feature_maps.json``.

To write it anew: ``cd tests && python -m golden.feature_maps``, in the project's environment. If the table changes, so
does what a map makes of a row: streams with a map must be started anew, which is a matter for the change log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deltaplane.arrays import Int32s
from deltaplane.maps import portable
from deltaplane.maps.feature_maps import FeatureMap

FILE = Path(__file__).parent / "feature_maps.json"

MAPS = {
    "hidden": FeatureMap("hidden", 6, 1, 1.5, (0, 12_345, -7), (2.0**18, 1000.5, 0.5)),
    "fourier": FeatureMap("fourier", 8, 1, 1.5, (0, 12_345, -7), (2.0**18, 1000.5, 0.5)),
    "hidden, one feature": FeatureMap("hidden", 3, 2**62, 3.0, (5,), (3.0,)),
    "fourier, one feature": FeatureMap("fourier", 2, 2**62, 1000.0, (5,), (3.0,)),
}

_ROWS = (
    (0, 12_345, -7),
    (1, 12_346, -6),
    (-262_144, 11_000, -8),
    (1_000_000, 20_000, 3),
    (123_456_789, -987_654_321, 55),
    (2**30 - 1, -(2**30) + 1, 2**30 - 1),
    (-(2**30) + 1, 2**30 - 1, -(2**30) + 1),
)


def rows(features: int) -> Int32s:
    """Grid rows int32[n, d]: ordinary ones, and both ends of the grid; of many features they repeat."""
    return np.tile(np.array(_ROWS, dtype=np.int32), -(-features // 3))[:, :features]


def table() -> dict[str, object]:
    """What this machine makes of the rows, what it draws, and what it calls the maps."""
    return {"deviates": portable.normal_deviates("golden", 24).tolist(), "maps": images(MAPS)}


def images(maps: Mapping[str, FeatureMap]) -> dict[str, object]:
    """What this machine calls some maps, and what it makes of the rows."""
    return {
        name: {
            "identity": feature_map.identity,
            "rows": feature_map.apply(rows(len(feature_map.centers))).tolist(),
        }
        for name, feature_map in maps.items()
    }


def main() -> None:
    """Write the table anew."""
    write(FILE, table())


def write(file: Path, what: Mapping[str, object]) -> None:
    """Write a table to a file, a row a line."""
    file.write_text(_short_lists(json.dumps(what, indent=1, sort_keys=True)) + "\n", "ascii")


def _short_lists(text: str) -> str:
    """The same JSON with every list of numbers on one line."""
    lines: list[str] = []
    for line in text.splitlines():
        inside = bool(lines) and lines[-1].endswith(("[", ",")) and line.strip(" ,]-").isdigit()
        closing = line.strip() in {"]", "],"} and lines[-1][-1].isdigit()
        if inside or closing:
            lines[-1] += (" " if lines[-1].endswith(",") else "") + line.strip()
        else:
            lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
