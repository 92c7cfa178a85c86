"""What a partition remembers of its retirements.

The two logs have no common order, so that a retirement may come long before its sample, and a retired id must stay
retired. The partition remembers the *end of the log* of retirements: an id is retired exactly if a retirement of it
lies in that part. So a worker that reads the log again, from the offset of the oldest retirement remembered, has the
same memory, and no other record of it is needed.

The part is cut into spans of :data:`limits.RETIRED_IDS` different ids; the next id that is not among them begins the
next span. Whole spans are forgotten at a time, so that the log alone, read from where the memory begins, decides where
each span begins. Within a span only the first retirement of an id is kept: repeats take no memory, and push nothing
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView

from deltaplane import limits
from deltaplane.stream.sample import Retirement

__all__ = ["RetirementMemory"]


class RetirementMemory:
    """The end of a log of retirements in spans: for each span, id to the offset of its first retirement there."""

    def __init__(self) -> None:
        self._spans: list[dict[str, int]] = [{}]

    def __len__(self) -> int:
        """The number of ids remembered; an id that is retired in several spans counts in each."""
        return sum(map(len, self._spans))

    @property
    def beyond_limits(self) -> bool:
        """Whether there are more spans than two: the last full one, and the one that is being filled."""
        return len(self._spans) > 2

    def add(self, retirement: Retirement) -> None:
        """Remember the next retirement of the log."""
        span = self._spans[-1]
        if retirement.id in span:
            return
        if len(span) >= limits.RETIRED_IDS:
            span = {}
            self._spans.append(span)
        span[retirement.id] = retirement.offset

    def first(self, sample_id: str) -> int | None:
        """The offset of the first retirement of an id that is remembered; None if the id is not retired."""
        for span in self._spans:
            offset = span.get(sample_id)
            if offset is not None:
                return offset
        return None

    def ids(self) -> Iterator[str]:
        """Every retired id; an id that is retired in several spans comes once for each."""
        for span in self._spans:
            yield from span

    def holds_none_of(self, ids: Iterable[str]) -> bool:
        """Whether no id of a batch is retired."""
        return all(not span or span.keys().isdisjoint(ids) for span in self._spans)

    @property
    def oldest_ids(self) -> KeysView[str]:
        """The ids of the oldest span."""
        return self._spans[0].keys()

    def oldest(self, otherwise: int) -> int:
        """The offset of the oldest retirement remembered, or ``otherwise`` if there is none."""
        return next(iter(self._spans[0].values()), otherwise)

    def forget_oldest(self) -> int:
        """The number of ids that are no longer retired, once the oldest span is forgotten: no later span has them."""
        gone = self._spans.pop(0)
        return sum(all(sample_id not in span for span in self._spans) for sample_id in gone)
