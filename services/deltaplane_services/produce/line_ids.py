"""Ids for rows that bring none: where a row stood, and what stood there and before.

A line number alone is an id that the next file has, too, and a row under an id that is there replaces it. So an id here
is ``NAME:LINE:HASH``. The hash goes over the file's name and every row up to this one, so that the same file sent again
has the same ids (its rows are duplicates), a file that has grown has new ids for its new rows alone, and other rows
have other ids, whatever their lines. A pipe has no name; two that begin with the same rows share the ids of these.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import PurePath

from deltaplane_services.readers import RowBlock
from deltaplane_services.system.printable import plain

__all__ = ["HASH_BYTES", "NAME_CHARACTERS", "LineIds"]

HASH_BYTES = 8
NAME_CHARACTERS = 60
"""More of a long name is in the hash alone."""


class LineIds:
    """Names the rows of one source, block after block, in the order of the source."""

    def __init__(self, source: str) -> None:
        name = "" if source == "-" else PurePath(source).name
        self._name = plain(name)[-NAME_CHARACTERS:] or "stdin"
        self._rows = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=HASH_BYTES)

    def named(self, block: RowBlock) -> RowBlock:
        """The block with an id for each row; as it is where its rows have ids."""
        if block.ids is not None:
            return block
        features = block.features.astype("<f8", copy=False)
        times = block.event_times_milliseconds
        ids = []
        for row, (label, line) in enumerate(zip(block.labels, block.line_numbers.tolist(), strict=True)):
            self._rows.update(features[row].tobytes())
            self._rows.update(f"{'' if times is None else times[row]}\n{len(label)} {label}".encode())
            ids.append(f"{self._name}:{line}:{self._rows.copy().hexdigest()}")
        return replace(block, ids=ids)
