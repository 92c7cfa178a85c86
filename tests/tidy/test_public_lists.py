"""Every module says in ``__all__`` what others may take from it, and arrays have one name each; each check can fail."""

from __future__ import annotations

import pytest

from tidy import public_lists
from tidy.sources import PACKAGES, TOP, Source, python_sources


def module(text: str) -> Source:
    return Source("pipeline/deltaplane/exact/grid.py", text)


def report(complaints: list[str]) -> str:
    return "\n".join(["", *dict.fromkeys(complaints)])


def test_every_module_lists_the_public_names_that_it_defines() -> None:
    complaints = [c for source in python_sources(*PACKAGES.values()) for c in public_lists.untrue_lists(source)]
    assert not complaints, report(complaints)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ROWS = 1", 'has no __all__: write __all__ = ["ROWS"]'),
        ("def run(): ...\nclass Row: ...", 'write __all__ = ["Row", "run"]'),
        ('__all__ = ["run"]\nrows: int = 1\ndef run(): ...', "does not list rows"),
        ('__all__ = ["run"]', "lists run, which is not there"),
        ('__all__ = ["run", "_walk"]\ndef run(): ...\ndef _walk(): ...', "lists _walk, which is private"),
        ("LOW, HIGH = 1, 2", '["HIGH", "LOW"]'),
    ],
)
def test_a_list_of_names_that_is_not_true_is_found(text: str, complaint: str) -> None:
    (found,) = public_lists.untrue_lists(module(text))
    assert complaint in found


@pytest.mark.parametrize(
    "text",
    [
        '"""Says only what it is."""',
        "import math\n_rows = 1\ndef _run(): ...",
        'from a import run\n__all__ = ["run"]',
        'with ready():\n    from a import run\n__all__ = ["run"]',
        'T = TypeVar("T")\nlogger = logging.getLogger(__name__)',
        '__version__ = "1"\n__all__ = ["__version__"]',
    ],
)
def test_a_list_that_is_true_or_has_nothing_to_list_is_left_alone(text: str) -> None:
    assert public_lists.untrue_lists(module(text)) == []


def test_tables_that_are_public_as_a_whole_need_no_list() -> None:
    assert all((TOP / path).exists() for path in public_lists.ALL_PUBLIC)
    assert public_lists.untrue_lists(Source("pipeline/deltaplane/limits.py", "ROWS = 1")) == []


def test_no_module_names_a_type_of_arrays_but_the_one_that_names_them_all() -> None:
    complaints = [c for source in python_sources() for c in public_lists.second_aliases(source)]
    assert not complaints, report(complaints)


def test_a_type_of_arrays_that_is_named_again_is_found() -> None:
    (complaint,) = public_lists.second_aliases(module("Rows = npt.NDArray[np.int32]"))
    assert "deltaplane.arrays" in complaint
    assert public_lists.second_aliases(module("Grams = Mapping[str, Moments]")) == []
