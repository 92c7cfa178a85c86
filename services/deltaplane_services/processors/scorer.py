"""The scorer as a processor: queries in, predictions of the newest model out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deltaplane import limits
from deltaplane.definition import StreamDefinition
from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.model import Model
from deltaplane.records import Prediction
from deltaplane.wire import read_query, write_prediction
from deltaplane_services.processors.records import PREDICTIONS, Outgoing, Output, Record, dead_letter, origin_key


class ScorerProcessor:
    """Answers every query once a model with a plane exists; until then ``ready`` is False and queries wait."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.model: Model | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a plane to predict with."""
        return self.model is not None and self.model.plane is not None

    def see_model(self, model: Model) -> None:
        """Take a newer model; a lower version is ignored."""
        if model.replaces(self.model):
            self.model = model

    def process(self, queries: Sequence[Record]) -> Output:
        """One prediction for each query; what cannot be answered becomes a dead letter with the reason."""
        first: list[Outgoing] = []
        answers: list[Outgoing] = []
        for record in queries:
            try:
                answers.append(self._answer(record))
            except (WireError, DefinitionMismatch) as fault:
                kind = "bad record" if isinstance(fault, WireError) else "other definition"
                first.append(dead_letter(record, kind, str(fault), limits.DEAD_LETTER_BYTES))
        return Output(tuple(first), tuple(answers))

    def _answer(self, record: Record) -> Outgoing:
        if self.model is None or self.model.plane is None:
            raise RuntimeError("process() before there is a plane; hold queries back while the scorer is not ready")
        query = read_query(record.value, len(self.definition.features), self.definition.data_fingerprint)
        if len(query.id.encode()) > limits.ID_BYTES:
            # It comes back in the prediction, which must fit its topic.
            raise WireError(
                f"query {query.id[:50]!r}...: expected an id of at most {limits.ID_BYTES} bytes, got"
                f" {len(query.id.encode())}; shorten it"
            )
        row = query.features[None, :]
        if self.definition.missing == "offset":
            row = np.where(np.isnan(row), self.definition.grid.offsets, row)
        _, fits = self.definition.grid.place(row)
        if not fits[0]:
            raise WireError(f"query {query.id!r}: {self.definition.grid.fault(row[0], self.definition.features)}")
        plane = self.model.plane
        row, _ = self.definition.plane_inputs(row)
        prediction = Prediction(
            id=query.id,
            predicted=plane.classes[int(plane.predict(row)[0])],
            decisions=self.model.decisions(row[0]),
            model_version=self.model.version,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        key = origin_key(record.topic, record.partition, record.offset)
        return Outgoing(PREDICTIONS, record.partition, key, write_prediction(prediction))
