"""The generated parts of the pages: text that is made from the product's own tables whenever the pages are built.

A page asks for one by a comment on a line of its own, `<!-- generated: commands -->`, and for a page that lies
elsewhere in the project by `<!-- included: deploy/RUNBOOK.md -->`. Markdown takes the comment's place before it is
parsed.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from generate.change_cost import change_costs
from generate.commands import command_pages, exit_codes
from generate.definition import definition_tables
from generate.metrics import metric_tables
from generate.modules import module_list, packages_below
from generate.python import public_names
from generate.settings import settings_table
from generate.topics import record_tables, topic_tables

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TOP = Path(__file__).resolve().parents[2]

PARTS: Mapping[str, Callable[[], str]] = {
    "commands": command_pages,
    "exit codes": exit_codes,
    "definition": definition_tables,
    "settings": settings_table,
    "metrics": metric_tables,
    "topics": topic_tables,
    "records": record_tables,
    "core modules": lambda: module_list(TOP / "pipeline" / "deltaplane"),
    "service packages": lambda: packages_below(TOP / "services" / "deltaplane_services"),
    "public names": public_names,
    "change costs": change_costs,
}
"""Every part that a page can ask for."""

_ASKED = re.compile(r"^<!-- (generated|included): (.+?) -->$", re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def filled(text: str, page: Path) -> str:
    """The text of a page with everything that it asks for; ``page`` is its path. Raises KeyError for unknown parts."""

    def part(found: re.Match[str]) -> str:
        return PARTS[found[2]]() if found[1] == "generated" else included(TOP / found[2], page)

    return _ASKED.sub(part, text)


def included(file: Path, page: Path) -> str:
    """A Markdown file without its title, for another page: its headings and its relative links are made to fit."""
    _, _, body = file.read_text("utf-8").partition("\n")

    def moved(found: re.Match[str]) -> str:
        target = os.path.relpath(os.path.normpath(file.parent / found[2]), page.parent)
        return f"{found[1]}{Path(target).as_posix()}{found[3]}"

    return _LINK.sub(moved, body)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = filled(source[0], Path(app.env.doc2path(name)))

    def depends(app: Sphinx, _environment: object, _added: object, _changed: object, _removed: object) -> list[str]:
        """Build pages with generated parts always: what they are made from is no file that Sphinx watches."""
        return [name for name in app.env.found_docs if _ASKED.search(Path(app.env.doc2path(name)).read_text("utf-8"))]

    def skipped(_app: Sphinx, _what: str, name: str, *_others: object) -> bool | None:
        """Leave out what scikit-learn adds to every estimator, and documents itself."""
        return True if re.fullmatch("get_metadata_routing|set_.*_request", name) else None

    app.connect("source-read", read)
    app.connect("autodoc-skip-member", skipped)
    app.connect("env-get-outdated", depends)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
