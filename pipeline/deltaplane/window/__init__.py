"""Windows: the live rows of one partition, and the exact change that each step makes to the statistics.

May import: ``stream`` and what stands before it. Gives: :class:`~deltaplane.window.partition.Partition`, which takes
samples, retirements and time, and returns what entered and what left each window; and the outcome of each of them.
"""

from __future__ import annotations
