"""The house style holds, and each of its checks is able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidy import style
from tidy.sources import PACKAGES, TOP, Source, files, python_sources, texts


def core(text: str, name: str = "limits") -> Source:
    return Source(f"pipeline/deltaplane/{name}.py", text)


def report(complaints: list[str]) -> str:
    return "\n".join(["", *dict.fromkeys(complaints)])


def test_no_file_of_the_packages_is_too_long() -> None:
    complaints = [c for source in python_sources(*PACKAGES.values()) for c in style.long_files(source)]
    assert not complaints, report(complaints)


def test_a_file_that_is_too_long_is_found() -> None:
    assert style.long_files(core("x = 1\n" * style.FILE_LINES)) == []
    (complaint,) = style.long_files(core("x = 1\n" * (style.FILE_LINES + 1)))
    assert "split it" in complaint


def test_no_function_of_the_packages_is_longer_than_a_screen() -> None:
    complaints = [c for source in python_sources(*PACKAGES.values()) for c in style.long_functions(source)]
    assert not complaints, report(complaints)


def test_a_function_that_is_too_long_is_found_and_its_docstring_does_not_count() -> None:
    header = 'def run():\n    """One.\n\n    Two.\n    """\n'
    assert style.long_functions(core(header + "    x = 1\n" * style.FUNCTION_LINES)) == []
    (complaint,) = style.long_functions(core(header + "    x = 1\n" * (style.FUNCTION_LINES + 1)))
    assert "run has 81 lines" in complaint


def test_no_module_or_class_of_the_packages_has_an_empty_name() -> None:
    complaints = [c for source in python_sources(*PACKAGES.values()) for c in style.empty_names(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "source",
    [
        core("class WindowManager: ..."),
        core("class BaseWindow: ..."),
        core("class WindowImpl: ..."),
        core("class HTTPHelper: ..."),
        core("class Utils: ..."),
        core("", "window_utils"),
        core("", "helpers/window"),
    ],
)
def test_a_module_or_class_with_an_empty_name_is_found(source: Source) -> None:
    (complaint,) = style.empty_names(source)
    assert "name it by what it holds or does" in complaint


def test_a_name_that_merely_contains_an_empty_word_is_left_alone() -> None:
    assert style.empty_names(core("class Database: ...\nclass Baseline: ...\nclass Simple: ...", "database")) == []


def test_everything_public_in_the_core_has_a_docstring() -> None:
    complaints = [c for source in python_sources("pipeline/deltaplane") for c in style.missing_docstrings(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x = 1", "deltaplane.limits has no docstring"),
        ('"""M."""\ndef run(): ...', "deltaplane.limits.run has no docstring"),
        ('"""M."""\ndef run():\n    """ """', "deltaplane.limits.run has no docstring"),
        ('"""M."""\nclass Window: ...', "deltaplane.limits.Window has no docstring"),
        ('"""M."""\nclass Window:\n    """W."""\n    def add(self): ...', "Window.add has no docstring"),
    ],
)
def test_a_missing_docstring_is_found(text: str, name: str) -> None:
    (complaint,) = style.missing_docstrings(core(text))
    assert name in complaint


def test_what_is_private_needs_no_docstring() -> None:
    text = '"""M."""\ndef _run(): ...\nclass _Row:\n    def add(self): ...\n'
    text += 'class Window:\n    """W."""\n    def __len__(self): ...'
    assert style.missing_docstrings(core(text)) == []


def test_nothing_anywhere_runs_what_it_reads() -> None:
    complaints = [c for source in python_sources() for c in style.unsafe_loading(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal",
        "import shelve",
        "import joblib.numpy_pickle",
        "eval('1')",
        "exec('x = 1')",
        "np.load(rows, allow_pickle=True)",
    ],
)
def test_a_use_of_what_runs_what_it_reads_is_found(text: str) -> None:
    (complaint,) = style.unsafe_loading(core(text))
    assert "use Avro, JSON or TOML" in complaint


def test_a_method_called_like_a_dangerous_function_is_left_alone() -> None:
    assert style.unsafe_loading(core("frame.eval('1')\nimport picking")) == []


def test_no_file_holds_words_that_mean_something_only_where_it_was_written() -> None:
    complaints = [c for path, text in texts() for c in style.workplace_words(path, text)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "halves",
    [
        ("see issue", " #7"),
        ("read /work", "/main"),
        ("in `/root", "/thing`"),
        ("https://pypi", ".org/simple"),
        ("https://repo1", ".maven.apache"),
        ("https://registry", ".npmjs.org"),
        ("as shared", "/design.md says"),
    ],
)
def test_a_word_of_the_workplace_is_found(halves: tuple[str, str]) -> None:
    (complaint,) = style.workplace_words("README.md", "A title\n" + "".join(halves))
    assert complaint.startswith("README.md:2: ")


def test_ordinary_words_and_addresses_are_left_alone() -> None:
    text = "the issue is work/root; https://example.org/work/root; group/work/x"
    assert style.workplace_words("README.md", text) == []


def test_every_test_has_a_sentence_for_a_name() -> None:
    complaints = [c for source in python_sources("tests") for c in style.short_test_names(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    "text",
    [
        "def test_grid(): ...",
        "def test_a_b_c(): ...",
        "async def test_it_works_(): ...",
        "class TestGrid:\n    def test_x(self): ...",
    ],
)
def test_a_test_whose_name_is_no_sentence_is_found(text: str) -> None:
    (complaint,) = style.short_test_names(Source("tests/core/test_grid.py", text))
    assert "is not a sentence" in complaint


def test_the_checks_see_the_same_files_with_git_and_without(tmp_path: Path) -> None:
    for path in files():
        copy = tmp_path / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((TOP / path).read_bytes())
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "stray.py").touch()
    (tmp_path / "tests" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "tests" / "__pycache__" / "stray.pyc").touch()
    assert files(tmp_path) == files()
    assert "pyproject.toml" in files(tmp_path)
