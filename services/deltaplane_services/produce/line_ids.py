"""Ids for rows without any, made of the row's place and a hash of all rows up to it.

A line number alone would come again in the next file, and a row under a known id replaces the older row. So an id is
``NAME:LINE:HASH``, and the hash is over the file's name and every row up to this one. The same file sent again has the
same ids, so that its rows are duplicates. A file that has grown has new ids for its new rows only. Other rows have
other ids, whatever their lines. A pipe has no name: two pipes that begin with the same rows share the ids of these.
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
"""The most characters of a file's name, its last ones, that an id has; the hash is over the whole name."""


class LineIds:
    """Gives ids to the rows of one source, block after block, in the order of the source."""

    def __init__(self, source: str) -> None:
        name = "" if source == "-" else PurePath(source).name
        self._name = plain(name)[-NAME_CHARACTERS:] or "stdin"
        self._rows = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=HASH_BYTES)

    def named(self, block: RowBlock) -> RowBlock:
        """The block with an id for each row; unchanged if its rows have ids."""
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
