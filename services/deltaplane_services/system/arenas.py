"""Limits on the memory that a service keeps without using it.

The problem: the broker's client has a thread for every broker and every client, and glibc gives each thread an arena of
its own, up to eight for each core. Memory that is freed in an arena stays there, so that each arena keeps the most that
it ever held. A service grows with every takeover until all arenas have grown: 40 MB in 15 arenas after an hour of
restarts. How it is solved: two arenas serve as well, since Python lets one thread run at a time. And memory that is
freed in the middle of an arena, such as the window of a source that another worker has taken, is given back explicitly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

__all__ = ["ARENAS", "keep_few_arenas", "trim_memory"]

_M_ARENA_MAX = -8
"""The option's number in glibc's malloc.h."""

ARENAS = 2


def keep_few_arenas() -> bool:
    """Whether this process is limited to :data:`ARENAS` arenas now; to call before its threads begin.

    It is False if the C library has no arenas.
    """
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, ARENAS))


def trim_memory() -> bool:
    """Whether all unused pages have been given back to the system; False if the C library cannot do that."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True


def _of_glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc by its name, or None if the C library does not have it."""
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
