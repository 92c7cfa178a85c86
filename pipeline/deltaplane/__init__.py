"""Deltaplane: an exact classifier on a stream, whose statistics add, subtract and merge bit for bit.

This package is the pure core: it decides, and the services around it do. Nothing in here reads a clock, a network, an
environment or a random number. Importing this module loads nothing else, not even NumPy: what it offers is loaded when
it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane.public_names import PublicNames

if TYPE_CHECKING:
    from deltaplane.errors import (
        DefinitionError,
        DefinitionMismatch,
        DeltaplaneError,
        ExtraMissing,
        LimitExceeded,
        SolveRefused,
        StateMismatch,
        WireError,
    )
    from deltaplane.estimators import (
        AutomaticProximalSVM,
        ExportedClassifier,
        ExtremeSVM,
        LeastSquaresSVM,
        ProximalSVM,
        RefusedRow,
        RowsLeftOut,
        RowsRefused,
        SlidingProximalSVM,
        UpdatableKernelSVM,
    )
    from deltaplane.exact.grid import Grid, fit_grid
    from deltaplane.exact.moments import Moments
    from deltaplane.exact.statistics import Statistics
    from deltaplane.log.model import Model
    from deltaplane.solve.solver import Plane
    from deltaplane.stream.definition import StreamDefinition

    def replay(table: Any, **keywords: Any) -> Any:
        """What the services announce; the core takes no types from them."""


__version__ = "0.1.0"

__all__ = [
    "AutomaticProximalSVM",
    "DefinitionError",
    "DefinitionMismatch",
    "DeltaplaneError",
    "ExportedClassifier",
    "ExtraMissing",
    "ExtremeSVM",
    "Grid",
    "LeastSquaresSVM",
    "LimitExceeded",
    "Model",
    "Moments",
    "Plane",
    "ProximalSVM",
    "RefusedRow",
    "RowsLeftOut",
    "RowsRefused",
    "SlidingProximalSVM",
    "SolveRefused",
    "StateMismatch",
    "Statistics",
    "StreamDefinition",
    "UpdatableKernelSVM",
    "WireError",
    "__version__",
    "fit_grid",
    "replay",
]

_MODULES = {
    "deltaplane.errors": (
        "DefinitionError DefinitionMismatch DeltaplaneError ExtraMissing LimitExceeded SolveRefused StateMismatch"
        " WireError"
    ),
    "deltaplane.estimators": (
        "AutomaticProximalSVM ExportedClassifier ExtremeSVM LeastSquaresSVM ProximalSVM RefusedRow RowsLeftOut"
        " RowsRefused SlidingProximalSVM UpdatableKernelSVM"
    ),
    "deltaplane.exact.grid": "Grid fit_grid",
    "deltaplane.exact.moments": "Moments",
    "deltaplane.exact.statistics": "Statistics",
    "deltaplane.log.model": "Model",
    "deltaplane.solve.solver": "Plane",
    "deltaplane.stream.definition": "StreamDefinition",
}

_NAMES = PublicNames(
    package=__name__,
    homes={name: module for module, names in _MODULES.items() for name in names.split()},
    extra="estimators",
    renamed={},
    elsewhere=dict.fromkeys(("LiveModel", "SampleProducer"), "deltaplane_services"),
    announced={"replay": "services"},
)

# Hidden from type checkers: to them it would say that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return _NAMES.find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
