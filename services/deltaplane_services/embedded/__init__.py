"""The embedded broker, and a runner that drives all processors over it in one thread, in a seeded order.

May import: the core and ``processors``. Gives: the whole pipeline in one process, as replay and tests use it.
"""

from __future__ import annotations
