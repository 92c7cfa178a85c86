"""The mixed map, and what every machine must make of rows by it: the committed table is ``mixed_map.json``.

To write it anew: ``cd tests && python -m golden.mixed_map``. What a change of it means stands in ``feature_maps.py``.
"""

from __future__ import annotations

from pathlib import Path

from deltaplane.maps.drawing import drawn_directions
from deltaplane.maps.feature_maps import FeatureMap
from golden import feature_maps

FILE = Path(__file__).parent / "mixed_map.json"

MAPS = {
    "mixed": FeatureMap("mixed", 10, 1, 1.0, (0, 12_345, -7), (2.0**18, 1000.5, 0.5)),
    "mixed, one feature": FeatureMap("mixed", 4, 2**62, 1.5, (5,), (3.0,)),
    "mixed, nineteen features": FeatureMap("mixed", 18, 0, 1.0, (7,) * 19, (2.0**20,) * 19),
    "mixed, two of them curved": FeatureMap("mixed", 18, 0, 1.0, (7,) * 19, (2.0**20,) * 19, (3, 11)),
}


def table() -> dict[str, object]:
    """What this machine draws, makes of the rows, and calls the maps."""
    directions, widths = drawn_directions(3, 5, 8)
    return {
        "directions": directions.astype(int).tolist(),
        "widths": [width.hex() for width in widths.tolist()],
        "maps": feature_maps.images(MAPS),
    }


if __name__ == "__main__":
    feature_maps.write(FILE, table())
