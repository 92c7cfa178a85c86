"""How far an intake had come when it published a record of samples: a header of the record says so.

So position and result are one record, and can never part. Whoever takes a partition over reads the last such record,
and goes on from there, whatever has become of the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltaplane_services.intake.reading import Place
from deltaplane_services.processors.messages import Headers, Record

__all__ = ["HEADER", "Sent", "last_position", "sent_by"]

HEADER = "deltaplane-intake"


@dataclass(frozen=True)
class Sent:
    """What a record of samples says of its writer: its name, and the offsets before which all was sent.

    ``positions`` is None of a record that is not the last of its step.
    """

    writer: str
    positions: Mapping[Place, int] | None = None

    def headers(self) -> Headers:
        """The headers of the record."""
        places = None if self.positions is None else [[*place, offset] for place, offset in self.positions.items()]
        return ((HEADER, json.dumps([self.writer, places], separators=(",", ":")).encode()),)


def sent_by(headers: Headers) -> Sent | None:
    """What the headers of a record say of an intake; None of a record of anybody else."""
    found = next((value for name, value in headers if name == HEADER), None)
    if found is None:
        return None
    try:
        writer, places = json.loads(found)
        if places is None:
            return Sent(str(writer))
        return Sent(str(writer), {(str(topic), int(at)): int(offset) for topic, at, offset in places})
    except (ValueError, TypeError, RecursionError):
        return None


def last_position(said: Sequence[tuple[Record, Sent]]) -> tuple[Mapping[Place, int], list[Record]] | None:
    """(the last positions that records of samples say, the records that were sent too late); None if none says any.

    The last writer was too late if another one before it had come farther in some log.
    """
    at = next((at for at in reversed(range(len(said))) if said[at][1].positions is not None), None)
    if at is None:
        return None
    last = said[at][1]
    assert last.positions is not None, "it was looked for"
    for before in reversed(range(at)):
        sent = said[before][1]
        if sent.writer != last.writer and sent.positions is not None:
            if any(last.positions.get(place, 0) < offset for place, offset in sent.positions.items()):
                return last.positions, [record for record, one in said[before + 1 :] if one.writer == last.writer]
            break
    return last.positions, []
