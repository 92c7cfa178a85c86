"""Tasks of an operator: topics, access, audits, retirements, copies, backups, sources, trims, new grids, predictions.

May import: everything below the command line, except ``replay``. Gives: one module for each task, called by ``cli``.
"""

from __future__ import annotations
