"""How many threads BLAS has while something here is calculated: one, unless the settings say more.

The problem: matrices here have a few hundred columns. BLAS spreads a product or a factorisation of them over all cores,
where its threads wait for each other longer than they multiply: on a busy machine a hundred times as long. And a
Cholesky factorisation that is shared out has other last bits, so that planes of 128 features and more would depend on
the number of cores. Statistics and digests never do: their products are exact in any order.

How it is solved: the number is set for a block, and then put back, since it belongs to the whole process, and that may
be somebody else's. Blocks of several threads may overlap: the last one to end puts it back. A limit that the caller
holds by threadpoolctl in another thread stands, and a block within it changes nothing.

threadpoolctl comes with the extras that have processes or estimators; the rest of the core loads without this module.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own, and one that is not loaded yet is not found.
from threadpoolctl import OpenBLASController, ThreadpoolController

__all__ = ["blas_threads"]


class _Threads:
    """The blocks that have begun, by what they ask for, and what each library had before the first of them.

    ``ours``: the libraries have what the newest block asks for because it was set here.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked: dict[object, int] = {}
        self._before: list[int] = []
        self._ours = False

    @functools.cached_property
    def _libraries(self) -> list[Any]:
        # Looking for them takes a thousand times as long as limiting them.
        return list(ThreadpoolController().select(user_api="blas").lib_controllers)

    def begin(self, block: object, threads: int) -> None:
        with self._lock:
            if not self._asked:
                self._before = self._now()
            self._asked[block] = threads
            self._settle()

    def end(self, block: object) -> None:
        with self._lock:
            del self._asked[block]
            if self._ours:
                self._settle()
            if not self._asked and self._ours:
                OpenBLASController.clear_controlling_thread(force=True)
                self._ours = False

    def _now(self) -> list[int]:
        return [library.get_num_threads() for library in self._libraries]

    def _settle(self) -> None:
        threads = next(reversed(self._asked.values()), 0)
        wanted = [threads or before for before in self._before]
        if wanted == self._now():
            return
        if self._ours:
            # threadpoolctl lets only the thread that made the first change make others, and that thread may have ended.
            OpenBLASController.clear_controlling_thread(force=True)
        for library, number in zip(self._libraries, wanted, strict=True):
            library.set_num_threads(number)
        self._ours = self._now() == wanted


_THREADS = _Threads()


@contextmanager
def blas_threads(threads: int = 1) -> Iterator[None]:
    """Within the block, or the function that this decorates, BLAS has so many threads; 0: as many as without it.

    Of blocks that overlap, the one that began last decides.
    """
    block = object()
    _THREADS.begin(block, threads)
    try:
        yield
    finally:
        _THREADS.end(block)
