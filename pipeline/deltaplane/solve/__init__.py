"""Solving: from exact statistics to separating planes.

May import: ``exact``, ``maps`` and the packages before them. Gives: the solver of one plane, the candidates of the
automatic mode and their blend, cross-validation over C from the statistics alone, and the planes before every row.
"""

from __future__ import annotations
