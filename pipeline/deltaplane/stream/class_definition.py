"""The classes of a stream: the labels that it admits, and the class of each label."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.table_values import check_text

__all__ = ["ClassDefinition"]


@dataclass(frozen=True)
class ClassDefinition:
    """The labels that a stream admits, and the class of each label.

    ``names``: the labels admitted; empty means all, and without ``positive`` classes are open: they come and go.
    ``positive``: with it the problem is binary, and every other label becomes the class :attr:`rest`. ``most``: the
    number of open classes that a partition admits, the first that it meets; None means as many as fit a message.
    Raises :class:`DefinitionError` if these cannot be used, or not together.
    """

    names: tuple[str, ...] = ()
    positive: str | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(sorted(self.names)))
        if len(set(self.names)) != len(self.names):
            raise DefinitionError(f"classes: names must differ, got {list(self.names)}")
        if len(self.names) == 1 or len(self.names) > limits.CLASSES:
            raise DefinitionError(f"classes: expected 2 to {limits.CLASSES} names or none, got {len(self.names)}")
        for name in self.names if self.positive is None else (*self.names, self.positive):
            check_text(name, "classes: a name", limits.LABEL_BYTES)
        if self.names and self.positive is not None and self.positive not in self.names:
            raise DefinitionError(f"classes: positive {self.positive!r} is not among the names {list(self.names)}")
        if self.most is not None and not self.are_open:
            raise DefinitionError("classes.most: it bounds open classes, and these are known; leave it out")

    @property
    def are_open(self) -> bool:
        """Whether every label is a class, and classes come and go."""
        return not self.names and self.positive is None

    @property
    def rest(self) -> str:
        """The name of the class that is not positive: the only other name, or ``not <positive>``."""
        others = [name for name in self.names if name != self.positive]
        return others[0] if len(others) == 1 else f"not {self.positive}"

    @property
    def modelled_classes(self) -> tuple[str, ...]:
        """The declared names if each is a class of its own; empty if classes are open or there is a positive class."""
        return self.names if self.positive is None else ()

    @property
    def known(self) -> frozenset[str]:
        """Every class that a row can have, if classes are not open."""
        names = self.names if self.positive is None else (self.positive, self.rest)
        return frozenset(names)

    def class_of(self, label: str) -> str | None:
        """The class of a label, or None if the stream does not admit the label."""
        if self.names and label not in self.names:
            return None
        return label if self.positive is None or label == self.positive else self.rest
