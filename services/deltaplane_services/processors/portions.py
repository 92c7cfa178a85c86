"""How much a worker decodes at once: rows by name weigh little in a message, and become many features.

A code of one byte may become a thousand features, 8 bytes each. What a poll brings is weighed by its bytes, so that a
few megabytes of such batches could become gigabytes. They are processed in portions instead, each with a delta of its
own; statistics do not depend on where the portions end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltaplane import limits
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import named_features
from deltaplane_services.processors.messages import Record

__all__ = ["in_portions"]


def in_portions(
    samples: Sequence[Record], retirements: Sequence[Record], definition: StreamDefinition
) -> Iterator[tuple[Sequence[Record], Sequence[Record]]]:
    """The records of samples in one portion or more, in order, the last one with the retirements.

    A portion ends with the record that has it become as many features as a batch may, or more.
    """
    begin, features = 0, 0
    for at, record in enumerate(samples if definition.columns is not None else ()):
        # What the same process passed on is not to be encoded for this.
        features += 0 if record.meaning is not None else named_features(record.value, definition.columns)
        if features >= limits.NAMED_FEATURES and at + 1 < len(samples):
            yield samples[begin : at + 1], ()
            begin, features = at + 1, 0
    yield samples[begin:], retirements
