"""House style that no linter knows. Each check returns complaints; a complaint says where, what, and the cure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tidy.sources import Source

FILE_LINES = 450
FUNCTION_LINES = 80
TEST_NAME_WORDS = 4

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

_EMPTY_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities", "base", "impl"}
_UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
_UNSAFE_CALLS = {"eval", "exec"}

# The words are put together from halves, so that this file passes its own check.
_WORKPLACE = {
    "a number of the issue tracker": r"\bissue" + r" #",
    "a path of one machine": r"(?<![\w./-])/(?:work|root)" + r"/",
    "a package registry's host": "|".join(
        re.escape(first + second)
        for first, second in [
            ("pypi", ".org"),
            ("files.python", "hosted.org"),
            ("repo1", ".maven"),
            ("repo.maven", ".apache"),
            ("registry", ".npmjs"),
            ("proxy", ".golang"),
            ("static.crates", ".io"),
            ("index.crates", ".io"),
            ("deb", ".debian.org"),
        ]
    ),
    "a document that is not in the project": r"\bshared" + r"/(?:design|style|papers|kafka|datasets)",
    "who works here": r"\bfiled by a" + r" session\b|\bthe C" + r"EO\b|\bsub" + r"agent",
}


def long_files(source: Source) -> list[str]:
    """Return a complaint if the file has more lines than a reader holds in mind."""
    lines = source.text.count("\n")
    if lines <= FILE_LINES:
        return []
    return [f"{source.path}: {lines} lines, at most {FILE_LINES}: split it where the nouns change"]


def long_functions(source: Source) -> list[str]:
    """Return a complaint for each function whose body, its docstring aside, does not fit a screen."""
    complaints = []
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > FUNCTION_LINES:
                complaints.append(
                    f"{source.path}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES}:"
                    " give its parts names of their own"
                )
    return complaints


def empty_names(source: Source) -> list[str]:
    """Return a complaint for each module or class named by a word that says nothing."""
    named = [(source.path, part) for part in source.module.split(".")]
    named += [(f"{source.path}:{n.lineno}", n.name) for n in ast.walk(source.tree) if isinstance(n, ast.ClassDef)]
    return [
        f"{where}: the name {name} says nothing by {word!r}: name it by what it holds or does"
        for where, name in named
        for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
        if word.lower() in _EMPTY_WORDS
    ]


def missing_docstrings(source: Source) -> list[str]:
    """Return a complaint for each public module, class, function or method without a docstring."""
    return [
        f"{source.path}:{getattr(node, 'lineno', 1)}: {name} has no docstring: say what it gives"
        " (shapes, units, errors raised)"
        for name, node in _public(source)
        if not (ast.get_docstring(node) or "").strip()
    ]


def _public(source: Source) -> Iterator[tuple[str, Documented]]:
    if not any(part.startswith("_") for part in source.module.split(".")):
        yield source.module, source.tree
        yield from _public_members(source.module, source.tree.body)


def _public_members(owner: str, body: list[ast.stmt]) -> Iterator[tuple[str, Documented]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
            if decorators.isdisjoint({"overload", "override", "setter"}):
                name = f"{owner}.{node.name}"
                yield name, node
                if isinstance(node, ast.ClassDef):
                    yield from _public_members(name, node.body)


def unsafe_loading(source: Source) -> list[str]:
    """Return a complaint for each use of what turns bytes or text into running code."""
    complaints = []
    for node in ast.walk(source.tree):
        used: list[str] = []
        if isinstance(node, ast.Import):
            used = [a.name for a in node.names if a.name.split(".")[0] in _UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom):
            used = [node.module] if node.module and node.module.split(".")[0] in _UNSAFE_MODULES else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _UNSAFE_CALLS:
            used = [node.func.id]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            used = [node.arg]
        complaints += [
            f"{source.path}:{getattr(node, 'lineno', 0)}: {name} runs what it reads: use Avro, JSON or TOML"
            for name in used
        ]
    return complaints


def workplace_words(path: str, text: str) -> list[str]:
    """Return a complaint for each line that means something only where it was written."""
    return [
        f"{path}:{number}: {what} ({found.group()!r}): say it in words that a stranger to the workplace understands"
        for what, pattern in _WORKPLACE.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := re.search(pattern, line, re.IGNORECASE))
    ]


def short_test_names(source: Source) -> list[str]:
    """Return a complaint for each test whose name is not a sentence."""
    return [
        f"{source.path}:{node.lineno}: {node.name} is not a sentence: say in {TEST_NAME_WORDS} words or more what is so"
        for node in ast.walk(source.tree)
        if isinstance(node, Function)
        and node.name.startswith("test_")
        and len([word for word in node.name.removeprefix("test_").split("_") if word]) < TEST_NAME_WORDS
    ]
