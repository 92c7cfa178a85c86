"""The order of the records of a log, as every reader of samples and retirements requires it.

A log may have gaps: transaction markers and aborted records take offsets, and compaction removes records. So a missing
offset means nothing. But a log never gives an offset twice, a lower one after a higher one, or one beyond its end. If
that happens, a producer has written a batch whose records have false offsets inside. (Brokers assign the offsets of a
batch; they check those of the records inside only if the topic has a codec.) Which of these records a reader gets
depends on where it began, so readers would not agree about them, and none may take them.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltaplane.errors import LogDisorder

__all__ = ["check_order"]


def check_order(log: str, offsets: Iterable[int], expected: int, end: int | None = None) -> int:
    """The least offset that the next record of a log may have, after records at ``offsets``.

    ``log``: its name in errors. ``expected``: the least offset that the first of the records may have. ``end``: the
    offset after the log's last record, if known. Raises :class:`LogDisorder` if offsets do not ascend from ``expected``
    on, or if one is not below ``end``.
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
