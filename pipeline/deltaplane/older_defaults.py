"""What keys of a definition were by default before, so that a stream made then is told from one that is another.

Such a stream goes on under its fingerprint: its definition has to declare what it was made with, and is told the lines.
"""

from __future__ import annotations

from dataclasses import replace

from deltaplane import limits
from deltaplane.definition import StreamDefinition


def line_to_add(definition: StreamDefinition, stream_fingerprint: bytes) -> str:
    """What to add to a definition to make it that of a stream with this fingerprint, in words; else nothing."""
    day = replace(definition, max_skew_milliseconds=limits.LONGEST_SKEW_MILLISECONDS)
    checksum = replace(definition, partitioner="crc32")
    both = replace(day, partitioner="crc32")
    skew = 'max_skew = "1d"', "max_skew was a day whatever the windows were"
    place = 'partitioner = "crc32"', "ids were placed by CRC-32 in an earlier version"
    if definition.stream_fingerprint == stream_fingerprint:
        return ""
    for before, keys in ((day, (skew,)), (checksum, (place,)), (both, (skew, place))):
        if before.stream_fingerprint == stream_fingerprint:
            lines, whys = zip(*keys, strict=True)
            return (
                f" (it was made when {' and '.join(whys)}: to go on with it, add the line{'s' * (len(keys) - 1)}"
                f" {' and '.join(lines)} at the top of the definition, before its tables)"
            )
    return ""
