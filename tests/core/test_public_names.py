"""What ``import deltaplane`` offers: all of it is there, none of it is loaded before, and old names warn."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import deltaplane
import deltaplane_services
from deltaplane.errors import DeltaplaneError, ExtraMissing
from deltaplane.public_names import PublicNames, Renamed, extra_needed
from tidy.sources import PACKAGES, TOP

FRONT_DOORS = ["deltaplane", "deltaplane_services"]


def run(text: str) -> str:
    """What Python prints that runs a text in a process of its own."""
    return subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout.strip()


def without(libraries: str, text: str) -> str:
    """The error of a text where some libraries are not installed, or what it prints."""
    hide = f"import sys\nfor name in {libraries.split()}: sys.modules[name] = None\n"
    return run(f"{hide}try:\n    {text}\nexcept Exception as error: print(type(error).__name__, error)")


def shown_to_type_checkers(package: str) -> set[str]:
    tree = ast.parse(Path(TOP / PACKAGES[package] / "__init__.py").read_text("utf-8"))
    (block,) = (one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
    imported = {alias.name for one in block.body if isinstance(one, ast.ImportFrom) for alias in one.names}
    return imported | {one.name for one in block.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("package", FRONT_DOORS)
def test_every_offered_name_is_there_and_is_what_type_checkers_see(package: str) -> None:
    module = importlib.import_module(package)
    offered = {name for name in module.__all__ if name != "__version__"}
    assert all(getattr(module, name).__name__ == name for name in offered)
    assert offered == {*module._NAMES.homes, *module._NAMES.announced} == shown_to_type_checkers(package)
    assert offered <= set(dir(module))


def test_the_core_offers_nothing_from_beyond_the_core() -> None:
    assert all(home.startswith("deltaplane.") for home in deltaplane._NAMES.homes.values())


def test_importing_the_package_loads_no_library_and_no_other_module_of_ours() -> None:
    found = run("import sys, deltaplane, deltaplane_services; print(*sorted(sys.modules))").split()
    assert not {"numpy", "scipy", "fastavro", "sklearn", "confluent_kafka"} & {*found}
    ours = {name for name in found if name.startswith("deltaplane")}
    assert ours == {"deltaplane", "deltaplane.errors", "deltaplane.public_names", "deltaplane_services"}


def test_what_packages_above_the_core_announce_is_found_without_the_core_knowing_them() -> None:
    assert deltaplane.replay.__module__ == "deltaplane_services.replay.in_python"


def test_what_nobody_announces_is_a_missing_extra_in_one_line() -> None:
    names = PublicNames(package="deltaplane", homes={}, extra="", announced={"astrology": "services"})
    with pytest.raises(ExtraMissing) as caught:
        names.find("astrology")
    assert str(caught.value) == (
        "deltaplane.astrology is announced by no installed distribution: pip install 'deltaplane[services]'"
    )


def test_a_name_that_was_never_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'deltaplane' has no attribute 'astrology'"):
        deltaplane.astrology  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(deltaplane_services, "astrology")


def test_a_name_of_the_services_says_where_it_is() -> None:
    for text in ("deltaplane.LiveModel", "from deltaplane import LiveModel"):
        told = without("", f"import deltaplane; {text}")
        assert told == "ImportError LiveModel is not in deltaplane: from deltaplane_services import LiveModel"


@pytest.mark.parametrize(
    ("libraries", "text", "told"),
    [
        (
            "sklearn",
            "import deltaplane; deltaplane.ProximalSVM",
            "deltaplane.ProximalSVM needs scikit-learn: pip install 'deltaplane[estimators]'",
        ),
        (
            "sklearn",
            "from deltaplane import ProximalSVM",
            "deltaplane.ProximalSVM needs scikit-learn: pip install 'deltaplane[estimators]'",
        ),
        (
            "sklearn",
            "from deltaplane.estimators import ProximalSVM",
            "deltaplane.estimators needs scikit-learn: pip install 'deltaplane[estimators]'",
        ),
        (
            "threadpoolctl",
            "from deltaplane import SlidingProximalSVM",
            "deltaplane.SlidingProximalSVM needs threadpoolctl: pip install 'deltaplane[estimators]'",
        ),
        (
            "pyarrow",
            "from deltaplane import replay",
            "deltaplane.replay needs pyarrow: pip install 'deltaplane[services]'",
        ),
        (
            "confluent_kafka",
            "from deltaplane_services import LiveModel",
            "deltaplane_services.LiveModel needs confluent-kafka: pip install 'deltaplane[services]'",
        ),
    ],
)
def test_a_missing_library_is_one_line_that_names_the_extra(libraries: str, text: str, told: str) -> None:
    assert without(libraries, text) == f"ExtraMissing {told}"


def test_a_missing_library_of_ours_is_our_error_and_an_import_error_alike() -> None:
    with pytest.raises(ExtraMissing) as caught, extra_needed("this", "estimators"):
        raise ModuleNotFoundError("No module named 'sklearn.svm'", name="sklearn.svm")
    assert isinstance(caught.value, DeltaplaneError)
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "sklearn.svm"


def test_a_module_of_ours_that_is_not_there_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, extra_needed("this", "estimators"):
        raise ModuleNotFoundError("No module named 'deltaplane.lost'", name="deltaplane.lost")
    assert not isinstance(caught.value, ExtraMissing)


def test_the_command_line_without_its_libraries_says_so_in_one_line() -> None:
    text = "import sys; sys.modules['typer'] = None; from deltaplane_services.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "deltaplane: the command deltaplane needs typer: pip install 'deltaplane[services]'\n"


def test_a_renamed_name_still_works_and_warns_where_it_is_used(tmp_path: Path) -> None:
    names = PublicNames("deltaplane", {"Grid": "deltaplane.exact.grid"}, "", {"Raster": Renamed("Grid", "0.2")})
    told = "deltaplane.Raster is deprecated since version 0.2: use deltaplane.Grid"

    def package(name: str) -> object:
        return names.find(name)

    with pytest.warns(DeprecationWarning, match=told) as caught:
        assert package("Raster") is deltaplane.Grid
    assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert package("Grid") is deltaplane.Grid

    # As a whole package: the warning is that of the line which asks, however it asks.
    (tmp_path / "renamer.py").write_text(
        "from deltaplane.public_names import PublicNames, Renamed\n"
        "names = PublicNames('renamer', {'Grid': 'deltaplane.exact.grid'}, '', {'Raster': Renamed('Grid', '0.2')})\n"
        "def __getattr__(name):\n    return names.find(name)\n",
        "utf-8",
    )
    user = "import sys, warnings; sys.path.insert(0, {0!r}); warnings.simplefilter('always')\n{1}"
    for line in ("from renamer import Raster", "import renamer; renamer.Raster"):
        (tmp_path / "user.py").write_text(user.format(str(tmp_path), line), "utf-8")
        ended = subprocess.run([sys.executable, tmp_path / "user.py"], check=True, capture_output=True, text=True)
        assert f"user.py:2: DeprecationWarning: {told.replace('deltaplane', 'renamer')}" in ended.stderr
        assert "renamer.py" not in ended.stderr


def test_what_a_package_renamed_is_no_name_of_today_and_leads_to_one() -> None:
    for package in (deltaplane, deltaplane_services):
        renamed = package._NAMES.renamed
        assert not set(renamed) & {*package.__all__}
        assert {new.to for new in renamed.values()} <= {*package.__all__}
