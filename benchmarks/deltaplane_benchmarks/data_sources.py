"""Worker processes that each have a source of samples, and a merger: paper 1's nodes, as the product runs them.

A node holds its messages before the clock starts, as a broker would. What is timed is from the word to the published
model: decoding, admitting, ids, the grid, Gram matrices, deltas as bytes, the rule, adding, solving. No broker lies
between; what one adds is in ``bench throughput --broker``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int32s, Texts
from deltaplane.exact.grid import Grid
from deltaplane.log.delta import Source
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import write_sample_batch
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.nodes import Part, Processes, dealt
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import start_merger, take_source
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import DELTAS, SAMPLES, Outgoing, source_key

__all__ = ["IDS_AT_ONCE", "RECORDS_A_STEP", "SITE", "Published", "Sources", "definition_for", "serve"]

SITE = "node"
RECORDS_A_STEP = 16
"""Messages that a worker takes at once, of which one delta comes."""

IDS_AT_ONCE = 10_000

_DONE = b""


def definition_for(grid: Grid, names: Sequence[str], positive: str, partitions: int) -> StreamDefinition:
    """A stream of everything that has come, on a grid, of some classes, solved in the paper's setting."""
    options = linear.PAPER_OPTIONS
    return StreamDefinition.from_tables(
        {
            "name": "nodes",
            "features": {"names": [f"x{at}" for at in range(grid.features)]},
            "grid": {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()},
            "classes": {"names": list(names), "positive": positive},
            "window": {"length": "all"},
            "solver": {"kind": options.kind, "C": options.C, "standardize": options.standardize},
            "partitions": partitions,
        }
    )


def serve(pipe: Connection, tables: Mapping[str, Any], partition: int, messages: list[bytes]) -> None:
    """A node's life: learn the messages asked for, as a new worker or as the same, and send deltas; None ends it."""
    from threadpoolctl import threadpool_limits

    definition, lives = StreamDefinition.from_tables(tables), 0
    source = Source(SITE, partition)
    with threadpool_limits(1):
        pipe.send(b"ready")
        while (asked := pipe.recv()) is not None:
            (begin, end), anew = asked
            if anew:
                lives += 1
                broker = EmbeddedBroker(definition.partitions)
                worker = take_source(definition, broker, source, f"{source}.{lives}", 0)
                pipe.send_bytes(broker.fetch(DELTAS, partition, 0)[0].value or _DONE)
            for message in messages[begin:end]:
                broker.append(Outgoing(SAMPLES, partition, None, message), 0)
            while records := broker.fetch(SAMPLES, partition, worker.position[0], RECORDS_A_STEP):
                for delta in worker.process(records, []).then:
                    pipe.send_bytes(delta.value or _DONE)
            pipe.send_bytes(_DONE)


@dataclass(frozen=True)
class Published:
    """The digest of the model that was published, and the seconds from the word to it."""

    digest: str
    seconds: float


class Sources(Processes):
    """As many processes as a definition has partitions, the rows dealt to them in equal runs, as messages."""

    def __init__(
        self,
        rows: Floats,
        labels: Texts,
        grid: Grid,
        count: int,
        positive: str,
        rows_a_message: int = 1000,
    ) -> None:
        codes, names = linear.coded(labels)
        self.definition = definition_for(grid, names, positive, count)
        runs = dealt(len(rows), count)
        self.held = [-(-(run.stop - run.start) // rows_a_message) for run in runs]

        def messages(partition: int, run: slice) -> list[bytes]:
            ids = _ids(run.stop - run.start, partition, self.definition)
            begins = range(run.start, run.stop, rows_a_message)
            parts = [slice(begin, min(begin + rows_a_message, run.stop)) for begin in begins]
            return [
                _message(rows[part], codes[part], names, ids[part.start - run.start :], part.start, self.definition)
                for part in parts
            ]

        tables = self.definition.to_tables()
        super().__init__(serve, ((tables, at, messages(at, run)) for at, run in enumerate(runs)))
        self._broker, self._merger, self._next = self._nothing_learned()

    def train(self, parts: Sequence[Part], known: Sequence[Part] | None = None) -> Published:
        """Learn each node's messages [from, to); before the clock starts, the ``known`` ones, by the same workers."""
        self._broker, self._merger, self._next = self._nothing_learned()
        if known is not None:
            self._learn(known, anew=True)
        begin = time.perf_counter()
        self._learn(parts, anew=known is None)
        seconds = time.perf_counter() - begin
        model = self._merger.model
        assert model is not None, "a model was published"
        return Published(model.digest, seconds)

    def _nothing_learned(self) -> tuple[EmbeddedBroker, MergerProcessor, dict[int, int]]:
        """Empty topics, a merger that has read them, and from where it reads on."""
        broker = EmbeddedBroker(self.definition.partitions)
        return broker, *start_merger(self.definition, broker)

    def _learn(self, parts: Sequence[Part], *, anew: bool) -> None:
        for pipe, part in zip(self._pipes, parts, strict=True):
            pipe.send((part, anew))
        busy = dict(zip(self._pipes, range(len(self._pipes)), strict=True))
        while busy:
            ready = wait(list(busy))
            for pipe in [pipe for pipe in busy if pipe in ready]:
                partition = busy[pipe]
                if (data := pipe.recv_bytes()) == _DONE:
                    del busy[pipe]
                    continue
                key = source_key(Source(SITE, partition))
                self._broker.append(Outgoing(DELTAS, partition, key, data), 0)
                records = self._broker.fetch(DELTAS, partition, self._next[partition])
                self._next[partition] = records[-1].offset + 1
                self._merger.process(records)
        for model in self._merger.publish(0).then:
            assert model.value, "a model has bytes"


def _ids(count: int, partition: int, definition: StreamDefinition) -> list[str]:
    """The first so many numbers, as ids, that belong in a partition."""
    ids: list[str] = []
    begin = 0
    while len(ids) < count:
        numbers = [str(number) for number in range(begin, begin + IDS_AT_ONCE)]
        ids += [numbers[at] for at in np.flatnonzero(definition.partitions_of(numbers) == partition).tolist()]
        begin += IDS_AT_ONCE
    return ids[:count]


def _message(
    rows: Floats,
    codes: Int32s,
    names: Sequence[str],
    ids: Sequence[str],
    first: int,
    definition: StreamDefinition,
) -> bytes:
    numbers = np.arange(first, first + len(rows), dtype=np.int64)
    samples = Samples.of_record(ids[: len(rows)], numbers, tuple(names), codes, rows)
    return write_sample_batch(samples, definition.data_fingerprint, "float32")
