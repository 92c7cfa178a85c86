"""The import contract holds, and each of its checks is able to fail."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tidy import contract
from tidy.sources import PACKAGES, TOP, Source, python_sources


def core(text: str, name: str = "window") -> Source:
    return Source(f"pipeline/deltaplane/{name}.py", text)


def services(text: str) -> Source:
    return Source("services/deltaplane_services/cli.py", text)


def schemas(text: str) -> Source:
    return Source("schemas/deltaplane_schemas/__init__.py", text)


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
    assert complaint.startswith("pipeline/deltaplane/window.py:")
    assert complaint.partition(": the core imports ")[2].count(":") >= 1


def test_the_pure_imports_of_the_core_are_left_alone() -> None:
    text = "import math\nimport numpy as np\nimport numpy.typing as npt\nfrom scipy import linalg\nimport fastavro\n"
    text += "from deltaplane import limits\nfrom deltaplane.grid import Grid\nfrom . import errors\n"
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
    assert complaint.startswith("pipeline/deltaplane/window.py:")
    assert ": the core uses " in complaint


def test_a_hash_method_and_a_word_that_merely_looks_impure_are_left_alone() -> None:
    text = "class Row:\n    def __hash__(self):\n        return hash(self.id)\n"
    text += "reopened = rows.opened\nother.random\nother.load()"
    assert contract.impure_calls(core(text)) == []


def test_services_import_the_core_and_the_core_the_schemas_and_none_looks_back() -> None:
    complaints = [c for place in PACKAGES.values() for s in python_sources(place) for c in contract.turned_arrows(s)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "source",
    [
        core("import deltaplane_services"),
        core("from deltaplane_services.cli import main"),
        core("def late():\n    from deltaplane_services import cli"),
        schemas("from deltaplane import errors"),
        schemas("import deltaplane_services.cli"),
        services("import deltaplane_benchmarks.cli"),
        core("from deltaplane_benchmarks import linear"),
    ],
)
def test_an_import_against_the_arrow_is_found(source: Source) -> None:
    (complaint,) = contract.turned_arrows(source)
    assert "against services -> core -> schemas" in complaint


def test_imports_along_the_arrow_are_left_alone() -> None:
    assert contract.turned_arrows(services("import deltaplane_schemas\nfrom deltaplane import wire")) == []
    assert contract.turned_arrows(core("import deltaplane_schemas")) == []
    benchmarks = Source("benchmarks/deltaplane_benchmarks/run.py", "from deltaplane_services import cli")
    assert contract.turned_arrows(benchmarks) == []


def test_the_modules_of_the_core_import_only_what_is_read_before_them() -> None:
    complaints = [c for source in python_sources("pipeline/deltaplane") for c in contract.backward_imports(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (core("from deltaplane.merger import Merger", "grid"), "grid imports merger, which is read after it"),
        (core("from deltaplane import merger", "grid"), "grid imports merger, which is read after it"),
        (core("import deltaplane.merger", "grid"), "grid imports merger, which is read after it"),
        (core("from . import merger", "grid"), "grid imports merger, which is read after it"),
        (core("from .merger import Merger", "grid"), "grid imports merger, which is read after it"),
        (core("from ..merger import Merger", "grid/parts"), "grid imports merger, which is read after it"),
        (core("from deltaplane.astrology import Sign", "merger"), "merger imports astrology, which has no place"),
        (core("", "astrology"), "no place for the module astrology"),
        (core("import numpy", "__init__"), "keep it empty but for the version"),
    ],
)
def test_an_import_of_a_later_module_and_a_module_without_a_place_are_found(source: Source, words: str) -> None:
    (complaint,) = contract.backward_imports(source, ("grid", "merger"))
    assert words in complaint


def test_an_import_of_an_earlier_module_is_left_alone() -> None:
    text = "from deltaplane import __version__, grid\nfrom deltaplane.grid import Grid\nfrom .grid import Grid"
    assert contract.backward_imports(core(text, "merger"), ("grid", "merger")) == []


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
