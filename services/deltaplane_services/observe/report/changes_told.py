"""Falls of quality and drifts of features, read from a summary."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane_services.observe.report.json_fields import Fields

__all__ = ["DriftTold", "FallTold", "FeatureTold", "drift_told", "fall_told"]

_KINDS = {"windows": "window", "C": "C", "weightings": "weighting", "cuts": "cut"}


@dataclass(frozen=True)
class FeatureTold:
    """A feature that shifted: by how many standard deviations, and the factor of its spread; NaN if it was constant."""

    name: str
    shift: float
    spread: float


@dataclass(frozen=True)
class FallTold:
    """Rows in which the recall of a class fell, and what differed from before; pairs are (before, during)."""

    rows_from: int
    rows_to: int
    label: str
    chance: float
    recalls: tuple[float, float]
    gmeans: tuple[float, float]
    ratios: tuple[float, float]
    features: tuple[FeatureTold, ...]
    features_of_class: tuple[FeatureTold, ...]
    blend: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class DriftTold:
    """A row up to which features had shifted."""

    row: int
    features: tuple[FeatureTold, ...]


def fall_told(part: Fields) -> FallTold:
    """A fall, read from a summary."""
    sides = part.part("before"), part.part("during")
    return FallTold(
        rows_from=part.whole("rows_from"),
        rows_to=part.whole("rows_to"),
        label=part.text("class"),
        chance=part.number("chance"),
        recalls=(part.number("recall_before"), part.number("recall_during")),
        gmeans=(sides[0].number("gmean"), sides[1].number("gmean")),
        ratios=(sides[0].number("imbalance_ratio"), sides[1].number("imbalance_ratio")),
        features=_features(part, "features"),
        features_of_class=_features(part, "features_of_class"),
        blend=tuple(
            (f"{_KINDS.get(one.text('kind'), '')} {one.text('choice')}", one.number("before"), one.number("during"))
            for one in part.parts("blend")
        ),
    )


def drift_told(part: Fields) -> DriftTold:
    """A drift, read from a summary."""
    return DriftTold(part.whole("row"), _features(part, "features"))


def _features(part: Fields, key: str) -> tuple[FeatureTold, ...]:
    parts = part.parts(key)
    return tuple(FeatureTold(one.text("feature"), one.number("shift"), one.number("spread")) for one in parts)
