"""What the largest messages of a stream may take: a definition whose messages cannot fit is refused at start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltaplane import limits
from deltaplane.errors import DefinitionError

__all__ = ["MessageSize"]


@dataclass(frozen=True)
class MessageSize:
    """What the largest messages of a stream may take before compression, part by part, in bytes.

    ``classes``, ``windows`` and ``choices`` as expected, ``cell`` bytes a score. A delta carries a Gram matrix for
    each class and window, and what each candidate made of its samples; a model carries the candidates.
    ``score_bytes``: of the histograms of a candidate's scores, where there are any.
    """

    classes: int
    windows: int
    dimension: int
    cell: int
    choices: int
    score_bytes: int = 0

    @classmethod
    def of(cls, classes: Sequence[str], windows: int, dimension: int, choices: int) -> MessageSize:
        """That of a stream with these classes, and so many windows and choices; no choices without candidates.

        Of open classes, or one against all others, nobody knows the names; two are the least that make a problem.
        """
        cell = 2 * max((len(name.encode()) for name in classes), default=limits.LABEL_BYTES) + limits.CELL_BYTES
        return cls(max(2, len(classes)), windows, dimension, cell, choices)

    @classmethod
    def most_classes(cls, windows: int, dimension: int) -> int:
        """How many open classes may be told apart: as many as fit a message, whatever their names and the solver.

        The solver may change on a live stream, and which rows are admitted must not change with it.
        """
        fits, beyond = 2, limits.CLASSES + 1
        while beyond - fits > 1:
            classes = (fits + beyond) // 2
            cell = 2 * limits.LABEL_BYTES + limits.CELL_BYTES
            size = cls(classes, windows, dimension, cell, limits.CHOICES)
            # A checkpoint carries the labels once more, in the order in which they were admitted.
            if max(size.delta + classes * cell, size.model) <= limits.MESSAGE_BYTES:
                fits = classes
            else:
                beyond = classes
        return fits

    @classmethod
    def most_windows(cls, classes: Sequence[str], dimension: int, most_classes: int) -> int:
        """How many windows may have statistics in one delta, if all else is as large as it can be.

        ``most_classes``: so many open classes are to be told apart.
        """
        for windows in range(limits.WINDOWS, 1, -1):
            size = cls.of(classes, windows, dimension, limits.CHOICES)
            if size.delta <= limits.MESSAGE_BYTES and cls.most_classes(windows, dimension) >= most_classes:
                return windows
        return 1

    @property
    def delta(self) -> int:
        """Bytes of a delta, or of a checkpoint."""
        entries = self.dimension * (self.dimension + 1) // 2
        moments = self.classes * self.windows * (entries * 16 + self.cell)
        return moments + self._scores + self._candidates * 6 * 8 + self._histograms + limits.DELTA_BYTES_BESIDE

    @property
    def model(self) -> int:
        """Bytes of a model beside the positions of its sources."""
        planes = (self._candidates + self.classes) * (self.dimension + 9) * 8
        return planes + self._scores + self._histograms + limits.DELTA_BYTES_BESIDE

    @property
    def _scores(self) -> int:
        return self.classes**2 * self.cell

    @property
    def _histograms(self) -> int:
        # The blended plane of each class has them, too, and its units travel along.
        return (self._candidates + self.classes) * (self.score_bytes + 16) if self.score_bytes else 0

    @property
    def _candidates(self) -> int:
        return self.classes * self.windows * self.choices

    def most_with(self, most: int, bytes_each: int) -> int:
        """Up to ``most`` classes: as many as messages have room for, or this stream's own, with so many bytes more."""
        for classes in range(most, 0, -1):
            size = replace(self, classes=max(2, min(classes, self.classes)))
            if max(size.delta, size.model) + classes * bytes_each <= limits.MESSAGE_BYTES:
                return classes
        return 0

    def check(self) -> None:
        """Raise :class:`DefinitionError` with the sum where one does not fit a message."""
        entries = self.dimension * (self.dimension + 1) // 2
        tried = f" + {self._candidates} candidates x 48 bytes" if self.choices else ""
        tried += f" + {self._histograms:,} bytes of scores" if self.score_bytes else ""
        if self.delta > limits.MESSAGE_BYTES:
            raise DefinitionError(
                f"a delta of this stream may take {self.classes} classes x {self.windows} windows x ({entries} entries"
                f" x 16 bytes + {self.cell}) + {self.classes} x {self.classes} scores x {self.cell} bytes{tried}"
                f" + {limits.DELTA_BYTES_BESIDE:,} = {self.delta:,} bytes, more than the {limits.MESSAGE_BYTES:,}"
                " that a message may have; use fewer features, classes or windows"
            )
        if self.model > limits.MESSAGE_BYTES:
            raise DefinitionError(
                f"a model of this stream may take {self._candidates} candidates x {8 * (self.dimension + 9)} bytes and"
                f" more, {self.model:,} bytes in all, above the {limits.MESSAGE_BYTES:,} that a message may have;"
                " use fewer features, classes, windows or choices"
            )
