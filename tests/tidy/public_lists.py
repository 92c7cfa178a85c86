"""What ``__all__`` of a module says is what the module has. Each check returns complaints, as those of style do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tidy.sources import Source

_UNLISTED_CALLS = {"TypeVar", "ParamSpec", "getLogger"}
"""What these give is for the module itself, whatever it is called."""

ALL_PUBLIC = {
    "pipeline/deltaplane/limits.py",
    "services/deltaplane_services/observe/metrics/metric_names.py",
    "services/deltaplane_services/processors/topics.py",
}
"""Tables, of which all is public: an entry is declared once, and nowhere listed again."""

ARRAYS = "pipeline/deltaplane/arrays.py"
"""The one module that names types of arrays."""


def untrue_lists(source: Source) -> list[str]:
    """Return a complaint if ``__all__`` lacks a public name that the module defines, or lists one that it has not."""
    names, own = listed(source.tree), defined(source.tree)
    if source.path in ALL_PUBLIC:
        return []
    if names is None:
        wanted = ", ".join(f'"{name}"' for name in sorted(own))
        return [f"{source.path}: has no __all__: write __all__ = [{wanted}] below its imports"] if own else []
    complaints = [f"{source.path}: __all__ lists {name}, which is not there" for name in names - bound(source.tree)]
    complaints += [f"{source.path}: __all__ does not list {name}: list it, or call it _{name}" for name in own - names]
    complaints += [
        f"{source.path}: __all__ lists {name}, which is private: leave it out"
        for name in names
        if name.startswith("_") and name != "__version__"
    ]
    return sorted(complaints)


def second_aliases(source: Source) -> list[str]:
    """Return a complaint for each type of arrays that is named outside of the module which names them."""
    return [
        f"{source.path}:{node.lineno}: names a type of arrays: take it from deltaplane.arrays, or add it there"
        for node in source.tree.body
        if isinstance(node, ast.Assign)
        and source.path != ARRAYS
        and ast.unparse(node.value).startswith(("npt.NDArray[", "np.ndarray"))
    ]


def listed(tree: ast.Module) -> set[str] | None:
    """The names in ``__all__`` of a module; None if it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def defined(tree: ast.Module) -> set[str]:
    """The public names that a module defines at its top level."""
    names = {name for node in tree.body for name in _named(node) if not _unlisted(node)}
    return {name for name in names if not name.startswith("_")}


def bound(tree: ast.Module) -> set[str]:
    """Every name that a module has at its top level, imported ones too, whatever block they stand in."""
    blocks = [tree.body]
    names: set[str] = set()
    while blocks:
        for node in blocks.pop():
            names |= {*_named(node)}
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.If | ast.With | ast.Try):
                blocks.append(node.body)
    return names


def _named(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id


def _unlisted(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in _UNLISTED_CALLS
