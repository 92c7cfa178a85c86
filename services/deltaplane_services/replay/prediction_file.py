"""A CSV or Parquet file with the prediction of each row before the row was learned, written during the replay.

Rows are held until there are 65,536 or more, so that memory does not grow with the stream. Each such part is a row
group of a Parquet file.
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

    The file appears only when ``keep`` is called. ``time`` is null if the stream has no event times. Rows without a
    prediction (those before the first plane, and those that taught nothing) are null from ``predicted`` on. ``score``
    is the decision value, and ``probability`` belongs to the same class: the positive one of two classes, which is
    predicted if the score is above 0, or the predicted one of more. ``probability`` is null if the model gives none.
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
        """Add batches that were published together, after those before. Their classes are numbers of ``names``."""
        for batch in batches:
            self._held.append(batch)
            self._rows += len(batch.lines)
        if self._rows >= _ROWS_HELD:
            self._write()

    def keep(self) -> None:
        """Write the rows that are still held, and give the file its final name."""
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
        # Rows that were published together lie in one batch for each partition; line numbers restore their order.
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
