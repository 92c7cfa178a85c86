"""How far an intake had come when it published a record of samples: a header of the record says so.

So position and result are one record, and can never part. Whoever takes a partition over reads the last such record,
and goes on from there, whatever has become of the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane_services.intake.reading import Place
from deltaplane_services.processors.messages import Headers

__all__ = ["HEADER", "Sent", "sent_by"]

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
