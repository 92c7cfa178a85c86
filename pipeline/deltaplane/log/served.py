"""What was predicted when people asked, held against labels when they come: quality as it was served.

The problem: the scores of a worker are of rows that it learns, by the model that there is then. If labels come days
after a prediction, that model is days newer than the one that answered, and its scores flatter.

How it is solved: the class of each answer is kept until a sample of the same id brings the label. Only what is kept can
be judged, so a bound holds memory; the oldest answers go first, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltaplane import limits
from deltaplane.log.confusion import Confusion
from deltaplane.log.merger import of_largest
from deltaplane.stream.definition import StreamDefinition

__all__ = ["ServedScores"]


class ServedScores:
    """Joins answers and labels by id; changed by its methods only.

    ``most`` is the number of answers that wait at most. An answer is judged once, by the first label that comes after
    it: a label that comes again, or is corrected, changes nothing. Of several answers to one id the last one counts.
    """

    def __init__(self, definition: StreamDefinition, most: int = limits.SERVED_ANSWERS) -> None:
        self.scores = Confusion()
        self.forgotten = 0
        self._classes, self._most_classes = definition.classes, definition.most_classes
        self._most = most
        self._waiting: dict[str, str] = {}

    @property
    def waiting(self) -> int:
        """How many answers wait for a label."""
        return len(self._waiting)

    def predicted(self, answers: Iterable[tuple[str, str]]) -> None:
        """Note answers, each an id and the class that was predicted."""
        for sample_id, label in answers:
            # The newest stands last, even if its id was asked for before.
            self._waiting.pop(sample_id, None)
            self._waiting[sample_id] = label
        while len(self._waiting) > self._most:
            del self._waiting[next(iter(self._waiting))]
            self.forgotten += 1

    def labelled(self, labels: Iterable[tuple[str, str]]) -> int:
        """How many answers are judged by these labels, each of an id."""
        found = Confusion()
        for sample_id, label in labels:
            guess = self._waiting.pop(sample_id, None)
            if guess is not None:
                found += Confusion({(self._classes.class_of(label) or label, guess): 1})
        if found.rows:
            self.scores = of_largest(self.scores + found, self._most_classes)
        return found.rows
