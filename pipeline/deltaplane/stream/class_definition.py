"""The classes of a stream: which labels it admits, and which class each becomes."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.table_values import check_text

__all__ = ["ClassDefinition"]


@dataclass(frozen=True)
class ClassDefinition:
    """Which labels there are, and which class each becomes.

    ``names``: the labels admitted; empty means open, classes come and go. ``positive``: with it the problem is
    binary: any other label becomes the one other name, or ``not <positive>`` where there is not exactly one.
    ``most``: of open classes, how many a partition admits; the first that it meets. None: as many as fit a message.
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
        """Whether any label is a class, and classes come and go."""
        return not self.names and self.positive is None

    @property
    def rest(self) -> str:
        """The name of the class that is not the positive one."""
        others = [name for name in self.names if name != self.positive]
        return others[0] if len(others) == 1 else f"not {self.positive}"

    @property
    def modelled_classes(self) -> tuple[str, ...]:
        """The classes that statistics are kept of, where they are known by name."""
        return self.names if self.positive is None else ()

    @property
    def known(self) -> frozenset[str]:
        """Every class that a row can have, where classes are not open."""
        names = self.names if self.positive is None else (self.positive, self.rest)
        return frozenset(names)

    def class_of(self, label: str) -> str | None:
        """The class a label belongs to, or None where the definition does not know it."""
        if self.names and label not in self.names:
            return None
        return label if self.positive is None or label == self.positive else self.rest
