"""Tables with mixed columns: numbers, texts, booleans and times become rows of numbers, by declared rules.

May import: ``maps`` and the packages before it. Gives: :class:`~deltaplane.columns.encoder.Encoder`, a pure function of
one row, the same on every machine, and :func:`~deltaplane.columns.inference.infer`, which proposes its rules from the
first rows.
"""

from __future__ import annotations
