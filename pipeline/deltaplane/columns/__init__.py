"""Tables as people have them: columns of numbers, texts, booleans and times become rows of numbers, by declared rules.

May import: ``maps`` and ``exact``. Gives: :class:`~deltaplane.columns.encoder.Encoder`, a pure function of one row,
the same on every machine, and :func:`~deltaplane.columns.inference.infer`, which decides its rules from first rows.
"""

from __future__ import annotations
