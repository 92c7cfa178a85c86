"""A limit on what a worker decodes at once, since small messages of rows by name may become many features.

A code of one byte may become a thousand features of 8 bytes each. A poll is limited by the bytes of its messages, so
that a few megabytes of such batches could become gigabytes. So a poll is processed in portions, each with a delta of
its own. Statistics do not depend on where portions end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltaplane import limits
from deltaplane_services.processors.codec import Codec
from deltaplane_services.processors.messages import Record

__all__ = ["in_portions"]


def in_portions(
    samples: Sequence[Record], retirements: Sequence[Record], codec: Codec
) -> Iterator[tuple[Sequence[Record], Sequence[Record]]]:
    """(samples, retirements) of each portion, in order: at least one, and the last one has all retirements.

    A portion ends with the record that brings it to :data:`limits.NAMED_FEATURES` feature values or more.
    """
    begin, features = 0, 0
    for at, record in enumerate(samples if codec.definition.columns is not None else ()):
        features += codec.features_made(record)
        if features >= limits.NAMED_FEATURES and at + 1 < len(samples):
            yield samples[begin : at + 1], ()
            begin, features = at + 1, 0
    yield samples[begin:], retirements
