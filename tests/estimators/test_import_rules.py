"""scikit-learn is for the estimators alone: the core is installed, and loaded, without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidy import contract
from tidy.sources import Source, python_sources


@pytest.mark.parametrize("text", ["import sklearn", "from sklearn.base import BaseEstimator", "import sklearn as s"])
def test_scikit_learn_in_the_core_outside_the_estimators_is_found(text: str) -> None:
    (complaint,) = contract.impure_imports(Source("pipeline/deltaplane/solve/solver.py", text))
    assert "only deltaplane.estimators may" in complaint
    assert contract.impure_imports(Source("pipeline/deltaplane/estimators/proximal.py", text)) == []


def test_other_libraries_are_not_for_the_estimators_either() -> None:
    (complaint,) = contract.impure_imports(Source("pipeline/deltaplane/estimators/proximal.py", "import pandas"))
    assert "not known to be pure" in complaint


def test_every_other_module_of_the_core_loads_without_scikit_learn() -> None:
    modules = sorted(source.module for source in python_sources("pipeline") if ".estimators" not in source.module)
    assert "deltaplane.solve.solver" in modules
    text = f"import importlib, sys\nsys.modules['sklearn'] = None\nfor name in {modules}: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", text], check=True)
