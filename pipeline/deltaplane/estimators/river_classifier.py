"""An estimator that learns row by row as River's classifiers do; River is imported here and nowhere else."""

from __future__ import annotations

from typing import Any, Protocol

from deltaplane.public_names import extra_needed

with extra_needed("AutomaticProximalSVM.for_river", "river"):
    from river import base

__all__ = ["LearnsRows", "RiverClassifier"]


class LearnsRows(Protocol):
    """What learns and predicts one row by name."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn one row."""

    def predict_one(self, x: dict[str, Any]) -> Any:
        """The class of one row; None before there is a plane."""


class RiverClassifier(base.Classifier):  # type: ignore[misc]
    """``model`` for River's pipelines and ``progressive_val_score``: it learns and answers, and this passes it on."""

    def __init__(self, model: LearnsRows) -> None:
        self.model = model

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn one row by name."""
        self.model.learn_one(x, y)

    def predict_one(self, x: dict[str, Any]) -> Any:
        """The class of one row by name; None before there is a plane, which River's metrics pass over."""
        return self.model.predict_one(x)
