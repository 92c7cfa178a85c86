"""Exact arithmetic: the fixed-point grid, and class statistics as integers that add and subtract without rounding.

May import: ``limits`` and ``errors``. Gives: :class:`~deltaplane.exact.grid.Grid`, which quantizes values to integers;
:class:`~deltaplane.exact.moments.Moments`, a Gram matrix of 128-bit integers; and
:class:`~deltaplane.exact.statistics.Statistics`, one Gram matrix for each window and class, with a digest of them all.
"""

from __future__ import annotations
