"""What is installed without an extra: the wheel as it is built, and nothing but the core's libraries beside it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from typer.testing import CliRunner

from deltaplane import __version__
from deltaplane_services.cli.application import app
from services_commands import commands_below
from tidy.sources import TOP

CORE = ("numpy", "scipy", "fastavro")
"""Libraries that come with ``pip install deltaplane``."""

# Finds the libraries of the core and what they stand on, and nothing else that is installed here.
_BARE = """
import sys, importlib.abc
allowed = set({allowed!r})
class Bare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in allowed:
            return None
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Bare())
sys.path.insert(0, {wheel!r})
sys.argv = ["deltaplane", *{words!r}]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as an installer does."""
    place = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(TOP)).build(directory=str(place), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        archive.extractall(place / "site")
    return place / "site"


def bare(wheel: Path, text: str, *words: str, besides: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """What comes of a program where only the core's libraries are installed, and some ``besides``."""
    allowed = ["deltaplane", "deltaplane_services", "deltaplane_schemas", *CORE, *besides]
    program = _BARE.format(allowed=allowed, wheel=str(wheel), words=list(words)) + text
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)


COMMAND = "from deltaplane_services.cli import main; main()"


def test_the_core_works_from_the_wheel_alone(wheel: Path) -> None:
    text = "import deltaplane, numpy; print(deltaplane.__file__, deltaplane.fit_grid(numpy.ones((2, 1))).features)"
    ended = bare(wheel, text)
    assert ended.stdout.split() == [str(wheel / "deltaplane" / "__init__.py"), "1"], ended.stderr


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["replay", "table.csv"], ["nonsense"]])
def test_the_command_says_in_one_line_which_extra_it_needs(wheel: Path, words: list[str]) -> None:
    ended = bare(wheel, COMMAND, *words)
    assert ended.returncode == 2
    assert ended.stderr == "deltaplane: the command deltaplane needs typer: pip install 'deltaplane[services]'\n"


def test_the_version_is_told_without_any_library(wheel: Path) -> None:
    ended = bare(wheel, COMMAND, "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"deltaplane {__version__}\n", "")


def test_a_library_that_is_missing_only_when_a_command_runs_is_one_line_too(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,label\n1,x\n2,y\n", "utf-8")
    typer = (
        *("typer", "rich", "click", "markdown_it", "mdurl", "pygments", "shellingham", "annotated_doc", "pydantic"),
        *("pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "threadpoolctl"),
    )
    ended = bare(wheel, COMMAND, "replay", str(tmp_path / "table.csv"), "--label", "label", besides=typer)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("deltaplane: the command deltaplane needs "), ended.stderr
    assert "pip install 'deltaplane[services]'" in ended.stderr


def test_the_extra_all_has_every_extra_that_is_not_for_developers() -> None:
    # Spark is half a gigabyte, and has versions of its own.
    extras = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (line,) = extras["all"]
    assert set(line.removeprefix("deltaplane[").removesuffix("]").split(",")) == {
        *extras.keys() - {"all", "bench", "docs", "peers", "spark", "test"}
    }


def test_every_command_has_a_short_option_for_help() -> None:
    import typer  # noqa: PLC0415 - the command of the tests below, and of nothing above.

    names = ["", *commands_below(typer.main.get_command(app))]
    assert len(names) > 20
    for name in names:
        short, long = (CliRunner().invoke(app, [*name.split(), option]) for option in ("-h", "--help"))
        assert short.exit_code == 0, name
        assert short.output == long.output, name


def test_help_and_completion_wait_for_no_library_that_only_commands_need() -> None:
    # With NumPy and SciPy each press of Tab took three times as long.
    asked = "import sys, deltaplane_services.cli.application; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert {"typer", "deltaplane"} <= set(loaded)
    assert not {"numpy", "scipy", "fastavro", "pyarrow", "confluent_kafka", "pydantic", "rich"} & set(loaded)


def test_a_shell_completes_commands() -> None:
    words = {"COMP_WORDS": "deltaplane rep", "COMP_CWORD": "1", "_DELTAPLANE_COMPLETE": "complete_bash"}
    command = Path(sys.executable).with_name("deltaplane")
    ended = subprocess.run(
        [command], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"} | words
    )
    assert {"replay", "repartition"} <= set(ended.stdout.split()), ended
