"""An encoder makes the committed features, bit for bit, on this machine and on poorer ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from golden import encoder

CURE = "not meant? undo it; meant? see tests/golden/encoder.py"
TABLE = json.loads(encoder.FILE.read_text("ascii"))


def test_an_encoder_makes_the_committed_features_and_has_the_committed_identity() -> None:
    assert json.loads(json.dumps(encoder.table())) == TABLE, CURE


@pytest.mark.parametrize("kernel", ["Prescott", "ARMV8"])
def test_a_poorer_processor_encodes_the_same_features(kernel: str) -> None:
    # NumPy without any instruction that it chooses at run time.
    chosen = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    environment = dict(os.environ, OPENBLAS_CORETYPE=kernel, NPY_DISABLE_CPU_FEATURES=" ".join(chosen))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    code = "import json; from golden import encoder; print(json.dumps(encoder.table()))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == TABLE
