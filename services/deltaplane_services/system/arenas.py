"""How much memory a service keeps that it does not use.

The broker's client has a thread for every broker and every client, and glibc gives each thread an arena of its own, up
to eight a core. What is freed in an arena stays there, so each keeps the most that it ever held, and a service grows
with every takeover until all have had theirs: 40 MB in 15 arenas after an hour of restarts. Two arenas serve as well,
since Python lets one thread run at a time. And what is freed in the midst of an arena stays there, too, until it is
asked for: the window of a source that another worker has taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

__all__ = ["ARENAS", "give_back_what_is_free", "keep_few_arenas"]

_M_ARENA_MAX = -8
"""The option's number in glibc's malloc.h."""

ARENAS = 2


def keep_few_arenas() -> bool:
    """Limit this process to :data:`ARENAS` arenas, before its threads begin; False where the C library has none."""
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, ARENAS))


def give_back_what_is_free() -> bool:
    """Give the system back all pages on which nothing is held; False where the C library cannot."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True


def _of_glibc(name: str) -> Callable[..., int] | None:
    """A function that other C libraries do not have."""
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
