"""The intake of a user's own topics: records are read, joined with labels that come later, and published as samples.

May import: the core, ``readers``, ``definition_file`` and ``processors``. Gives: the processor of one partition, its
store of events that wait, and the reader of records. A form of records is one module in ``formats``.
"""

from __future__ import annotations
