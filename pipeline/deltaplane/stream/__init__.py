"""A stream as data: its definition, its samples, and where in the log each sample belongs.

May import: ``exact``, ``maps``, ``solve`` and what stands before them. Gives:
:class:`~deltaplane.stream.definition.StreamDefinition` with its fingerprints, and samples and retirements as they are
admitted. Whatever is read from the tables of a definition file is read here.
"""

from __future__ import annotations
