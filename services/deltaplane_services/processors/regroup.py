"""The samples and retirements of one stream, rewritten for another one: other partitions, windows, classes or features.

A sample goes to the partition of its id. All versions of an id were in one partition, in order, and are so again.

Only admitted rows are passed on. A refused row would be judged by another clock, a label beyond the limit could be
among the first ones there, and a row from a wrong partition has no place among the versions of its id. If the new
stream admits other rows (its grid, classes or times differ), all rows that the *new* stream admits are passed on, even
rows that the old one had refused. Their times are judged by when they came to the old stream.

Statistics do not depend on the rest of the order. But a window of a *count* of rows is divided among partitions, so
with another number of partitions, or another partitioner, it holds other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import data_differences
from deltaplane.stream.sample import Retirement, Samples, admit, misplaced, refused_for_its_place, usable_each
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, Record

__all__ = ["Labels", "Regroup", "admission_rules"]

Labels = Mapping[int, Sequence[str]]
"""Partition to the labels of open classes that it has admitted, in order; empty if classes are declared."""


class Regroup:
    """Turns records of the stream ``old`` into records of the stream ``new``.

    ``regrid``: the two may differ in features and grid. ``counts`` are of rows passed on and rows left out. Raises
    :class:`DefinitionMismatch` if rows cannot be copied between the two.
    """

    def __init__(self, old: StreamDefinition, new: StreamDefinition, *, regrid: bool = False) -> None:
        strange = [feature for feature in new.features if feature not in old.features]
        if regrid and strange:
            raise DefinitionMismatch(
                f"stream {new.name!r}: expected features of stream {old.name!r}, got {', '.join(strange)} as well,"
                " which no row of it has; publish to both streams until the window of the new one is full"
            )
        if not regrid and old.data_fingerprint != new.data_fingerprint:
            raise DefinitionMismatch(
                f"stream {new.name!r}: expected the features, grid and map of stream {old.name!r}, got others: they"
                f" differ in {data_differences(new, old)}; rows can only be copied between streams that quantize them"
                " alike: say --regrid, or publish them anew"
            )
        if regrid and (other := _other_rules(old, new)):
            raise DefinitionMismatch(
                f"stream {new.name!r}: expected the rules of stream {old.name!r} in columns.rules, got others for"
                f" {', '.join(other)}: what its features say would change in the middle of the log; leave rules as they"
                " are, or leave columns out, or publish to both streams until the window of the new one is full"
            )
        self.counts: Counter[str] = Counter()
        self._old, self._new = old, new
        self._reads, self._writes = codec_of(old), codec_of(new)
        # If the rules are the same, the old stream decides: it knows which labels it had room for.
        self._judge = old if admission_rules(old) == admission_rules(new) else new
        self._columns = [] if strange else [old.features.index(feature) for feature in new.features]
        self._labels: dict[int, dict[str, None]] = {}
        self._labels_there: dict[int, set[str]] = {}

    def know(self, labels: Labels) -> None:
        """Learn which labels of open classes each old partition has admitted; called before any record."""
        self._labels = {partition: dict.fromkeys(admitted) for partition, admitted in labels.items()}

    def record(self, record: Record) -> list[Outgoing]:
        """The records of the new stream for one record of samples or retirements; none if it cannot be read."""
        message = self._reads.rows(record) if record.topic == SAMPLES else self._reads.retirement(record)
        if isinstance(message, Undecodable):
            self.counts["unreadable records"] += 1
            return []
        if isinstance(message, Samples):
            return self._samples(record, message)
        return self._retirement(record, message)

    def _samples(self, record: Record, samples: Samples) -> list[Outgoing]:
        samples = replace(samples, features=samples.features[:, self._columns])
        samples = self._that_lie_right(samples, record.partition)
        known = self._labels.setdefault(record.partition, {})
        admitted, refusals = admit(samples, self._judge, known)
        known.update(dict.fromkeys(admitted.new_labels))
        self.counts["refused rows"] += len(refusals)
        self.counts["rows"] += len(admitted)
        kept = np.flatnonzero(~np.isin(samples.rows, [refusal.row for refusal in refusals]))
        places = self._new.partitions_of([samples.ids[row] for row in kept.tolist()])
        out = []
        for partition in np.unique(places).tolist():
            chosen = samples.chosen(kept[places == partition])
            self._count_beyond(partition, chosen)
            out.append(self._writes.sample_batch(partition, chosen))
        return out

    def _that_lie_right(self, samples: Samples, partition: int) -> Samples:
        """The rows that the old stream did not refuse for lying in another partition than their id's.

        If the old stream is of a version that took such rows, they are passed on and counted.
        """
        if self._old.partitions == 1:
            return samples
        named = usable_each(samples.ids, limits.ID_BYTES)
        wrong = named & misplaced(samples.ids, partition, self._old)
        if not self._old.checks_places:
            self.counts["rows that lay in another partition than their id's"] += int(np.count_nonzero(wrong))
            return samples
        self.counts["refused rows"] += int(np.count_nonzero(wrong))
        return samples.chosen(np.flatnonzero(~wrong)) if wrong.any() else samples

    def _count_beyond(self, partition: int, samples: Samples) -> None:
        """Count the rows whose label is beyond the limit of their new partition.

        Rows of several old partitions meet there, and those may have admitted different labels.
        """
        if not self._new.classes.are_open:
            return
        there = self._labels_there.setdefault(partition, set())
        codes, rows = np.unique(samples.label_codes, return_counts=True)
        for code, count in zip(codes.tolist(), rows.tolist(), strict=True):
            label = samples.label_table[code]
            if label in there or len(there) < self._new.most_classes:
                there.add(label)
            else:
                self.counts["rows that the new stream refuses: too many classes"] += count

    def _retirement(self, record: Record, retirement: Retirement) -> list[Outgoing]:
        if refused_for_its_place(retirement.id, record.partition, self._old):
            self.counts["refused retirements"] += 1
            return []
        self.counts["retirements"] += 1
        partition = self._new.partition_of(retirement.id)
        if self._old.data_fingerprint != self._new.data_fingerprint:
            return [self._writes.retirement_of(partition, retirement)]
        return [Outgoing(RETIREMENTS, partition, retirement.id.encode(), record.value)]


def _other_rules(old: StreamDefinition, new: StreamDefinition) -> list[str]:
    """The columns that the new stream encodes otherwise than the old one, whose rows exist only in encoded form."""
    if new.columns is None:
        return []
    known = None if old.columns is None or old.columns.missing != new.columns.missing else old.columns
    return [one.column for one in new.columns.rules if known is None or known.rule_of(one.column) != one]


def admission_rules(definition: StreamDefinition) -> object:
    """All settings that decide which rows a stream admits, to be compared; the limit of open classes is left out.

    A ``max_skew`` that follows from the windows counts as one rule, whatever the windows are: a copy with another
    window is meant to have the same rows.
    """
    classes, timed, skew = definition.classes, definition.nested_windows.timed, definition.max_skew_milliseconds
    own_skew = skew if timed and skew != definition.nested_windows.fitting_skew_milliseconds else None
    reach = definition.grid.range_bits
    return definition.data_fingerprint, classes.names, classes.positive, timed, own_skew, reach
