"""The import contract: what the core may touch, which way the arrow points, and in what order the core is read.

Each check takes one :class:`Source` and returns complaints. A complaint is one line: where, what, and the cure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidy.sources import PACKAGES, ROOTS, Source

CORE_ORDER = (
    "errors",
    "log_order",
    "limits",
    "grid",
    "refit",
    "tiles",
    "triangle",
    "moments",
    "centring",
    "statistics",
    "metrics",
    "options",
    "cholesky",
    "solver",
    "last_rows",
    "rowwise",
    "candidates",
    "tables",
    "portable",
    "features",
    "ladder",
    "message_size",
    "prior",
    "placement",
    "definition",
    "mismatch",
    "event_times",
    "sample",
    "ids",
    "offsets",
    "buffer",
    "window",
    "known_sums",
    "window_sums",
    "outcomes",
    "retirements",
    "partition",
    "delta",
    "trimming",
    "model",
    "answers",
    "exported",
    "scoring",
    "prequential",
    "merger",
    "row_scores",
    "records",
    "wire",
    "reference",
    "folds",
    "estimators",
)
"""The modules of the core in reading order, which is data order: each may import only what stands before it.

A subpackage is one entry, and its modules may import each other.
"""

MAY_IMPORT = {
    "deltaplane_schemas": {"deltaplane_schemas"},
    "deltaplane": {"deltaplane_schemas", "deltaplane"},
    "deltaplane_services": {"deltaplane_schemas", "deltaplane", "deltaplane_services"},
    "deltaplane_benchmarks": {"deltaplane_schemas", "deltaplane", "deltaplane_services", "deltaplane_benchmarks"},
}
"""The arrow: benchmarks know the services, services the core, the core the schemas, and none looks back."""

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

LIBRARIES_OF = {"estimators": {"sklearn"}}
"""Libraries that one module of the core, or subpackage, may import besides. No other may import those modules, so that
the core is installed, and loaded, without them."""

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

MAY_HASH = {"deltaplane.ids"}
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


def turned_arrows(source: Source) -> list[str]:
    """For a file of any of the packages: imports that run against benchmarks -> services -> core -> schemas."""
    package = source.module.split(".", maxsplit=1)[0]
    return [
        f"{source.path}:{item.line}: {package} imports {item.name} against services -> core -> schemas:"
        f" move what is shared to {package} or below, or pass it in as an argument"
        for item in imports(source)
        if item.top in PACKAGES and item.top not in MAY_IMPORT[package]
    ]


def backward_imports(source: Source, order: tuple[str, ...] = CORE_ORDER) -> list[str]:
    """For a file of the core: imports of a module that stands later in ``order``, and modules that are not in it."""
    own = _entry(source.module)
    if own == "":
        return [
            f"{source.path}:{item.line}: deltaplane/__init__.py imports {item.name}: keep it empty but for the version,"
            " so that a module loads what it names and nothing else"
            for item in imports(source)
            if item.top != "__future__"
        ]
    unknown = "add it to CORE_ORDER in tests/tidy/contract.py, after all that it imports and before all that imports it"
    if own not in order:
        return [f"{source.path}: the core has no place for the module {own}: {unknown}"]
    complaints = []
    for item in imports(source):
        if item.top != "deltaplane":
            continue
        other = _entry(item.name)
        if other in {"", own} or other.startswith("__"):
            continue
        if other in LIBRARIES_OF:
            complaints.append(
                f"{source.path}:{item.line}: {own} imports {other}, which needs {', '.join(LIBRARIES_OF[other])}: the"
                " core loads without it; move what both need before them"
            )
            continue
        if other not in order:
            complaints.append(f"{source.path}:{item.line}: {own} imports {other}, which has no place: {unknown}")
        elif order.index(other) > order.index(own):
            complaints.append(
                f"{source.path}:{item.line}: {own} imports {other}, which is read after it: move what both need"
                " before them, or change CORE_ORDER in tests/tidy/contract.py if the data really flows the other way"
            )
    return complaints


def _entry(module: str) -> str:
    """``deltaplane.moments.Moments`` -> ``moments``; the package itself -> the empty text."""
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
