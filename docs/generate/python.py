"""The public names, as the packages themselves list them, for autodoc to document."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

PUBLIC = ("deltaplane", "deltaplane_services")
"""Modules whose listed names are public."""


_NOT_OURS = "BaseEstimator, ClassifierMixin, TransformerMixin"
"""Classes of scikit-learn, whose methods it documents itself."""


def names_of(module: str) -> list[str]:
    """The public names of a module: what its ``__all__`` lists; without one, the classes that it defines."""
    loaded = importlib.import_module(module)
    listed: list[str] | None = getattr(loaded, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if not name.startswith("_"))
    return [name for name, value in vars(loaded).items() if _defined(value, module) and not name.startswith("_")]


def _defined(value: Any, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module


def public_names() -> str:
    """A section for each module, with what its docstrings say; a name that several list is under the first."""
    parts: list[str] = []
    shown: set[int] = set()
    for module in PUBLIC:
        directives = []
        for name in names_of(module):
            value = getattr(importlib.import_module(module), name)
            if id(value) not in shown and not inspect.ismodule(value):
                shown.add(id(value))
                directives.append(_directive(f"{module}.{name}", value))
        if directives:
            parts.append(f"## {module}\n\n```{{eval-rst}}\n" + "\n".join(directives) + "```\n")
    return "\n".join(parts)


def _directive(name: str, value: Any) -> str:
    """What asks autodoc for one name; an estimator is shown with all methods that it has from classes of ours."""
    if not inspect.isclass(value):
        return f".. {'autofunction' if callable(value) else 'autodata'}:: {name}\n"
    ours = value.__module__.startswith("deltaplane.estimators.") and not issubclass(value, Exception)
    return f".. autoclass:: {name}\n" + (f"   :inherited-members: {_NOT_OURS}\n" if ours else "")
