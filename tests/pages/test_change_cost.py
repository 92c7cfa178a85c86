"""What the page on architecture says of the cost of a change is counted, and stays what it was brought down to."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from generate.change_cost import AREAS, EXAMPLES, Example, change_costs, mentions
from tidy.sources import TOP

MOST = {
    "a file format": 9,
    "a solver kind": 4,
    "a metric": 2,
    "a metric with an alert": 2,
    "a topic": 8,
    "a window kind": 5,
    "a feature map": 5,
}
"""Files of the product that may mention the example of a kind that is declared once."""


@functools.cache
def found() -> dict[str, dict[str, list[Path]]]:
    """The files that mention each example. Not looked for until a test asks: it takes seconds."""
    return mentions(TOP)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_every_example_is_declared_where_the_page_says(example: Example) -> None:
    named = {path.relative_to(TOP).as_posix().partition("/")[2] for path in found()[example.kind]["Product"]}
    assert {*example.begin} <= named
    assert found()[example.kind]["Tests"]


@pytest.mark.parametrize(("kind", "most"), MOST.items())
def test_what_is_declared_once_is_not_decided_on_in_more_files(kind: str, most: int) -> None:
    files = [path.relative_to(TOP).as_posix() for path in found()[kind]["Product"]]
    assert len(files) <= most, f"{kind} is mentioned in {files}; can the newest of them ask where it is declared?"


def test_files_are_counted_once_in_the_column_of_their_directory(tmp_path: Path) -> None:
    for name, text in {
        "pipeline/a.py": "green, green",
        "services/deep/er/b.py": "evergreen",
        "services/c.bin": "green",
        "deploy/d.yml": "x: green",
        "docs/decisions/001.md": "green",
        "docs/e.md": "blue",
        "README.md": "green",
        "CHANGELOG.md": "green",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    of_tree = mentions(tmp_path, [Example("a colour", "green", r"\bgreen\b", (), ())])["a colour"]
    names = {area: [path.name for path in paths] for area, paths in of_tree.items()}
    assert names == {"Product": ["a.py"], "Deployment": ["d.yml"], "Tests": [], "Pages": ["README.md"]}


def test_the_table_has_a_line_for_each_kind_with_what_it_was_and_is() -> None:
    lines = change_costs().splitlines()
    assert len(lines) == 2 + len(EXAMPLES)
    assert all(area in lines[0] for area in AREAS)
    for example, line in zip(EXAMPLES, lines[2:], strict=True):
        cells = [cell.strip().split(" → ")[-1] for cell in line.split("|")[3 : 4 + len(AREAS)]]
        counts = [len(paths) for paths in found()[example.kind].values()]
        assert cells == [*map(str, counts), str(sum(counts))]
