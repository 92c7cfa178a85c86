"""A replay that tests and trains row by row, at the price of one that does so by the hundred.

Rows go through the log and the pipeline in records of many. What becomes of each row under a model of all rows before
it is worked out beside that, from the same rows: the scores are those of a record, a delta and a model for every row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltaplane.log.merger import of_largest
from deltaplane.log.model import Model
from deltaplane.log.row_scores import RowScores
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.pipeline import EmbeddedPipeline

ROWS_AT_ONCE = 100


def by_row(definition: StreamDefinition, options: ReplayOptions) -> bool:
    """Whether a replay wants a model after every row, and its stream is one whose rows can be published together.

    Ids of the file's own may come twice, and a retirement comes between two rows: then each row is a record. So it is
    where somebody watches the stream go by at a speed of its own.
    """
    together = not options.retire_fraction and not options.input.get("id") and options.rows_per_second is None
    return options.chunk == 1 and together and RowScores.takes(definition)


class ByRowPipeline(EmbeddedPipeline):
    """The pipeline in this process; its model carries the scores of a stream with a new model after every row."""

    def __init__(self, definition: StreamDefinition, seed: int) -> None:
        super().__init__(definition, seed)
        self._definition = definition
        self._scores = RowScores(definition)
        self._known: list[str] = []

    @property
    def model(self) -> Model | None:
        """The newest model, with the scores of every row, and the last good plane after any of them."""
        model = super().model
        if model is None:
            return None
        plane = model.plane if model.refusal is None else self._scores.plane
        return replace(model, scores=of_largest(self._scores.scores, self._definition.most_classes), plane=plane)

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Score the rows one by one, and append them to the embedded broker's logs."""
        records = list(records)
        super().publish(records, now)
        for record in records:
            if record.topic == SAMPLES:
                assert isinstance(record.meaning, Samples), "the feed says what its records mean"
                admitted, _ = admit(record.meaning, self._definition, self._known)
                self._known += admitted.new_labels
                self._scores.add(admitted)
