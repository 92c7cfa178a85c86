"""A stream as data: its definition, its samples, and the partition that each sample belongs to.

May import: ``exact``, ``maps``, ``solve``, ``columns`` and the packages before them. Gives:
:class:`~deltaplane.stream.definition.StreamDefinition` with its fingerprints, the samples and retirements that a stream
admits, and the readers of the tables of a definition file.
"""

from __future__ import annotations
