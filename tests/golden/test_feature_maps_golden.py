"""What a feature map makes of a row is the same integer on every machine: the committed ones.

If a test here fails on one machine only, that machine cannot take part in a stream with a map (it would be refused: the
identity differs). If it fails everywhere, the map was changed: ``golden/feature_maps.py`` says what that means.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from deltaplane.maps import portable
from golden import feature_maps, mixed_map

CURE = "not meant? undo it; meant? see tests/golden/feature_maps.py"
TABLE: dict[str, Any] = json.loads(feature_maps.FILE.read_text("ascii"))
MIXED: dict[str, Any] = json.loads(mixed_map.FILE.read_text("ascii"))
MAPS = feature_maps.MAPS | mixed_map.MAPS
IMAGES = TABLE["maps"] | MIXED["maps"]


@pytest.mark.parametrize("name", MAPS)
def test_rows_are_mapped_to_the_committed_integers(name: str) -> None:
    feature_map = MAPS[name]
    mapped = feature_map.apply(feature_maps.rows(len(feature_map.centers)))
    assert mapped.tolist() == IMAGES[name]["rows"], CURE


@pytest.mark.parametrize("name", MAPS)
def test_a_map_has_the_committed_identity(name: str) -> None:
    assert MAPS[name].identity == IMAGES[name]["identity"], CURE


def test_the_committed_deviates_are_drawn() -> None:
    assert portable.normal_deviates("golden", 24).tolist() == TABLE["deviates"], CURE


def test_the_committed_directions_are_drawn() -> None:
    assert {key: mixed_map.table()[key] for key in ("directions", "widths")} == {
        key: MIXED[key] for key in ("directions", "widths")
    }, CURE


def test_no_map_is_left_over_in_the_table() -> None:
    assert TABLE["maps"].keys() == feature_maps.MAPS.keys()
    assert MIXED["maps"].keys() == mixed_map.MAPS.keys()


@pytest.mark.parametrize("kernel", ["Prescott", "Nehalem", "ARMV8"])
def test_a_poorer_processor_makes_the_same_integers(kernel: str) -> None:
    # NumPy without any instruction that it chooses at run time, and OpenBLAS with the kernels of an old processor. One
    # of another architecture is not known there, and changes nothing.
    chosen = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    environment = dict(os.environ, OPENBLAS_CORETYPE=kernel, NPY_DISABLE_CPU_FEATURES=" ".join(chosen))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    code = (
        "import json; from golden import feature_maps as a, mixed_map as b; print(json.dumps([a.table(), b.table()]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [TABLE, MIXED]
