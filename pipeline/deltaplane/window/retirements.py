"""What is remembered of a partition's retirements.

The two logs have no common order, so a retirement may come long before its sample, and a retired id must stay retired.
What is remembered is the *end of the log* of retirements: an id is retired exactly if a retirement of it lies there.
That is all there is to it, so whoever reads the log again from the offset of the oldest finds the same memory, and no
second record of it has to be kept.

The end of the log is cut into spans. A span has :data:`limits.RETIRED_IDS` ids, each counted once however often it is
repeated there, and the next id that is not among them begins the next span. The log is let go of by whole spans: so
where a span begins follows from the log and from where the memory begins, and of an id only its first retirement in
each span is kept. Repeats cost nothing, and push nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView

from deltaplane import limits
from deltaplane.stream.sample import Retirement

__all__ = ["RetirementMemory"]


class RetirementMemory:
    """The end of a log of retirements, span by span: of each id the offset of its first retirement in each span."""

    def __init__(self) -> None:
        self._spans: list[dict[str, int]] = [{}]

    def __len__(self) -> int:
        """Ids remembered; one that is retired in several spans counts in each."""
        return sum(map(len, self._spans))

    @property
    def beyond_limits(self) -> bool:
        """Whether there is a span beyond the last whole one and the one that is being filled."""
        return len(self._spans) > 2

    def add(self, retirement: Retirement) -> None:
        """The next retirement of the log."""
        span = self._spans[-1]
        if retirement.id in span:
            return
        if len(span) >= limits.RETIRED_IDS:
            span = {}
            self._spans.append(span)
        span[retirement.id] = retirement.offset

    def first(self, sample_id: str) -> int | None:
        """The offset of the first retirement of an id, or None where it is not retired."""
        for span in self._spans:
            offset = span.get(sample_id)
            if offset is not None:
                return offset
        return None

    def ids(self) -> Iterator[str]:
        """Every retired id; one that is retired in several spans comes as often."""
        for span in self._spans:
            yield from span

    def holds_none_of(self, ids: Iterable[str]) -> bool:
        """True when no id of a batch is retired."""
        return all(not span or span.keys().isdisjoint(ids) for span in self._spans)

    @property
    def oldest_ids(self) -> KeysView[str]:
        """The ids of the oldest span."""
        return self._spans[0].keys()

    def oldest(self, otherwise: int) -> int:
        """The offset of the oldest retirement, or another where there is none."""
        return next(iter(self._spans[0].values()), otherwise)

    def forget_oldest(self) -> int:
        """Let go of the oldest span, and say how many ids are not retired any more: no later span has them."""
        gone = self._spans.pop(0)
        return sum(all(sample_id not in span for span in self._spans) for sample_id in gone)
