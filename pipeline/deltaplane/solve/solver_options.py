"""Which plane to solve for: kind, class weighting, C, units of the penalty, bias."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from deltaplane.errors import DefinitionError

__all__ = ["BIASES", "KINDS", "WEIGHTINGS", "Bias", "Kind", "SolverKind", "SolverOptions", "Weighting"]

Kind = Literal["wlpsvm", "lpsvm", "lssvm"]
Weighting = Literal["default", "inverse", "none", "balanced"] | Mapping[str, float]
Bias = Literal["default", "regularised", "free", "none"]


BIASES = ("regularised", "free", "none")
WEIGHTINGS = ("inverse", "none", "balanced")


@dataclass(frozen=True)
class SolverKind:
    """A kind of solver: its ``biases``, of which the first is the default, and its default ``weighting``.

    ``source``: the papers that it is from. ``weighted``: whether it may have another weighting.
    """

    source: str
    biases: tuple[Bias, ...]
    weighting: Literal["inverse", "none"]
    weighted: bool = True


KINDS: Mapping[str, SolverKind] = {
    "wlpsvm": SolverKind("papers 1 and 4", ("regularised",), "inverse"),
    "lpsvm": SolverKind("the same with σ = 1", ("regularised",), "none", weighted=False),
    "lssvm": SolverKind("paper 2, eq. 2; ρ is 1/C", ("none", "free"), "none"),
}
"""Every kind of solver, by its name in definitions."""


@dataclass(frozen=True)
class SolverOptions:
    """Which plane to solve for. Raises :class:`DefinitionError` if an option is not valid or does not fit the others.

    - ``kind``: one of :data:`KINDS`.
    - ``weighting``: ``inverse`` (σ of a side is the other side's share; paper 1, eq. 17), ``none`` (σ = 1),
      ``balanced`` (σ = n / (2 n_side)), or a weight for each class label. By default ``inverse`` for ``wlpsvm``, else
      ``none``.
    - ``C``: the papers' C, finite and above zero. ``standardize``: penalise in standardized units, or in raw ones.
    - ``bias``: ``regularised`` (b is penalised like w; the LPSVMs have no other), or for ``lssvm`` ``none`` (its
      default, paper 2: no bias in the units that ``standardize`` chooses) or ``free`` (Suykens: b is not penalised).

    Defaults are resolved on creation, so options with the same meaning are equal.
    """

    kind: Kind = "wlpsvm"
    weighting: Weighting = "default"
    C: float = 1.0
    standardize: bool = True
    bias: Bias = "default"

    def __post_init__(self) -> None:
        _check_choice("kind", self.kind, tuple(KINDS))
        _check_choice("bias", self.bias, ("default", *BIASES))
        kind = KINDS[self.kind]
        if self.bias == "default":
            object.__setattr__(self, "bias", kind.biases[0])
        elif self.bias not in kind.biases:
            known = ", ".join(f"{name!r} has {_either(other.biases)}" for name, other in KINDS.items())
            raise DefinitionError(
                f"solver: kind {self.kind!r} cannot have bias {self.bias!r}; {known}; leave the bias out, or change the"
                " kind"
            )
        if isinstance(self.weighting, Mapping):
            object.__setattr__(self, "weighting", _checked_weights(self.weighting))
        else:
            _check_choice("weighting", self.weighting, ("default", *WEIGHTINGS))
        if self.weighting == "default":
            object.__setattr__(self, "weighting", kind.weighting)
        elif not kind.weighted and self.weighting != kind.weighting:
            raise DefinitionError(
                f"solver: kind {self.kind!r} has no class weights, got {self.weighting!r}; use"
                f" {next(name for name, other in KINDS.items() if other.weighted)!r}, or weighting {kind.weighting!r}"
            )
        _check_choice("standardize", self.standardize, (True, False))
        object.__setattr__(self, "C", _positive_number("C", self.C))


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(map(repr, choices))


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise DefinitionError(f"solver: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _positive_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < math.inf:
        raise DefinitionError(f"solver: {name} must be a finite number above zero, got {value!r}")
    return float(value)


def _checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Explicit class weights as a dictionary of floats, sorted by label."""
    if not weights or not all(isinstance(label, str) for label in weights):
        raise DefinitionError(f"solver: explicit weights must be given by class label (text), got {dict(weights)!r}")
    return {label: _positive_number(f"the weight of class {label!r}", weights[label]) for label in sorted(weights)}
