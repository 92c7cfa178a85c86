"""A check that a client delivers a log from the offset at which it was told to read.

The problem: a client that is told to read from another offset may still deliver what it had fetched for the offset
before. Then the first record lies beyond the offset that was asked for. But so does the first record behind a gap, and
logs may have gaps. How it is solved: the offset is asked for once more. If the same record comes again, the log has a
gap there. All records after the first must come in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltaplane.log.record_order import check_order
from deltaplane_services.processors.messages import Record

__all__ = ["Reading"]


@dataclass
class Reading:
    """The reading of one log of one source; ``asked_from`` is the offset last asked for, None before there is one."""

    asked_from: int | None = None
    _expected: int = 0
    _begun: bool = False
    # (the offset that was asked for a second time, the offset of the first record that had come).
    _gap: tuple[int, int] | None = None

    def ask(self, offset: int) -> None:
        """Take note that the client has been told to read from an offset on."""
        self.asked_from = self._expected = offset
        self._begun = False

    def hear(self, records: Sequence[Record], end: int | None) -> bool:
        """Whether to take the next records that came; if not, the offset must be asked for again.

        ``end`` is the offset behind the log's last record, or None if it is not known. Raises :class:`LogDisorder` if
        offsets do not ascend, or lie beyond the end.
        """
        if not records or self.asked_from is None:
            return True
        log = f"{records[0].topic}-{records[0].partition}"
        offsets = [record.offset for record in records]
        if not self._begun:
            # Records before the offset were fetched for an earlier one.
            offsets = [offset for offset in offsets if offset >= self._expected]
            if not offsets:
                return True
            gap = self.asked_from, offsets[0]
            if offsets[0] > self.asked_from and self._gap != gap:
                self._gap = gap
                return False
        self._expected, self._begun = check_order(log, offsets, self._expected, end), True
        return True
