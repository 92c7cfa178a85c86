"""What is remembered of a partition's retirements.

The two logs have no common order, so a retirement may come long before its sample, and a retired id must stay retired.
What is remembered is the *end of the log* of retirements, every one since a certain offset: an id is retired exactly if
a retirement of it lies there. That is all there is to it, so whoever reads the log again from that offset finds the
same memory, and no second record of it has to be kept.

It is held as ids, each with its last retirement: an id that is retired a million times takes the room of one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, KeysView

from deltaplane.stream.sample import Retirement


class RetirementMemory:
    """The ids of all retirements since some offset of their log."""

    def __init__(self) -> None:
        # In the order of their last retirements, so that the first goes next. A dict would look for its first entry
        # behind all that are gone.
        self._last: OrderedDict[str, int] = OrderedDict()
        # Of ids that were retired more than once.
        self._first: dict[str, int] = {}
        self._from = 0

    def __len__(self) -> int:
        """Ids remembered."""
        return len(self._last)

    def add(self, retirement: Retirement) -> None:
        """The next retirement of the log."""
        sample_id, offset = retirement.id, retirement.offset
        if not self._last:
            self._from = offset
        earlier = self._last.get(sample_id)
        self._last[sample_id] = offset
        if earlier is not None:
            self._first.setdefault(sample_id, earlier)
            self._last.move_to_end(sample_id)

    def first(self, sample_id: str) -> int | None:
        """The offset of a retirement of an id, or None where it is not retired.

        It is the first of them, or the last where the first lies before what is remembered.
        """
        last = self._last.get(sample_id)
        if last is None:
            return None
        first = self._first.get(sample_id, last)
        return first if first >= self._from else last

    def ids(self) -> KeysView[str]:
        """Every retired id, once."""
        return self._last.keys()

    def holds_none_of(self, ids: Iterable[str]) -> bool:
        """True when no id of a batch is retired."""
        return not self._last or self._last.keys().isdisjoint(ids)

    @property
    def oldest_id(self) -> str:
        """The id whose last retirement is the oldest; there must be one."""
        return next(iter(self._last))

    def oldest(self, otherwise: int) -> int:
        """The offset from which on every retirement is remembered, or another where there is none."""
        return self._from if self._last else otherwise

    def forget_oldest(self) -> None:
        """Let go of the id whose last retirement is the oldest, and of all retirements up to that one."""
        sample_id, last = self._last.popitem(last=False)
        self._first.pop(sample_id, None)
        self._from = last + 1
