"""The modules of the core in an order in which each comes after all that it imports, and what each says of itself.

Docstrings and imports are read from the sources, so that a module that moves is found where it is.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from generate.tables import markdown, table


def module_list(package: Path) -> str:
    """Every module of a package, in reading order: a table for the package and one for each package below it."""
    entries = {one: _files(package, one) for one in _entries(package)}
    imports = {
        one: {other for file in files for other in _imported(file, package.name) if other in entries} - {one}
        for one, files in entries.items()
    }
    order = list(TopologicalSorter({one: sorted(imports[one]) for one in sorted(imports)}).static_order())
    parts: list[str] = []
    plain: list[list[str]] = []
    for one in order:
        if (package / one).is_dir():
            if plain:
                parts.append(table(["Module", "What it is"], plain))
                plain = []
            rows = [_row(file, package.parent) for file in entries[one] if file.name != "__init__.py"]
            about = markdown(_docstring(package / one / "__init__.py"))
            parts.append(f"### {package.name}.{one}\n\n{about}\n\n{table(['Module', 'What it is'], rows)}")
        else:
            plain.append(_row(package / f"{one}.py", package.parent))
    return "\n".join([*parts, table(["Module", "What it is"], plain) if plain else ""])


def packages_below(package: Path) -> str:
    """The packages of a package, in the order of their names, and what each says of itself in its first lines."""
    found = sorted(one.parent for one in package.glob("*/__init__.py"))
    rows = [[f"`{package.name}.{one.name}`", _first(_docstring(one / "__init__.py"))] for one in found]
    return table(["Package", "What it is"], [row for row in rows if row[1]])


def _entries(package: Path) -> list[str]:
    names = [one.stem for one in package.glob("*.py") if one.name != "__init__.py"]
    return sorted([*names, *(one.parent.name for one in package.glob("*/__init__.py"))])


def _files(package: Path, entry: str) -> list[Path]:
    return sorted((package / entry).glob("**/*.py")) if (package / entry).is_dir() else [package / f"{entry}.py"]


def _imported(file: Path, package: str) -> set[str]:
    """The modules and packages directly below a package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
    return found


def _row(file: Path, root: Path) -> list[str]:
    path = file.relative_to(root).with_suffix("")
    return [f"`{'.'.join(path.parts)}`", _first(_docstring(file))]


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def _first(docstring: str) -> str:
    """The first paragraph."""
    return markdown(docstring.partition("\n\n")[0])
