"""The order in which a log hands out its records, as every reader of samples and retirements demands it.

A log has gaps by right: marks of transactions and aborted records take offsets, and compaction takes records out. So
nothing follows from an offset that is missing. What a log never does is to hand out an offset twice, a lower one after
a higher one, or one that lies beyond its end. Where that happens, somebody has written a batch whose records claim
offsets that are not theirs. (Brokers give out the offsets of a batch; those of the records inside they look at only
where the topic has a codec.) What such records say of themselves depends on where a reader began, so no two readers
would agree about them, and none may take them.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltaplane.errors import LogDisorder

__all__ = ["check_order"]


def check_order(log: str, offsets: Iterable[int], expected: int, end: int | None = None) -> int:
    """The offset that the next record of a log has at least, after records at some offsets have come.

    ``log`` names it in messages. ``expected``: the least offset that the first of them may have. ``end``: the offset
    behind the log's last record, if the reader knows it. Raises :class:`LogDisorder`.
    """
    for offset in offsets:
        if offset < expected:
            raise LogDisorder(
                f"{log}: expected offsets that ascend, from {expected} on, got {offset}; {_CURE}",
            )
        if end is not None and offset >= end:
            raise LogDisorder(f"{log}: expected offsets below {end}, where the log ends, got {offset}; {_CURE}")
        expected = offset + 1
    return expected


_CURE = (
    "a producer has written a batch with made-up offsets inside. Brokers refuse that once the topic has a codec: see"
    " deltaplane topics check"
)
