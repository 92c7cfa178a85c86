"""The core is pure, imports point one way, and each of these checks is able to fail."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidy import contract
from tidy.sources import PACKAGES, ROOTS, TOP, Source, python_sources


def core(text: str, name: str = "limits") -> Source:
    return Source(f"pipeline/deltaplane/{name}.py", text)


def report(complaints: list[str]) -> str:
    return "\n".join(["", *dict.fromkeys(complaints)])


def test_the_core_imports_nothing_whose_answer_depends_on_more_than_its_arguments() -> None:
    complaints = [c for source in python_sources("pipeline") for c in contract.impure_imports(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import os",
        "from os import environ",
        "import os.path",
        "import socket",
        "import http.client",
        "from urllib.request import urlopen",
        "import requests",
        "import logging",
        "import random",
        "import secrets",
        "import threading",
        "import asyncio",
        "import subprocess",
        "from pathlib import Path",
        "import importlib.resources",
        "import numpy.random",
        "import numpy.random as chance",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import pandas",
        "def late():\n    import time",
    ],
)
def test_an_impure_import_in_the_core_is_found_and_given_a_cure(text: str) -> None:
    (complaint,) = contract.impure_imports(core(text))
    assert complaint.startswith("pipeline/deltaplane/limits.py:")
    assert complaint.partition(": the core imports ")[2].count(":") >= 1


def test_the_pure_imports_of_the_core_are_left_alone() -> None:
    text = "import math\nimport numpy as np\nimport numpy.typing as npt\nfrom scipy import linalg\nimport fastavro\n"
    text += "from deltaplane import limits\nfrom deltaplane.exact.grid import Grid\nfrom . import errors\n"
    text += "import deltaplane_schemas"
    assert contract.impure_imports(core(text)) == []


def test_the_core_calls_no_clock_no_file_no_terminal_and_no_chance() -> None:
    complaints = [c for source in python_sources("pipeline") for c in contract.impure_calls(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "open('rows')",
        "import io\nio.open('rows')",
        "print('rows')",
        "emit = print",
        "__import__('time')",
        "hash('label')",
        "place.read_text()",
        "import numpy as np\nnp.random.default_rng(0)",
        "import numpy\nnumpy.random.seed(0)",
        "import numpy as n\nn.load('rows')",
        "rows.tofile('rows')",
    ],
)
def test_an_impure_call_in_the_core_is_found_and_given_a_cure(text: str) -> None:
    (complaint,) = contract.impure_calls(core(text))
    assert complaint.startswith("pipeline/deltaplane/limits.py:")
    assert ": the core uses " in complaint


def test_a_hash_method_and_a_word_that_merely_looks_impure_are_left_alone() -> None:
    text = "class Row:\n    def __hash__(self):\n        return hash(self.id)\n"
    text += "reopened = rows.opened\nother.random\nother.load()"
    assert contract.impure_calls(core(text)) == []


def lint_imports(packages: Path) -> subprocess.CompletedProcess[str]:
    """Hold the packages below a directory against the contracts of pyproject.toml."""
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    paths = os.pathsep.join(str(packages / root) for root in ROOTS)
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=packages, env=environment, check=False, capture_output=True, text=True)


def test_imports_point_the_way_that_the_packages_are_read() -> None:
    outcome = lint_imports(TOP)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("pipeline/deltaplane/exact/grid.py", "import deltaplane.log.merger", "deltaplane.exact is not allowed"),
        ("pipeline/deltaplane/limits.py", "def late():\n    import deltaplane_services", "none looks back BROKEN"),
        ("pipeline/deltaplane/astrology.py", "", "astrology"),
        ("pipeline/deltaplane/exact/triangle.py", "from .moments import Moments", "acyclic"),
        ("pipeline/deltaplane/wire/frame.py", "from sklearn import svm", "nothing in the core needs them BROKEN"),
        (
            "pipeline/deltaplane/reference.py",
            "from deltaplane import estimators",
            "nothing in the core needs them BROKEN",
        ),
        ("services/deltaplane_services/readers/cells.py", "from deltaplane_services import replay", "readers is not"),
    ],
)
def test_an_import_that_points_the_other_way_is_found(tmp_path: Path, path: str, text: str, words: str) -> None:
    for place in PACKAGES.values():
        shutil.copytree(TOP / place, tmp_path / place, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    with (tmp_path / path).open("a") as file:
        file.write(f"\n{text}\n")
    outcome = lint_imports(tmp_path)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert words in " ".join(outcome.stdout.split())


def test_nothing_imports_the_packages_through_their_root_directories() -> None:
    complaints = [c for source in python_sources() for c in contract.second_copies(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "text",
    [
        "import pipeline.deltaplane.grid",
        "from pipeline import deltaplane",
        "from services.deltaplane_services import cli",
    ],
)
def test_an_import_through_a_root_directory_is_found(text: str) -> None:
    (complaint,) = contract.second_copies(Source("tests/core/test_grid.py", text))
    assert "second copy" in complaint


def test_no_root_directory_is_a_package() -> None:
    complaints = contract.packages_made_of_roots(TOP)
    assert not complaints, report(complaints)


def test_a_root_directory_that_became_a_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").touch()
    (complaint,) = contract.packages_made_of_roots(tmp_path)
    assert complaint.startswith("services/__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_imported_from_this_checkout(package: str) -> None:
    place = importlib.import_module(package).__file__
    assert place == str(TOP / PACKAGES[package] / "__init__.py"), "install this checkout: make test"
