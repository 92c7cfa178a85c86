"""Exact arithmetic: the fixed-point grid, and class statistics as integers that add and subtract without rounding.

May import: ``limits`` and ``errors``. Gives: :class:`~deltaplane.exact.grid.Grid`, which makes values integers;
:class:`~deltaplane.exact.moments.Moments`, Gram matrices of 128-bit integers; and
:class:`~deltaplane.exact.statistics.Statistics`, one of them for each window and class, with their digest.
"""

from __future__ import annotations
