"""Feature maps: curved planes from the same exact statistics.

May import: ``exact`` and what stands before it. Gives: :class:`~deltaplane.maps.feature_maps.FeatureMap`, from grid
rows to grid rows, and the random numbers and elementary functions that are the same bits on every machine.
"""

from __future__ import annotations
