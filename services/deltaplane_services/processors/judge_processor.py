"""The judge as a processor: predictions and samples in, the scores of what was served out.

It reads what others have read and written anyway, and writes nothing: whoever runs none loses figures, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltaplane import limits
from deltaplane.log.served import ServedScores
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of
from deltaplane_services.processors.messages import Record

__all__ = ["JudgeProcessor"]


class JudgeProcessor:
    """Holds the labels of samples against the predictions of the same ids.

    All predictions that lie before a sample should be given before it: an answer that comes behind the label of its row
    waits for another one.
    """

    def __init__(
        self, definition: StreamDefinition, most: int = limits.SERVED_ANSWERS, codec: Codec | None = None
    ) -> None:
        self.served = ServedScores(definition, most)
        self.unreadable = 0
        self._codec = codec or codec_of(definition)

    def hear(self, predictions: Sequence[Record]) -> None:
        """Note predictions; queries that could not be answered are none."""
        self.served.predicted(self._answers(predictions))

    def _answers(self, predictions: Sequence[Record]) -> Iterator[tuple[str, str]]:
        for record in predictions:
            prediction = self._codec.prediction(record)
            if isinstance(prediction, Undecodable):
                self.unreadable += 1
                continue
            yield prediction.id, prediction.predicted

    def see(self, samples: Sequence[Record]) -> int:
        """How many predictions are judged by the labels of these samples. What a worker refuses is passed over."""
        return sum(self.served.labelled(self._labels(record)) for record in samples)

    def _labels(self, record: Record) -> list[tuple[str, str]]:
        if not self.served.waiting:
            return []
        samples = self._codec.rows(record)
        if isinstance(samples, Undecodable):
            self.unreadable += 1
            return []
        labels = [samples.label_table[code] for code in samples.label_codes.tolist()]
        return list(zip(samples.ids, labels, strict=True))
