"""What is remembered of a partition's retirements.

The two logs have no common order, so a retirement may come long before its sample, and a retired id must stay retired.
What is remembered is the *end of the log* of retirements, every one since the oldest remembered: an id is retired
exactly if a retirement of it lies there. That is all there is to it, so whoever reads the log again from the offset of
the oldest finds the same memory, and no second record of it has to be kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, KeysView

from deltaplane import limits
from deltaplane.stream.sample import Retirement

__all__ = ["RetirementMemory"]


class RetirementMemory:
    """The end of a log of retirements: every one since the oldest remembered, repeats included."""

    def __init__(self) -> None:
        self._log: deque[str] = deque()
        self._first: dict[str, int] = {}
        self._repeats: dict[str, deque[int]] = {}

    def __len__(self) -> int:
        """Retirements remembered, repeats included."""
        return len(self._log)

    @property
    def beyond_limits(self) -> bool:
        """Whether more ids, or more retirements of them, are remembered than there is room for."""
        return len(self._first) > limits.RETIRED_IDS or len(self._log) > limits.RETIREMENTS

    def add(self, retirement: Retirement) -> None:
        """The next retirement of the log."""
        self._log.append(retirement.id)
        if retirement.id in self._first:
            self._repeats.setdefault(retirement.id, deque()).append(retirement.offset)
        else:
            self._first[retirement.id] = retirement.offset

    def first(self, sample_id: str) -> int | None:
        """The offset of the first retirement of an id, or None where it is not retired."""
        return self._first.get(sample_id)

    def ids(self) -> KeysView[str]:
        """Every retired id, once."""
        return self._first.keys()

    def holds_none_of(self, ids: Iterable[str]) -> bool:
        """True when no id of a batch is retired."""
        return not self._first or self._first.keys().isdisjoint(ids)

    @property
    def oldest_id(self) -> str:
        """The id of the oldest retirement; there must be one."""
        return self._log[0]

    def oldest(self, otherwise: int) -> int:
        """The offset of the oldest retirement, or another where there is none."""
        return self._first[self._log[0]] if self._log else otherwise

    def forget_oldest(self) -> None:
        """Let go of the oldest retirement; its id stays retired if there is a later one of it."""
        sample_id = self._log.popleft()
        repeats = self._repeats.get(sample_id)
        if repeats is None:
            del self._first[sample_id]
            return
        self._first[sample_id] = repeats.popleft()
        if not repeats:
            del self._repeats[sample_id]
