"""Work beside a run, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """Goes on until it is told to stop: :meth:`_work` looks at ``_stopping``, and ends where that is set."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do no more, and wait until what was begun is done."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _work(self) -> None:
        """What is done in the thread."""
