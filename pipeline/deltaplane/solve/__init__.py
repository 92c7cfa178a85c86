"""Solving: from exact statistics to separating planes.

May import: ``exact``, ``maps`` and what stands before them. Gives: the solver of one plane, the candidates of the
automatic mode with their blend, cross-validation over C from the statistics alone, and planes after every row.
"""

from __future__ import annotations
