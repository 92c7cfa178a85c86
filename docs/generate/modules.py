"""The modules of the core in an order in which each comes after all that it imports, and what each says of itself.

Docstrings and imports are read from the sources, so that a module that moves is found where it is.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from generate.tables import markdown, table

_HEAD = ["Module", "What it is"]


def module_list(package: Path) -> str:
    """Every module of a package, in reading order: a table of its modules, and one for each package below it."""
    parts: list[str] = []
    plain: list[list[str]] = []
    for one in _ordered(package, package.name):
        if not (package / one).is_dir():
            plain.append(_row(package / f"{one}.py", f"{package.name}.{one}"))
            continue
        if plain:
            parts.append(table(_HEAD, plain))
            plain = []
        name = f"{package.name}.{one}"
        about = markdown(_docstring(package / one / "__init__.py"))
        rows = [_row(_file(package / one, other), f"{name}.{other}") for other in _ordered(package / one, name)]
        parts.append(f"### {name}\n\n{about}\n\n{table(_HEAD, rows)}")
    return "\n".join([*parts, table(_HEAD, plain) if plain else ""])


def _ordered(package: Path, name: str) -> list[str]:
    """The modules and packages directly in a package, each after all that it imports. Raises CycleError."""
    entries = [one.stem for one in package.glob("*.py") if one.name != "__init__.py"]
    entries = sorted([*entries, *(one.parent.name for one in package.glob("*/__init__.py"))])
    imports = {
        one: sorted({other for file in _files(package, one) for other in _imported(file, name)} & {*entries} - {one})
        for one in entries
    }
    return list(TopologicalSorter(imports).static_order())


def packages_below(package: Path) -> str:
    """The packages of a package, in the order of their names, and what each says of itself in its first lines."""
    found = sorted(one.parent for one in package.glob("*/__init__.py"))
    rows = [[f"`{package.name}.{one.name}`", _first(_docstring(one / "__init__.py"))] for one in found]
    return table(["Package", "What it is"], [row for row in rows if row[1]])


def _files(package: Path, entry: str) -> list[Path]:
    return sorted((package / entry).glob("**/*.py")) if (package / entry).is_dir() else [package / f"{entry}.py"]


def _file(package: Path, entry: str) -> Path:
    return package / entry / "__init__.py" if (package / entry).is_dir() else package / f"{entry}.py"


def _imported(file: Path, package: str) -> set[str]:
    """The modules and packages directly below a package that a file imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    begin = f"{package}."
    return {name.removeprefix(begin).split(".")[0] for name in names if name.startswith(begin)}


def _row(file: Path, name: str) -> list[str]:
    return [f"`{name}`", _first(_docstring(file))]


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def _first(docstring: str) -> str:
    """The first paragraph."""
    return markdown(docstring.partition("\n\n")[0])
