"""The last rows of a stream: which rows leave when others come, and which rows are held then.

A window is immutable: a caller that finds that new rows cannot be learned still has the window before them. Rows are
copied only to join small blocks, as in a binary counter: each block but the rest of the oldest is at least twice as
long as the next. So rows that come one at a time make few blocks, and each row is copied a few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Steps

__all__ = ["LastRows", "Rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows: ``quantized`` [n, d] on the grid, and their ``labels`` [n], codes or texts."""

    quantized: Steps
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.quantized[part], self.labels[part])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts in their order; they are not copied if there is just one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([part.quantized for part in parts]), np.concatenate([part.labels for part in parts]))


@dataclass(frozen=True, eq=False)
class LastRows:
    """The last ``length`` rows, in ``blocks``, oldest first. If ``length`` is None, no row leaves and none is held."""

    length: int | None
    blocks: tuple[Rows, ...] = ()

    def moved_on(self, coming: Rows) -> tuple[Rows, LastRows]:
        """The rows that leave when ``coming`` rows come, in their order, and the window after that.

        Some of the coming rows leave, too, if they are more than the window holds. More rows may leave than come, if
        the blocks were those of a longer window.
        """
        if self.length is None:
            return coming[:0], self
        held, gone = [*self.blocks, coming], list[Rows]()
        excess = sum(map(len, held)) - self.length
        while excess > 0:
            oldest = held.pop(0)
            gone.append(oldest[:excess])
            if excess < len(oldest):
                held.insert(0, oldest[excess:])
            excess -= len(oldest)
        at, together = len(held) - 1, len(held[-1])
        while at and len(held[at - 1]) < 2 * together:
            at -= 1
            together += len(held[at])
        held[at:] = [Rows.joined(held[at:])]
        return Rows.joined(gone or [coming[:0]]), LastRows(self.length, tuple(held))
