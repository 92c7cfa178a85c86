"""A stream's samples and retirements on the topics of another stream: other partitions, windows, classes, or features.

A sample goes where its id says, and all versions of an id were in one partition in their order, so that they are in one
again. Only what was admitted is passed on: a refused row would be judged by another clock, a label that was one too
many would be among the first, and a row that lay in a wrong partition has no place among the versions of its id. Onto a
stream that admits other rows (its grid, classes or times differ), what *that* admits is passed on, so that rows come in
that the old stream had refused; their times are judged by when they came to the old one. Statistics do not depend on
the rest of the order; a window of a *count* of rows shares its rows by partition, so with another number of partitions,
or another partitioner, it holds other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import data_differences
from deltaplane.stream.sample import Samples, admit, misplaced, refused_for_its_place, usable_each
from deltaplane.wire import read_retirement, write_retirement, write_sample_batch
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, Record, read_published_samples

__all__ = ["Labels", "Regroup", "admission_rules"]

Labels = Mapping[int, Sequence[str]]
"""Partition to the labels of open classes that it has admitted, in that order; nothing where classes are declared."""


class Regroup:
    """Turns records of one stream into those of another; ``counts`` says of how many rows, and what was left out."""

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
                f" differ in {data_differences(new, old)}; rows can only be copied between streams that place them"
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
        # Of the same rules the old stream is the judge: it knows which labels it had room for.
        self._judge = old if admission_rules(old) == admission_rules(new) else new
        self._columns = [] if strange else [old.features.index(feature) for feature in new.features]
        self._labels: dict[int, dict[str, None]] = {}
        self._labels_there: dict[int, set[str]] = {}

    def know(self, labels: Labels) -> None:
        """Be told which labels of open classes each partition of the old stream has admitted, before any record."""
        self._labels = {partition: dict.fromkeys(admitted) for partition, admitted in labels.items()}

    def record(self, record: Record) -> list[Outgoing]:
        """What becomes of one record of the samples or the retirements; nothing of one that cannot be read."""
        try:
            return self._samples(record) if record.topic == SAMPLES else self._retirement(record)
        except (WireError, DefinitionMismatch):
            self.counts["unreadable records"] += 1
            return []

    def _samples(self, record: Record) -> list[Outgoing]:
        samples = read_published_samples(record, self._old)
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
            value = write_sample_batch(chosen, self._new.data_fingerprint)
            out.append(Outgoing(SAMPLES, partition, None, value))
        return out

    def _that_lie_right(self, samples: Samples, partition: int) -> Samples:
        """The rows that the old stream did not refuse for their place; those that it took all the same are counted."""
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
        """Count rows whose label is one too many where they come: several partitions may have admitted others."""
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

    def _retirement(self, record: Record) -> list[Outgoing]:
        old = self._old
        retirement = read_retirement(record.value, len(old.features), old.data_fingerprint, record.offset)
        if refused_for_its_place(retirement.id, record.partition, old):
            self.counts["refused retirements"] += 1
            return []
        self.counts["retirements"] += 1
        partition = self._new.partition_of(retirement.id)
        value = record.value
        if old.data_fingerprint != self._new.data_fingerprint:
            value = write_retirement(retirement, self._new.data_fingerprint)
        return [Outgoing(RETIREMENTS, partition, retirement.id.encode(), value)]


def _other_rules(old: StreamDefinition, new: StreamDefinition) -> list[str]:
    """The columns that the new stream encodes otherwise than the old one: its rows are there as they were encoded."""
    if new.columns is None:
        return []
    known = None if old.columns is None or old.columns.missing != new.columns.missing else old.columns
    return [one.column for one in new.columns.rules if known is None or known.rule_of(one.column) != one]


def admission_rules(definition: StreamDefinition) -> object:
    """All that decides which rows a stream admits, but for the room that it has for open classes; to be compared.

    A ``max_skew`` that fits the windows is one rule, whatever they are: who wants another window wants the same rows.
    """
    classes, timed, skew = definition.classes, definition.ladder.timed, definition.max_skew_milliseconds
    own_skew = skew if timed and skew != definition.ladder.fitting_skew_milliseconds else None
    reach = definition.grid.range_bits
    return definition.data_fingerprint, classes.names, classes.positive, timed, own_skew, reach
