"""The quality of a stream worked out again from its logs alone, by another road than the services took.

A delta says which span of samples it covers and which model had scored them. So every sample of an accepted delta is
read from its topic, put to that model's plane, and its true and predicted class are counted: by hand, with none of the
core's arithmetic of planes and measures.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from deltaplane.errors import WireError
from deltaplane.log.delta import Claim, Delta
from deltaplane.log.model import Model
from deltaplane.solve.solver import Plane
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_claim_or_delta, read_model, read_receipt, read_samples
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.messages import DELTAS, MODELS, RECEIPTS, SAMPLES, Record


class Offline:
    """The logs of one stream of two classes, as they are when this is made."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._definition = settings.definition
        with contextlib.ExitStack() as stack:
            site, central = reader(settings, "site"), reader(settings, "central")
            stack.callback(site.close)
            stack.callback(central.close)
            self._planes = self._all_planes(central)
            self._samples = self._all_samples(site)
            # A sample whose retirement waits for it is never learned, and so it is not scored. One that had gone long
            # before is waited for as well: what comes behind the receipt's place in the log is what counts.
            self._awaited = {
                receipt.id: receipt.samples_to
                for partition in range(self._definition.partitions)
                for record in _all(site, RECEIPTS, partition)
                if (receipt := read_receipt(record.value)).outcome == "waiting"
            }
            self._tiles = [tile for p in range(self._definition.partitions) for tile in self._accepted(central, p)]

    def _all_planes(self, log: LogReader) -> dict[int, Plane]:
        planes: dict[int, Plane] = {}
        newest = 0
        for record in _all(log, MODELS, 0):
            try:
                model: Model = read_model(record.value)
            except WireError:
                continue
            # A version that is not higher is one that no reader took.
            if model.version > newest:
                newest = model.version
                if model.plane is not None:
                    planes[model.version] = model.plane
        return planes

    def _all_samples(self, log: LogReader) -> dict[int, dict[int, Samples]]:
        """Partition to offset to the rows of that record."""
        found: dict[int, dict[int, Samples]] = {}
        for partition in range(self._definition.partitions):
            for record in _all(log, SAMPLES, partition):
                with contextlib.suppress(WireError):
                    rows = read_samples(
                        record.value,
                        len(self._definition.features),
                        self._definition.data_fingerprint,
                        record.offset,
                        record.log_time,
                    )
                    found.setdefault(partition, {})[record.offset] = rows
        return found

    def _accepted(self, log: LogReader, partition: int) -> Iterator[Delta]:
        """The deltas of a partition that count: of the owner of the moment, each number once."""
        owner, number = "", 0
        for record in _all(log, DELTAS, partition):
            change = read_claim_or_delta(record.value, self._definition.dimensions)
            if isinstance(change, Claim):
                owner = change.writer
            elif isinstance(change, Delta) and change.writer == owner and change.tile.sequence == number:
                number += 1
                yield change

    def confusion(self) -> Counter[tuple[str, str]]:
        """(true class, predicted class) to the number of samples."""
        counts: Counter[tuple[str, str]] = Counter()
        for delta in self._tiles:
            if not delta.scored_by:
                continue
            plane = self._planes[delta.scored_by]
            for offset in range(delta.tile.samples_from, delta.tile.samples_to):
                rows = self._samples[delta.source.partition].get(offset)
                if rows is not None:
                    self._count(rows, offset, plane, counts)
        return counts

    def _count(self, rows: Samples, offset: int, plane: Plane, counts: Counter[tuple[str, str]]) -> None:
        (weights,), (bias,) = plane.weights.tolist(), plane.biases.tolist()
        (other,) = (label for label in plane.classes if label != plane.positive)
        features = np.where(np.isnan(rows.features), self._definition.grid.offsets, rows.features)
        for sample_id, code, values in zip(rows.ids, rows.label_codes.tolist(), features.tolist(), strict=True):
            if offset < self._awaited.get(sample_id, offset + 1):
                side = math.fsum([*(w * x for w, x in zip(weights, values, strict=True)), -bias])
                counts[rows.label_table[code], str(plane.positive) if side > 0.0 else other] += 1


def gmean(confusion: Counter[tuple[str, str]]) -> float:
    """√(recall · recall) of two classes."""
    first, second = sorted({truth for truth, _ in confusion})
    recalls = [
        confusion[label, label] / (confusion[label, first] + confusion[label, second]) for label in (first, second)
    ]
    return math.sqrt(recalls[0] * recalls[1])


def _all(log: LogReader, topic: str, partition: int) -> list[Record]:
    low, end = log.bounds(topic, partition)
    return list(log.read(topic, partition, low, end))
