"""The fenced blocks of a page, and what is to be done with each.

The word behind the fence says what a block is:

- ``sh``: commands that a reader types. They are run in one shell for the whole page, so what a block leaves behind
  (files, variables, processes in the background) is there for the next. All must end with exit code 0. If the page
  expects another one of the last, the block says so by ``<!-- exit code: 1 -->`` in front of it.
- ``python``: run in one namespace for the whole page.
- ``output``: what the block before it prints. ``…`` stands for anything within a line; alone, for any lines.
- ``toml`` and ``text`` with ``<!-- file: NAME -->`` in front: what the reader puts into a file. It is written.
- other words: shown, and not run.

``<!-- not run: REASON -->`` in front of a block says that it cannot run in a test, and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)(?P<marks>`{3,})(?P<word>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=marks) *$",
    re.MULTILINE | re.DOTALL,
)
_BEFORE = re.compile(r"<!-- (not run|file|exit code): ([^\n]+?) -->\n\Z")

RUN = ("sh", "python")
SHOWN = ("toml", "text", "json", "output")
"""Words of blocks that are never run."""

NOT_RUN_REASONS = ("docker", "another machine", "this is what runs the tests", "other pages go on from here")
"""Why a block may not be run in a test: nothing else is a reason."""


@dataclass(frozen=True)
class Block:
    """A block: the line on which its fence stands, its word, its text, and what stands in front of it."""

    line: int
    word: str
    text: str
    not_run: str | None = None
    file: str | None = None
    exit_code: int = 0


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    return list(_blocks(page.read_text("utf-8")))


def _blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        before = text[: found.start()]
        named = {}
        while said := _BEFORE.search(before):
            named[said[1]] = said[2]
            before = before[: said.start()]
        lines = found["text"].splitlines(keepends=True)
        yield Block(
            line=text.count("\n", 0, found.start()) + 1,
            word=found["word"].strip(),
            text="".join(line.removeprefix(found["indent"]) for line in lines),
            not_run=named.get("not run"),
            file=named.get("file"),
            exit_code=int(named.get("exit code", "0")),
        )


def is_like(printed: str, expected: str) -> bool:
    """Whether a text is what an ``output`` block shows: line by line; one space is as good as many."""
    return re.fullmatch(_pattern(expected), f"{_trimmed(printed)}\n") is not None


def _trimmed(text: str) -> str:
    return "\n".join(re.sub(" +", " ", line).rstrip() for line in text.strip("\n").splitlines())


def _pattern(expected: str) -> str:
    parts = []
    for line in _trimmed(expected).splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(map(re.escape, line.split("…"))) + r"\n")
    return "".join(parts)
