"""How much memory a service's threads keep for themselves.

The broker's client has a thread for every broker and every client, and glibc gives each thread an arena of its own, up
to eight a core. What is freed in an arena stays there, so each keeps the most that it ever held, and a service grows
with every takeover until all have had theirs: 40 MB in 15 arenas after an hour of restarts. Two arenas serve as well,
since Python lets one thread run at a time.
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""The option's number in glibc's malloc.h."""

ARENAS = 2


def keep_few_arenas() -> bool:
    """Limit this process to :data:`ARENAS` arenas, before its threads begin; False where the C library has none."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Another C library, which has no such function.
        return False
    return bool(mallopt(_M_ARENA_MAX, ARENAS))
