"""What keys of a definition were by default before, so that a stream made then is told from one that is another.

Such a stream goes on under its fingerprint: its definition has to declare what it was made with, and is told the line.
"""

from __future__ import annotations

from dataclasses import replace

from deltaplane import limits
from deltaplane.definition import StreamDefinition


def line_to_add(definition: StreamDefinition, stream_fingerprint: bytes) -> str:
    """What to add to a definition to make it that of a stream with this fingerprint, in words; else nothing."""
    before = replace(definition, max_skew_milliseconds=limits.LONGEST_SKEW_MILLISECONDS)
    if definition.stream_fingerprint == stream_fingerprint or before.stream_fingerprint != stream_fingerprint:
        return ""
    return (
        " (it was made when max_skew was a day whatever the windows were: to go on with it, add the line"
        ' max_skew = "1d" at the top of the definition, before its tables)'
    )
