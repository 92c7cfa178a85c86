"""Feature maps: curved decision surfaces from the same exact statistics.

May import: ``exact`` and the packages before it. Gives: :class:`~deltaplane.maps.feature_maps.FeatureMap`, from grid
rows to grid rows, and random numbers and elementary functions that are the same bits on every machine.
"""

from __future__ import annotations
