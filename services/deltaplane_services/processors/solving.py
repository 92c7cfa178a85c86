"""Which solver settings a merger has, and whether the last model was made with others.

Solver settings may differ between the mergers of a stream: that is how they are changed while it is live. But a merger
that stands by with a forgotten definition brings its old settings back when it is elected, and no fingerprint objects.
So a merger that goes on with others than those of the last model says so, and every merger exports a short digest of
its own, by which those that differ are found before one of them is elected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from deltaplane.log.model import Model
from deltaplane.solve.candidates import Choice
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition

__all__ = ["DIGEST_CHARACTERS", "solver_changed", "solver_digest"]

DIGEST_CHARACTERS = 8


def solver_digest(definition: StreamDefinition) -> str:
    """Eight hexadecimal digits over all that may differ between the mergers of a stream: solver settings and prior."""
    tables = definition.to_tables()
    text = json.dumps([tables["solver"], tables["prior"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def solver_changed(definition: StreamDefinition, last: Model) -> str | None:
    """How the last model was solved and how the next will be, or None where that is the same.

    A model does not carry the prior it was drawn to, so another prior alone is not seen here.
    """
    blended = last.blend is not None
    # Without a plane there are no candidates that could tell whether one was solved for or several.
    same_mode = last.plane is None or blended == definition.automatic
    same_choices = last.blend is None or last.blend.choices == definition.choices_tried
    if last.options == definition.solver and same_mode and same_choices:
        return None
    before = _in_words(last.options, () if last.blend is None else last.blend.choices)
    after = _in_words(definition.solver, definition.choices_tried if definition.automatic else ())
    return f"{before}; from now on {after}"


def _in_words(options: SolverOptions, choices: Sequence[Choice]) -> str:
    weightings = list(dict.fromkeys(choice.weighting for choice in choices))
    given = options.weighting if isinstance(options.weighting, str) else json.dumps(dict(options.weighting))
    return ", ".join(
        (
            options.kind,
            f"C {' '.join(f'{C:g}' for C in dict.fromkeys(choice.C for choice in choices)) or f'{options.C:g}'}",
            f"weighting {given if weightings in ([], ['explicit']) else ' '.join(weightings)}",
            "standardized" if options.standardize else "raw units",
            f"bias {options.bias}",
        )
    )
