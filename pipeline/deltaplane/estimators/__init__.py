"""The classifiers of this package as scikit-learn estimators, with exact unlearning and merging.

scikit-learn is imported here and nowhere else in the core: install ``deltaplane[estimators]``.
"""

from __future__ import annotations

from deltaplane.errors import RowsRefused
from deltaplane.public_names import extra_needed

with extra_needed("deltaplane.estimators", "estimators"):
    from deltaplane.estimators.automatic import AutomaticProximalSVM
    from deltaplane.estimators.exported import ExportedClassifier
    from deltaplane.estimators.extreme import ExtremeSVM
    from deltaplane.estimators.least_squares import LeastSquaresSVM
    from deltaplane.estimators.proximal import ProximalSVM
    from deltaplane.estimators.rows_given import RefusedRow, RowsLeftOut
    from deltaplane.estimators.sliding import SlidingProximalSVM
    from deltaplane.estimators.updatable_kernel import UpdatableKernelSVM

__all__ = [
    "AutomaticProximalSVM",
    "ExportedClassifier",
    "ExtremeSVM",
    "LeastSquaresSVM",
    "ProximalSVM",
    "RefusedRow",
    "RowsLeftOut",
    "RowsRefused",
    "SlidingProximalSVM",
    "UpdatableKernelSVM",
]
