"""The log: deltas and the rule by which they are accepted, the merger that adds them, models and their scores.

May import: ``window`` and what stands before it. Gives: :class:`~deltaplane.log.delta.Delta` and its acceptance,
:class:`~deltaplane.log.merger.MergerState`, :class:`~deltaplane.log.model.Model`, answers to rows, and every other
record that passes between processes.
"""

from __future__ import annotations
