"""How far a client has delivered a log since it was last told where to read, and what is odd about what it delivers.

A client that is told to read from another place may still hand over what it had fetched for the place before. The first
record shows it: it lies beyond the place that was asked for. But so does the first record behind a gap, and logs have
gaps by right. So the place is asked for once more; if the same record comes again, the gap is the log's own. Whatever
follows the first record comes in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltaplane.log.record_order import check_order
from deltaplane_services.processors.messages import Record

__all__ = ["Reading"]


@dataclass
class Reading:
    """One log of one source. ``asked_from``: where the client was last told to read; None before it ever was."""

    asked_from: int | None = None
    _expected: int = 0
    _begun: bool = False
    # The place that was asked for twice, and the first record that came from there.
    _gap: tuple[int, int] | None = None

    def ask(self, offset: int) -> None:
        """Note that the client has been told to read from an offset on."""
        self.asked_from = self._expected = offset
        self._begun = False

    def hear(self, records: Sequence[Record], end: int | None) -> bool:
        """Whether these records, the next that came, are to be taken; otherwise the place is to be asked for again.

        ``end``: the offset behind the log's last record, if it is known. Raises :class:`LogDisorder` where offsets do
        not ascend, or lie beyond the end.
        """
        if not records or self.asked_from is None:
            return True
        log = f"{records[0].topic}-{records[0].partition}"
        offsets = [record.offset for record in records]
        if not self._begun:
            # What lies before the place was fetched for an earlier one.
            offsets = [offset for offset in offsets if offset >= self._expected]
            if not offsets:
                return True
            gap = self.asked_from, offsets[0]
            if offsets[0] > self.asked_from and self._gap != gap:
                self._gap = gap
                return False
        self._expected, self._begun = check_order(log, offsets, self._expected, end), True
        return True
