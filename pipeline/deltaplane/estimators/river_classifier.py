"""An adapter from estimators that learn row by row to River's classifiers; only this module imports River."""

from __future__ import annotations

from typing import Any, Protocol

from deltaplane.public_names import extra_needed

with extra_needed("AutomaticProximalSVM.for_river", "river"):
    from river import base

__all__ = ["LearnsRows", "RiverClassifier"]


class LearnsRows(Protocol):
    """An estimator that learns and predicts one row by name."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn one row."""

    def predict_one(self, x: dict[str, Any]) -> Any:
        """The class of one row, or None before there is a plane."""


class RiverClassifier(base.Classifier):  # type: ignore[misc]
    """A River classifier for pipelines and ``progressive_val_score``, which passes all calls on to ``model``."""

    def __init__(self, model: LearnsRows) -> None:
        self.model = model

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn one row by name."""
        self.model.learn_one(x, y)

    def predict_one(self, x: dict[str, Any]) -> Any:
        """The class of one row by name, or None before there is a plane; River's metrics skip None."""
        return self.model.predict_one(x)
