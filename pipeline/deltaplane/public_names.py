"""What a package offers by name without loading it: a module is imported when a name of it is first asked for.

The problem: ``import deltaplane`` should offer what people need, yet the command line and the services start often, and
pay at start for nothing that they do not use; and some names need libraries that may not be installed. A package
therefore answers for its names itself (PEP 562), by a table of where they are.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deltaplane.errors import ExtraMissing

__all__ = ["PublicNames", "Renamed", "extra_needed"]

_DISTRIBUTIONS = {
    "confluent_kafka": "confluent-kafka",
    "prometheus_client": "prometheus-client",
    "sklearn": "scikit-learn",
}
"""What is to be installed, by the module that is to be imported, if they are called differently."""


class Renamed(NamedTuple):
    """The name that takes the place of an old one, and the version since which the old one is deprecated."""

    to: str
    since: str


@dataclass(frozen=True)
class PublicNames:
    """The names that a package offers: ``homes`` says in which module each of them is.

    ``extra``: the extra of the distribution with the libraries that these modules need. ``renamed``: names of before,
    which still work, with a warning. ``elsewhere``: names that people look for here, and the package that offers them.
    ``announced``: names that packages above this one offer here, by entry points of the group PACKAGE.public, and the
    extra that each of them needs.
    """

    package: str
    homes: Mapping[str, str]
    extra: str
    renamed: Mapping[str, Renamed] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    announced: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Any:
        """What the package offers under a name; the package calls this as its ``__getattr__``.

        Warns (DeprecationWarning) if the name is one of before. Raises AttributeError for a name that was never
        offered; ImportError for one that another package offers, since AttributeError would lose its text on the way
        through ``from package import name``; :class:`ExtraMissing` if a library is not installed.
        """
        if name in self.renamed:
            to, since = self.renamed[name]
            text = f"{self.package}.{name} is deprecated since version {since}: use {self.package}.{to}"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            name = to
        if name in self.elsewhere:
            other = self.elsewhere[name]
            raise ImportError(f"{name} is not in {self.package}: from {other} import {name}", name=name)
        if name in self.announced:
            return self._announced(name)
        if name not in self.homes:
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
        with extra_needed(f"{self.package}.{name}", self.extra):
            return getattr(importlib.import_module(self.homes[name]), name)

    def _announced(self, name: str) -> Any:
        """What an installed distribution says that it offers here."""
        # Importing this takes longer than all else that the front door needs.
        from importlib.metadata import entry_points  # noqa: PLC0415

        extra = self.announced[name]
        for entry in entry_points(group=f"{self.package}.public", name=name):
            with extra_needed(f"{self.package}.{name}", extra):
                return entry.load()
        raise ExtraMissing(
            f"{self.package}.{name} is announced by no installed distribution: pip install '{self.package}[{extra}]'",
            name=name,
        )


@contextmanager
def extra_needed(what: str, extra: str) -> Iterator[None]:
    """Within the block, an import of a library that is not installed raises :class:`ExtraMissing`.

    Its text says in one line what needs the library, and which extra of the distribution brings it.
    """
    try:
        yield
    except ModuleNotFoundError as fault:
        library = (fault.name or "").partition(".")[0]
        if not library or library.startswith("deltaplane"):
            raise
        distribution = _DISTRIBUTIONS.get(library, library)
        text = f"{what} needs {distribution}: pip install 'deltaplane[{extra}]'"
        raise ExtraMissing(text, name=fault.name) from None
