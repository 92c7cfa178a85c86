"""The purity of the core: what it may import and call. Which way imports point stands in ``pyproject.toml``.

Each check takes one :class:`Source` and returns complaints. A complaint is one line: where, what, and the cure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidy.sources import PACKAGES, ROOTS, Source

PURE_STANDARD_LIBRARY = {
    "__future__",
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "io",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "re",
    "string",
    "struct",
    "textwrap",
    "tomllib",
    "types",
    "typing",
    "unicodedata",
    "zlib",
}
"""Standard modules whose answers depend on their arguments alone."""

CORE_LIBRARIES = {"numpy", "scipy", "fastavro"}

LIBRARIES_OF = {"blas_threads": {"threadpoolctl"}, "estimators": {"sklearn", "river"}}
"""Libraries that one module of the core, or subpackage, may import besides. None but these may import those modules, so
that the rest of the core is installed, and loaded, without the libraries."""

MAY_IMPORT_BY_NAME = {"deltaplane.public_names": {"importlib", "warnings"}}
"""Modules of the front door, which decides nothing: it loads what is asked for, and warns of names of before."""

MAY_LOCK = {"deltaplane.blas_threads"}
"""Modules that may import threading, for a lock: they decide nothing, and set a number that belongs to the process."""

_CLOCK = "take the time as an argument; the services read the clock"
_NETWORK = "return what is to be sent; the services send it"
_FILES = "take the bytes as an argument; the services read and write files"
_ENVIRONMENT = "take the value from the stream definition or as an argument; the services read the environment"
_VOICE = "raise an error of deltaplane.errors, or return the fact as a value; the services speak"
_CHANCE = "derive the numbers from a seed in the stream definition, with hashlib"
_ORDER = "stay on one thread, a deterministic transition; the services run things side by side"

CURES = {
    **dict.fromkeys(["time", "sched", "calendar", "zoneinfo"], _CLOCK),
    **dict.fromkeys(["socket", "ssl", "http", "urllib", "requests", "select", "selectors", "smtplib"], _NETWORK),
    **dict.fromkeys(["pathlib", "shutil", "tempfile", "glob", "mmap", "gzip", "csv"], _FILES),
    **dict.fromkeys(["os", "sys", "platform", "locale", "getpass"], _ENVIRONMENT),
    **dict.fromkeys(["logging", "warnings"], _VOICE),
    **dict.fromkeys(["random", "secrets", "uuid", "numpy.random"], _CHANCE),
    **dict.fromkeys(["threading", "asyncio", "subprocess", "multiprocessing", "concurrent", "queue", "signal"], _ORDER),
    "importlib": "import by name at the top of the file; resources are loaded by deltaplane_schemas",
}

IMPURE_CALLS = {
    "open": _FILES,
    "print": _VOICE,
    "input": _VOICE,
    "breakpoint": "take it out",
    "__import__": CURES["importlib"],
    "hash": "the hash of a text differs from process to process; use hashlib, or hash() inside __hash__ only",
}

MAY_WARN = {"deltaplane.estimators.statistics_classifier"}
"""Modules that warn as scikit-learn's users expect it, beside an attribute that says the same as a value."""

MAY_HASH = {"deltaplane.window.ids"}
"""Modules that may call hash(): what they give back does not depend on it, and a test of theirs shows that."""

IMPURE_ATTRIBUTES = {
    **dict.fromkeys(["now", "utcnow", "today"], _CLOCK),
    **dict.fromkeys(["open", "read_text", "read_bytes", "write_text", "write_bytes", "tofile", "fromfile"], _FILES),
}

NUMPY_ATTRIBUTES = {
    "random": _CHANCE,
    **dict.fromkeys(
        ["load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt", "memmap"], _FILES
    ),
}


@dataclass(frozen=True)
class Import:
    """One imported name: ``from a.b import c`` is ``a.b.c``, since c may be a module."""

    name: str
    line: int

    @property
    def top(self) -> str:
        """The distribution package or standard module it comes from."""
        return self.name.split(".", maxsplit=1)[0]


def imports(source: Source) -> Iterator[Import]:
    """Yield every import of a file, wherever in it it stands, relative ones resolved."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = source.package.split(".")[: len(source.package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno)


def impure_imports(source: Source) -> list[str]:
    """For a file of the core: imports of anything whose answers depend on more than its arguments."""
    complaints = []
    allowed = PURE_STANDARD_LIBRARY | CORE_LIBRARIES | {"deltaplane", "deltaplane_schemas"}
    allowed |= LIBRARIES_OF.get(_entry(source.module), set())
    for item in imports(source):
        parts = item.name.split(".")
        known = next((cure for cure in (CURES.get(".".join(parts[:n])) for n in (1, 2)) if cure), None)
        if item.top == "threading" and source.module in MAY_LOCK:
            continue
        if item.top in MAY_IMPORT_BY_NAME.get(source.module, ()):
            continue
        if item.top == "warnings" and source.module in MAY_WARN:
            continue
        if known:
            complaints.append(f"{source.path}:{item.line}: the core imports {item.name}: {known}")
        elif owner := next((owner for owner, libraries in LIBRARIES_OF.items() if item.top in libraries - allowed), ""):
            complaints.append(
                f"{source.path}:{item.line}: the core imports {item.name}: only deltaplane.{owner} may, which is"
                " installed with an extra of its own; move what needs it there"
            )
        elif item.top not in allowed:
            complaints.append(
                f"{source.path}:{item.line}: the core imports {item.name}, not known to be pure: do without it,"
                " or, if its answers depend on its arguments alone, add it to PURE_STANDARD_LIBRARY in"
                " tests/tidy/contract.py"
            )
    return complaints


def impure_calls(source: Source) -> list[str]:
    """For a file of the core: clocks, files, terminals and chance that need no import of their own."""
    numpy = {"numpy", *_aliases(source.tree, "numpy")}
    inside_hash = {
        inner
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
        for inner in ast.walk(node)
    }
    complaints = []
    for node in ast.walk(source.tree):
        cure = None
        may_hash = node in inside_hash or source.module in MAY_HASH
        if isinstance(node, ast.Name) and not (node.id == "hash" and may_hash):
            cure = IMPURE_CALLS.get(node.id)
        elif isinstance(node, ast.Attribute):
            of_numpy = isinstance(node.value, ast.Name) and node.value.id in numpy
            cure = (NUMPY_ATTRIBUTES.get(node.attr) if of_numpy else None) or IMPURE_ATTRIBUTES.get(node.attr)
        if cure:
            line = getattr(node, "lineno", 0)
            complaints.append(f"{source.path}:{line}: the core uses {ast.unparse(node)}: {cure}")
    return complaints


def _aliases(tree: ast.Module, module: str) -> set[str]:
    return {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module and alias.asname
    }


def _entry(module: str) -> str:
    """``deltaplane.exact.moments.Moments`` -> ``moments``; the package itself -> the empty text."""
    return module.split(".")[1] if "." in module else ""


def second_copies(source: Source) -> list[str]:
    """For any file: imports through a root, which load a second copy of every class under another name."""
    return [
        f"{source.path}:{item.line}: imports {item.name}: that is a second copy of the module; import"
        f" {item.name.split('.', maxsplit=1)[1]} (and install the project: make test)"
        for item in imports(source)
        if any(item.name.startswith(f"{place.replace('/', '.')}") for place in PACKAGES.values())
    ]


def packages_made_of_roots(top: Path) -> list[str]:
    """Return a complaint for each root directory that has become a package."""
    return [
        f"{root}/__init__.py: a root is not a package: remove the file, or the packages below can be imported twice"
        for root in ROOTS
        if (top / root / "__init__.py").exists()
    ]
