"""The log: deltas and the rule by which they are accepted, the merger that adds them, models and their scores.

May import: ``window`` and the packages before it. Gives: :class:`~deltaplane.log.delta.Delta` and its acceptance,
:class:`~deltaplane.log.merger.Merger`, :class:`~deltaplane.log.model.Model`, answers to rows, and the other records
that processes exchange.
"""

from __future__ import annotations
