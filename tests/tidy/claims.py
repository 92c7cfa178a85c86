"""What the page on security says that nobody can do, and the tests that try it.

The page ends with a table: words of a sentence, and the tests. A sentence that says ``cannot``, ``never`` or
``nobody``, and a row of the table of those who can do something, has its line there, and every test that is named
exists. A sentence that admits something, or is about what Kafka promises, says so in its line instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HEADING = "## Each claim, and the test that tries it"
CLAIM = re.compile(r"\b(cannot|never|nobody)\b", re.IGNORECASE)
NO_CLAIM = ("a limit, admitted", "Kafka's promise")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def claims(page: str) -> list[str]:
    """The sentences and rows of a page, each in one line, that say that something cannot be."""
    text, _, _ = page.partition(HEADING)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*[-|] ?)", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)):
        line = " ".join(block.split())
        if line.startswith("#"):
            continue
        if line.startswith("|"):
            is_claim = re.match(r"\| (An?|The) \*\*", line) or CLAIM.search(line)
            found += [line] if is_claim and not line.startswith("| Who |") else []
        else:
            found += [one for one in re.split(r"(?<=[.?!])\s+(?=[A-Z*`(])", line) if CLAIM.search(one)]
    return found


def table(page: str) -> dict[str, str]:
    """Words of a claim to what stands beside them."""
    _, _, text = page.partition(HEADING)
    text, _, _ = text.partition("\n## ")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith('| "')]
    return {row[0].strip('"'): row[-1] for row in rows}


def complaints(page: str, root: Path) -> Iterator[str]:
    """What is wrong with the claims of a page: where, what, and the cure."""
    said, tried = claims(page), table(page)
    for claim in said:
        if not any(words in claim for words in tried):
            yield f"SECURITY.md: nothing tries {claim[:120]!r}; name its test in the table at the end"
    for words, beside in tried.items():
        if not any(words in claim for claim in said):
            yield f"SECURITY.md: no sentence says {words!r}; take its line out of the table, or quote it anew"
        tests = TEST.findall(beside)
        if not tests and beside not in NO_CLAIM:
            yield f"SECURITY.md: {words!r} has no test, got {beside!r}; write `tests/….py::test_…`"
        for file, name in tests:
            if not _has(root / file, name):
                yield f"SECURITY.md: {words!r} names {file}::{name}, which is not there; name the test as it is now"


def _has(file: Path, name: str) -> bool:
    if not file.is_file():
        return False
    return any(
        isinstance(node, ast.FunctionDef) and node.name == name for node in ast.parse(file.read_text("utf-8")).body
    )
