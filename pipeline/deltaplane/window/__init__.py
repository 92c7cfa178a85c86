"""Windows: the live rows of one partition, and the exact change that each step makes to the statistics.

May import: ``stream`` and what stands before it. Gives: :class:`~deltaplane.window.partition.Partition`, which takes
samples, retirements and a watermark, and returns how the statistics of each window changed, with the outcome of every
sample and retirement.
"""

from __future__ import annotations
