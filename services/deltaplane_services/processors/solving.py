"""The solver settings of a merger, compared with those of the last model.

The solver settings of a stream's mergers may differ: that is how settings are changed while the stream is live. But a
merger that stands by with an old definition brings old settings back when it is elected, and no fingerprint shows that.
So a merger logs it if its settings are not those of the last model. And every merger exports a short digest of its
settings, so that a difference is found before an election.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from deltaplane.log.model import Model
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.prequential_counts import Choice
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition

__all__ = ["DIGEST_CHARACTERS", "solver_changed", "solver_digest"]

DIGEST_CHARACTERS = 8


def solver_digest(definition: StreamDefinition) -> str:
    """Eight hexadecimal digits of a hash of all that may differ between mergers of a stream: solver settings, prior."""
    tables = definition.to_tables()
    text = json.dumps([tables["solver"], tables["prior"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def solver_changed(definition: StreamDefinition, last: Model) -> str | None:
    """How the last model was solved, and how the next will be, in words; None if that is the same.

    A model does not record its prior, so that another prior alone is not found here.
    """
    blended = last.blend is not None
    # A model without a plane has no candidates, so that it does not show which mode it was solved in.
    same_mode = last.plane is None or blended == definition.automatic
    same_choices = last.blend is None or last.blend.choices == definition.choices_tried
    same_objective = last.plane is None or last.objective == definition.objective
    if last.options == definition.solver and same_mode and same_choices and same_objective:
        return None
    before = _in_words(last.options, () if last.blend is None else last.blend.choices, last.objective)
    after = _in_words(definition.solver, definition.choices_tried if definition.automatic else (), definition.objective)
    return f"{before}; from now on {after}"


def _in_words(options: SolverOptions, choices: Sequence[Choice], objective: Objective) -> str:
    weightings = list(dict.fromkeys(choice.weighting for choice in choices))
    given = options.weighting if isinstance(options.weighting, str) else json.dumps(dict(options.weighting))
    return ", ".join(
        (
            options.kind,
            f"C {' '.join(f'{C:g}' for C in dict.fromkeys(choice.C for choice in choices)) or f'{options.C:g}'}",
            f"weighting {given if weightings in ([], ['explicit']) else ' '.join(weightings)}",
            "standardized" if options.standardize else "raw units",
            f"bias {options.bias}",
            *(() if objective == GMEAN else (f"for {objective}",)),
        )
    )
