"""The sizes of the largest messages of a stream: a definition whose messages could not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltaplane import limits
from deltaplane.errors import DefinitionError

__all__ = ["MessageSize"]


@dataclass(frozen=True)
class MessageSize:
    """The sizes of the largest messages of a stream before compression, in bytes, from the numbers of their parts.

    ``classes``, ``windows`` and ``choices``: their numbers. ``cell``: bytes of one cell of a confusion. A delta carries
    a Gram matrix for each class and window, and the counts of each candidate; a model carries the candidates.
    ``score_bytes``: bytes of the histograms of a candidate's scores, or 0 if there are none.
    """

    classes: int
    windows: int
    dimension: int
    cell: int
    choices: int
    score_bytes: int = 0

    @classmethod
    def of(cls, classes: Sequence[str], windows: int, dimension: int, choices: int) -> MessageSize:
        """The sizes for a stream with these classes, windows and choices (0 without candidates).

        ``classes`` is empty if names are not known: then names of the largest length, and two classes, are assumed.
        """
        cell = 2 * max((len(name.encode()) for name in classes), default=limits.LABEL_BYTES) + limits.CELL_BYTES
        return cls(max(2, len(classes)), windows, dimension, cell, choices)

    @classmethod
    def most_classes(cls, windows: int, dimension: int) -> int:
        """The number of open classes that fit a message with names of any length and any solver settings.

        The solver may change on a live stream, and the rows admitted must not change with it.
        """
        fits, beyond = 2, limits.CLASSES + 1
        while beyond - fits > 1:
            classes = (fits + beyond) // 2
            cell = 2 * limits.LABEL_BYTES + limits.CELL_BYTES
            size = cls(classes, windows, dimension, cell, limits.CHOICES)
            # A checkpoint carries the labels again, in the order of their admission.
            if max(size.delta + classes * cell, size.model) <= limits.MESSAGE_BYTES:
                fits = classes
            else:
                beyond = classes
        return fits

    @classmethod
    def most_windows(cls, classes: Sequence[str], dimension: int, most_classes: int) -> int:
        """The number of windows whose statistics fit one delta, if all other parts have their largest size.

        ``most_classes``: the number of open classes that must fit, too.
        """
        for windows in range(limits.WINDOWS, 1, -1):
            size = cls.of(classes, windows, dimension, limits.CHOICES)
            if size.delta <= limits.MESSAGE_BYTES and cls.most_classes(windows, dimension) >= most_classes:
                return windows
        return 1

    @property
    def delta(self) -> int:
        """The bytes of a delta, or of a checkpoint."""
        entries = self.dimension * (self.dimension + 1) // 2
        moments = self.classes * self.windows * (entries * 16 + self.cell)
        return moments + self._scores + self._candidates * 6 * 8 + self._histograms + limits.DELTA_BYTES_BESIDE

    @property
    def model(self) -> int:
        """The bytes of a model without the positions of its sources."""
        planes = (self._candidates + self.classes) * (self.dimension + 9) * 8
        return planes + self._scores + self._histograms + limits.DELTA_BYTES_BESIDE

    @property
    def _scores(self) -> int:
        return self.classes**2 * self.cell

    @property
    def _histograms(self) -> int:
        # The blended plane of each class has histograms, too, and each plane has 16 bytes of units.
        return (self._candidates + self.classes) * (self.score_bytes + 16) if self.score_bytes else 0

    @property
    def _candidates(self) -> int:
        return self.classes * self.windows * self.choices

    def most_with(self, most: int, bytes_each: int) -> int:
        """The largest number of classes, at most ``most``, for which messages have room for ``bytes_each`` more bytes.

        It is 0 if there is no room. The sizes are those of at most this stream's own number of classes.
        """
        for classes in range(most, 0, -1):
            size = replace(self, classes=max(2, min(classes, self.classes)))
            if max(size.delta, size.model) + classes * bytes_each <= limits.MESSAGE_BYTES:
                return classes
        return 0

    def check(self) -> None:
        """Raise :class:`DefinitionError` with the sum if a delta or a model does not fit a message."""
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
