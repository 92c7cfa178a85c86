"""A file with what was predicted of each row before it was learned: CSV or Parquet, written as the rows go by.

Rows are held until there are some ten thousand, so that memory does not grow with the stream; a file of Parquet has a
group for each of these parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.replay.scored_batches import Names, ScoredBatch
from deltaplane_services.system.output_files import PRIVATE, OutputFile
from deltaplane_services.system.table_files import table_writer

__all__ = ["PredictionFile"]

_ROWS_HELD = 2**16


class PredictionFile:
    """Writes rows in their order: id, time, truth, predicted, score, probability, model_version.

    The file exists once ``keep`` has been called. ``time`` is null in a stream without event times. What was not
    predicted (rows before the first plane, and those that taught nothing) has null from ``predicted`` on. ``score`` is
    the decision value and ``probability`` that of the same class: of two classes the positive one, which is predicted
    where the score is above 0; of more the predicted one.
    """

    def __init__(self, path: Path, definition: StreamDefinition, *, timed: bool) -> None:
        import pyarrow as pa

        self.names = Names(definition)
        self._timed = timed
        self._held: list[ScoredBatch] = []
        self._rows = 0
        self._schema = pa.schema(
            {
                "id": pa.string(),
                "time": pa.timestamp("ms", "UTC"),
                "truth": pa.string(),
                "predicted": pa.string(),
                "score": pa.float64(),
                "probability": pa.float64(),
                "model_version": pa.int64(),
            }
        )
        self._output = OutputFile(path, "predictions", PRIVATE)
        self._writer = table_writer(path.suffix, self._output.file, self._schema)

    def add(self, batches: Iterable[ScoredBatch]) -> None:
        """Write batches that were published together, whose classes are numbers of ``names``, behind those before."""
        for batch in batches:
            self._held.append(batch)
            self._rows += len(batch.lines)
        if self._rows >= _ROWS_HELD:
            self._write()

    def keep(self) -> None:
        """Write what is still held, and give the file its name."""
        self._write()
        self._writer.close()
        self._output.keep()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, trace)

    def _write(self) -> None:
        if not self._held:
            return
        import pyarrow as pa

        held, self._held, self._rows = self._held, [], 0
        # Of rows that were published together, each partition has its own batch; lines say how they came.
        order = np.argsort(np.concatenate([batch.lines for batch in held]), kind="stable")
        ids = [one for batch in held for one in batch.samples.ids]
        times = np.concatenate([batch.samples.event_times for batch in held])[order]
        truths, guesses = (
            np.concatenate([getattr(batch, of) for batch in held])[order] for of in ("truths", "guesses")
        )
        values, chances = (
            np.concatenate([getattr(batch, of) for batch in held])[order] for of in ("values", "probabilities")
        )
        versions = np.concatenate([np.full(len(batch.lines), batch.version) for batch in held])[order]
        names, unknown = pa.array(list(self.names), pa.string()), guesses < 0
        untimed = np.full(len(times), not self._timed)
        columns = [
            pa.array([ids[at] for at in order.tolist()], pa.string()),
            pa.array(times, pa.int64(), mask=untimed).cast(pa.timestamp("ms", "UTC")),
            names.take(pa.array(truths)),
            names.take(pa.array(guesses, mask=unknown)),
            pa.array(values, mask=unknown),
            pa.array(chances, mask=np.isnan(chances)),
            pa.array(versions, mask=unknown),
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
