"""Which lines of some modules have run: to find inputs that go where none went before, and to say what was never seen.

Lines are counted in functions only: what runs at import says nothing of an input. A function of which every line has
run is not watched any more, and of the others the first calls of an input are: one may call them a million times.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

MOST_CALLS = 200
"""So many calls of a function are watched in one input."""


class LinesSeen:
    """The lines that ran while this was ``watching``; ``new`` is whether any did for the first time."""

    def __init__(self, modules: Iterable[ModuleType], left_out: Iterable[str] = ()) -> None:
        self._unseen: dict[CodeType, set[int]] = {}
        self.lines: dict[str, set[int]] = {}
        self._seen: dict[str, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()
        self.new = False
        beginnings = tuple(left_out)
        for module in modules:
            path = str(module.__file__)
            code = compile(Path(path).read_text("utf-8"), path, "exec")
            lines = {
                line for part in _functions(code) if not part.co_name.startswith(beginnings) for line in _own(part)
            }
            self.lines[path], self._seen[path] = lines, set()

    def seen(self, path: str) -> set[int]:
        """The lines of a file that ran."""
        return self._seen[path] & self.lines[path]

    def __enter__(self) -> None:
        self.new = False
        self._calls.clear()
        sys.settrace(self._enter)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, *_: object) -> Any:
        code = frame.f_code
        unseen = self._unseen.get(code)
        if unseen is None:
            known = code.co_filename in self.lines
            unseen = _own(code) - self._seen[code.co_filename] if known else set()
            self._unseen[code] = unseen
        if not unseen:
            return None
        self._calls[code] += 1
        return self._line if self._calls[code] <= MOST_CALLS else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        unseen = self._unseen[frame.f_code]
        if event == "line" and frame.f_lineno in unseen:
            unseen.discard(frame.f_lineno)
            self._seen[frame.f_code.co_filename].add(frame.f_lineno)
            self.new = True
        return self._line


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            # A function has local variables of its own; the body of a class has not.
            if inner.co_flags & 1:
                yield inner
            yield from _functions(inner)


def _own(code: CodeType) -> set[int]:
    """The lines of a function's body."""
    return {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
