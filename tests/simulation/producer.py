"""Producers of a simulated stream: samples, corrections, retirements and poison, and a note of all that was sent."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import write_named_sample_batch, write_retirement, write_sample, write_sample_batch
from deltaplane.wire.frame import write_record
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Outgoing, origin_key
from golden.wire_examples import by_content
from strategies_streams import Row, samples_of

BAD_RECORDS = ("null value", "random bytes", "cut short", "bytes appended", "wrong topic", "wrong dimension")
"""Ways to spoil a whole record, that of another definition aside."""

BAD_CELLS = ("number that is none", "level too long", "unknown column")
"""Ways to spoil one cell of a row by name."""

BAD_ROWS = ("NaN", "infinite", "out of range", "unknown class", "empty id", "long id", "bogus time")
"""Ways to spoil one row."""


REPEATS = 60
"""Retirements of one id in a flood of them: more than there are ids that are remembered."""

HOUR_MILLISECONDS = 3_600_000


@dataclass
class SentSamples:
    """A record of a samples log that could be decoded."""

    offset: int
    samples: Samples


@dataclass
class Producer:
    """Publishes whatever its seed says to the topics of one stream, and keeps it, as topics lose their oldest records.

    ``letters`` are the dead letters that must follow, key to kind, whatever happens to those who read; ``labels`` those
    that each partition must have admitted, where there is room for so many only. ``astray``: retirements in a partition
    that is not their id's. ``delay_milliseconds``: the most by which a record may be appended later than it is sent, by
    whose clock event times are judged.
    """

    definition: StreamDefinition
    broker: EmbeddedBroker
    random: Random
    delay_milliseconds: int = 0
    sent: dict[int, list[SentSamples]] = field(default_factory=dict)
    retired: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    letters: dict[bytes, str] = field(default_factory=dict)
    did: Counter[str] = field(default_factory=Counter)
    astray: Counter[int] = field(default_factory=Counter)
    labels: dict[int, set[str]] = field(default_factory=dict)
    # Draws of its own, so that streams of features have the histories that they always had.
    _forms: Random = field(init=False)
    _rows: list[Row] = field(default_factory=list)
    _born: int = 0

    def __post_init__(self) -> None:
        self._forms = Random(self.random.getstate()[1][0])

    def publish(self, now: int) -> None:
        """One record, of whatever kind, or a few of them."""
        draw = self.random.random()
        if draw < 0.07:
            self._poison(now)
        elif draw < 0.25:
            self._retire(now)
        else:
            self._samples(now)

    def reference(self) -> Reference:
        """What all that was sent comes to."""
        reference = Reference(self.definition)
        for partition, records in self.sent.items():
            for record in records:
                reference.add(partition, record.samples)
        for retired in self.retired.values():
            for _, sample_id in retired:
                reference.retire(sample_id)
        return reference

    def rows_sent(self) -> int:
        """Rows in records that could be decoded."""
        return sum(len(record.samples) for records in self.sent.values() for record in records)

    def flood(self, now: int) -> None:
        """A dozen rows, each of a class that nobody has heard of."""
        for _ in range(12):
            row = replace(self._row(now), id=f"s{self._born}", label=f"made up {self._born}")
            self._born += 1
            self._rows.append(row)
            self._send(self._place(row.id), [row], now, single=self.random.random() < 0.5)
        self.did["flood of labels"] += 1

    def forget(self, topic: str) -> None:
        """A topic was deleted, and what was in it; its dead letters are those of other records."""
        (self.sent if topic == SAMPLES else self.retired).clear()
        self.letters = {key: kind for key, kind in self.letters.items() if not key.startswith(f"{topic}-".encode())}
        (self.labels if topic == SAMPLES else self.astray).clear()

    def take_back(self, topic: str, partition: int, offset: int) -> None:
        """A record was part of a transaction that was aborted: whoever reads, it was never there."""
        assert self.definition.classes.most is None, "a label that is taken back may have taken another's place"
        if topic == SAMPLES:
            self.sent[partition] = [one for one in self.sent.get(partition, []) if one.offset != offset]
        else:
            self.retired[partition] = [one for one in self.retired.get(partition, []) if one[0] != offset]
        whole = origin_key(topic, partition, offset)
        if topic == RETIREMENTS and self.letters.get(whole) == "wrong partition":
            self.astray[partition] -= 1
        self.letters = {
            key: kind for key, kind in self.letters.items() if key != whole and not key.startswith(whole + b"-")
        }

    def never_sent(self, topic: str, now: int) -> list[bytes]:
        """Records that would count, of a transaction that is aborted."""
        fingerprint = self.definition.data_fingerprint
        if topic == RETIREMENTS:
            ids = [row.id for row in self._rows[-3:]]
            return [write_retirement(Retirement(one, "never", 0, now), fingerprint) for one in ids]
        rows = [replace(row, label="x", time=now) for row in self._rows[-3:]]
        return [write_sample(row.id, row.time, row.label, row.values, fingerprint) for row in rows]

    def superseded(self, partition: int, before: int) -> list[int]:
        """Offsets of records of one good row whose id came again in another such record, all below ``before``."""
        good = [
            record
            for record in self.sent.get(partition, [])
            if record.offset < before
            and len(record.samples) == 1
            and origin_key(SAMPLES, partition, record.offset, 0) not in self.letters
        ]
        last = {record.samples.ids[0]: record.offset for record in good}
        return [record.offset for record in good if last[record.samples.ids[0]] > record.offset]

    # Samples ---------------------------------------------------------------------------------------------------------

    def _samples(self, now: int) -> None:
        by_partition: dict[int, list[Row]] = {}
        for _ in range(self.random.choice((1, 1, 2, 5, 9))):
            row = self._row(now)
            by_partition.setdefault(self._place(row.id), []).append(row)
        for partition, rows in by_partition.items():
            if self.random.random() < 0.4:
                for row in rows:
                    self._send(partition, [row], now, single=True)
            else:
                self._send(partition, rows, now, single=False)

    def _send(self, partition: int, rows: list[Row], now: int, *, single: bool) -> None:
        features = len(self.definition.features)
        spoiled = [self._spoiled(row, now) if self.random.random() < 0.04 else (row, None) for row in rows]
        offset = self.broker.end(SAMPLES, partition)
        samples = samples_of([tuple(row for row, _ in spoiled)], offset, features)
        samples = replace(samples, log_times=np.full(len(rows), now, dtype=np.int64))
        if not single and self.definition.classes.most is not None and self.random.random() < 0.3:
            # No row has it, so that it takes nobody's place.
            samples = replace(samples, label_table=(*samples.label_table, f"unused {offset}"))
            self.did["unused label"] += 1
        value = self._written(samples, [row for row, _ in spoiled], single=single)
        self.broker.append(Outgoing(SAMPLES, partition, rows[0].id.encode(), value), now)
        self.sent.setdefault(partition, []).append(SentSamples(offset, samples))
        for at, (row, fault) in enumerate(spoiled):
            astray = fault != "bad id" and self._is_astray(row.id, partition)
            self.did["row in a wrong partition"] += astray
            kind = "wrong partition" if astray else fault or self._one_too_many(partition, row.label)
            if kind is not None:
                self.letters[origin_key(SAMPLES, partition, offset, at)] = kind
        self.did["sample" if single else "sample batch"] += 1

    def _written(self, samples: Samples, rows: list[Row], *, single: bool) -> bytes:
        """The message of some rows, in one form or the other."""
        fingerprint, columns, row = self.definition.data_fingerprint, self.definition.columns, rows[0]
        by_name = columns is not None and self._forms.random() < 0.6
        if columns is not None and by_name:
            self.did["sample by name" if single else "sample batch by name"] += 1
            cells = [self._cells(row, single=single) for row in rows]
            if not single:
                table = {name: [one.get(name) for one in cells] for name in columns.columns}
                return write_named_sample_batch(samples, table, columns, fingerprint)
            fields = {"fingerprint": fingerprint, "id": row.id, "event_time": row.time, "label": row.label}
            return write_record("named_sample", {**fields, "cells": cells[0]})
        if single:
            return write_sample(row.id, row.time, row.label, row.values, fingerprint)
        return write_sample_batch(samples, fingerprint)

    def _cells(self, row: Row, *, single: bool) -> dict[str, Any]:
        """Cells, in any order, that say what the features of a row are: an amount, and whether the kind is ``a``."""
        amount, is_a = row.values[0], row.values[1] == 1.0
        cells: dict[str, Any] = {"kind": "a" if is_a else self._forms.choice(("b", " c", 5, True, None, "NA"))}
        cells["amount"] = amount
        if math.isnan(amount):
            way = self._forms.choice(BAD_CELLS[: 3 if single else 2])
            self.did[f"cell {way}"] += 1
            bad = {"number that is none": {"amount": "7 or so"}, "level too long": {"kind": "k" * 300}}
            cells = {**cells, "amount": 7.0, **bad.get(way, {"amuont": 1.0})}
        elif amount == 7.0 and self._forms.random() < 0.5:
            cells["amount"] = self._forms.choice((None, float("nan"), "?", " "))
        elif math.isfinite(amount):
            cells["amount"] = self._forms.choice((amount, int(amount), f" {amount} ", f"{int(amount)}"))
        in_order = list(cells.items())
        self._forms.shuffle(in_order)
        return {name: cell for name, cell in in_order if cell is not None or self._forms.random() < 0.5}

    def _place(self, sample_id: str) -> int:
        """Where a producer puts an id: where places are checked, one with another partitioner into any partition."""
        if self.definition.checks_places and self.random.random() < 0.08:
            return self.random.randrange(self.definition.partitions)
        return self.definition.partition_of(sample_id)

    def _is_astray(self, sample_id: str, partition: int) -> bool:
        return partition != self.definition.partition_of(sample_id)

    def _one_too_many(self, partition: int, label: str) -> str | None:
        """The kind of the dead letter of a good row whose label is one more than there is room for."""
        if self.definition.classes.most is None:
            return None
        admitted = self.labels.setdefault(partition, set())
        if label not in admitted and len(admitted) == self.definition.classes.most:
            self.did["row too many classes"] += 1
            return "too many classes"
        admitted.add(label)
        return None

    def _row(self, now: int) -> Row:
        time = now + self.random.choice((0, 0, 0, -1, -3, -10, -100, 2))
        skew = self.definition.max_skew_milliseconds
        if skew == self.definition.nested_windows.fitting_skew_milliseconds and self.random.random() < 0.04:
            time = now + self.random.choice((skew // 2, skew))
            self.did["sample of a fast clock"] += 1
        label = self.random.choice(("x", "x", "y", "z"))
        far = self.definition.grid.range // 2
        values = tuple(float(self.random.choice((-5, 0, 1, 7, 1000, far))) for _ in self.definition.features)
        if self.definition.columns is not None:
            is_a = float(values[1] > 0)
            values = (values[0], is_a, 1.0 - is_a)
        draw = self.random.random()
        if self._rows and draw < 0.25:
            # An id from any time: live, retired, expired, or just sent.
            old = self.random.choice(self._rows[-40:] if self.random.random() < 0.8 else self._rows)
            kind = self.random.choice(("again", "label", "features", "late"))
            self.did[f"sample {kind}"] += 1
            changes = {"again": old, "label": replace(old, label=label), "features": replace(old, values=values)}
            row = changes.get(kind) or replace(old, label=label, time=now - 10_000)
        else:
            row = Row(f"s{self._born}", label, values, time)
            self._born += 1
        self._rows.append(row)
        return row

    def _spoiled(self, row: Row, now: int) -> tuple[Row, str | None]:
        # Of rows by name more are spoiled in one cell, which NaN stands for here.
        way = self.random.choice(BAD_ROWS if self.definition.columns is None else (*BAD_ROWS, *["NaN"] * 7))
        if way == "bogus time" and not self.definition.nested_windows.timed:
            # Nobody is harmed by an odd time where no window ends with time.
            return row, None
        if way == "unknown class" and not self.definition.classes.names:
            return row, None
        self.did[f"row {way}"] += 1
        first = {"NaN": float("nan"), "infinite": float("-inf"), "out of range": float(self.definition.grid.range)}
        if way in first:
            return replace(row, values=(first[way], *row.values[1:])), "bad value"
        if way == "unknown class":
            return replace(row, label="nobody's"), way
        if way == "bogus time":
            beyond = self.random.choice((1, HOUR_MILLISECONDS, 10_000 * HOUR_MILLISECONDS))
            ahead = now + self.delay_milliseconds + self.definition.max_skew_milliseconds + beyond
            odd = self.random.choice((ahead, -(2**63), 2**63 - 1))
            return replace(row, time=odd), way
        return replace(row, id="" if way == "empty id" else "i" * 300), "bad id"

    # Retirements and poison ------------------------------------------------------------------------------------------

    def _retire(self, now: int) -> None:
        """Of a live sample, of one that is about to come, of one long gone, of one retired already, or of none."""
        which = self.random.choice(("recent", "recent", "coming", "any", "again", "none"))
        sample_id = f"s{self._born + self.random.randrange(4)}"
        earlier = [sample_id for retired in self.retired.values() for _, sample_id in retired]
        if which == "again" and earlier:
            sample_id = self.random.choice(earlier)
        elif which == "none":
            sample_id = f"nobody{self.random.randrange(9)}"
        elif which != "coming" and self._rows:
            sample_id = self.random.choice(self._rows[-20:] if which == "recent" else self._rows).id
        partition = self._place(sample_id)
        value = write_retirement(Retirement(sample_id, "asked", 0, now), self.definition.data_fingerprint)
        offset = self.broker.append(Outgoing(RETIREMENTS, partition, sample_id.encode(), value), now)
        if self._is_astray(sample_id, partition):
            self.letters[origin_key(RETIREMENTS, partition, offset)] = "wrong partition"
            self.astray[partition] += 1
            self.did["retirement in a wrong partition"] += 1
            return
        self.retired.setdefault(partition, []).append((offset, sample_id))
        self.did[f"retirement {which}"] += 1

    def repeat(self, now: int) -> None:
        """A retirement of a sample that is about to come, and behind it many times the same of another id."""
        coming = f"s{self._born + 1}"
        partition = self.definition.partition_of(coming)
        names = (f"again and again {at}" for at in itertools.count())
        same = next(name for name in names if self.definition.partition_of(name) == partition)
        for sample_id in (coming, *[same] * REPEATS):
            value = write_retirement(Retirement(sample_id, "asked", 0, now), self.definition.data_fingerprint)
            offset = self.broker.append(Outgoing(RETIREMENTS, partition, sample_id.encode(), value), now)
            self.retired.setdefault(partition, []).append((offset, sample_id))

    def _poison(self, now: int) -> None:
        partition = self.random.randrange(self.definition.partitions)
        topic = self.random.choice((SAMPLES, SAMPLES, RETIREMENTS))
        features, fingerprint = len(self.definition.features), self.definition.data_fingerprint
        way, kind = self.random.choice((*BAD_RECORDS, "other definition")), "bad record"
        if way == "other definition":
            fingerprint, kind = b"\0" * 16, way
        wide = features + (way == "wrong dimension")
        sample = write_sample("poison", now, "x", [0.0] * wide, fingerprint)
        retirement = by_content("poison", "x", [0.0] * wide, fingerprint)
        good = sample if topic == SAMPLES else retirement
        value: bytes | None = good
        if way == "null value":
            value = None
        elif way == "random bytes":
            value = self.random.randbytes(self.random.randrange(60))
        elif way == "cut short":
            value = good[: self.random.randrange(len(good))]
        elif way == "bytes appended":
            value = good + b"\0"
        elif way == "wrong topic":
            value = retirement if topic == SAMPLES else sample
        self._spoil(topic, partition, value, kind, now)
        self.did[f"poison {way}"] += 1

    def tombstone(self, partition: int, now: int) -> None:
        """A record without a value, as compacted topics have them."""
        self._spoil(SAMPLES, partition, None, "bad record", now)

    def _spoil(self, topic: str, partition: int, value: bytes | None, kind: str, now: int) -> None:
        offset = self.broker.append(Outgoing(topic, partition, None, value), now)
        self.letters[origin_key(topic, partition, offset)] = kind
