"""The scorer as a processor: queries in, predictions of the newest model out.

Every query gets one answer, under a key that names the query's place. If it cannot be answered, the answer has a reason
instead of a class, since those who ask read only the answers; a dead letter is written as well. Queries that come
before there is a plane are not refused: they wait in their topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.log.answers import Answers, answer
from deltaplane.log.drift import DriftWatch
from deltaplane.log.model import Model
from deltaplane.log.reasons import Reasons, reasons
from deltaplane.log.records import NamedQuery, Prediction, Query, Unanswered
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.announced import OtherDefinitions
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of, outgoing
from deltaplane_services.processors.messages import (
    PREDICTIONS,
    Headers,
    Outgoing,
    Output,
    Record,
    answer_key,
)
from deltaplane_services.processors.refused_records import dead_letter, shortened

__all__ = ["BAD_HEADER", "BAD_ID", "BAD_VALUE", "EXTRAS", "LEFT_OUT", "WITH", "ScorerProcessor"]

BAD_ID, BAD_VALUE, BAD_HEADER = "bad id", "bad value", "bad header"

WITH = "deltaplane-with"
"""The header of a query that says what its answer is to have beside the class, with commas: of :data:`EXTRAS`."""

EXTRAS = frozenset({"probabilities", "reasons"})

LEFT_OUT = "deltaplane-headers-left-out"
"""The header of an answer that says how many of the query's headers did not fit."""

_SHOWN = 50


@dataclass(frozen=True)
class _Refused:
    """Why a query cannot be answered, and its id as far as that is known."""

    id: str
    kind: str
    reason: str


@dataclass(frozen=True)
class _Answer:
    """The answer at position ``at`` of ``answers``, the extras that it is to have, and its reasons, if known."""

    answers: Answers
    at: int
    extras: frozenset[str]
    why: Reasons | None


class ScorerProcessor:
    """Answers every query once a model with a plane exists; until then ``ready`` is False and queries wait.

    ``watches``: partition to the watch over the features of its answered queries; None, the default, watches nothing.
    ``drifts``: the number of drifts that they have found.
    """

    def __init__(self, definition: StreamDefinition, codec: Codec | None = None) -> None:
        self.definition = definition
        self._codec = codec or codec_of(definition)
        self.model: Model | None = None
        self.watches: dict[int, DriftWatch] | None = None
        self.drifts = 0
        self._others = OtherDefinitions(definition)

    @property
    def ready(self) -> bool:
        """Whether there is a plane to predict with."""
        return self.model is not None and self.model.plane is not None

    def see_model(self, model: Model) -> None:
        """Take a newer model; a lower version is ignored."""
        if model.replaces(self.model):
            self.model = model

    def process(self, queries: Sequence[Record]) -> Output:
        """One answer for each query, in order, and a dead letter for each that cannot be answered.

        Raises RuntimeError before there is a plane.
        """
        model = self.model
        if model is None or model.plane is None:
            raise RuntimeError("process() before there is a plane; hold queries back while the scorer is not ready")
        asked = [self._asked(record) for record in queries]
        good = [one for one in asked if not isinstance(one, _Refused)]
        rows, unread = self._rows(good)
        answers, place = answer(model.plane, self.definition, rows, unread), 0
        if self.watches is not None:
            at_work = [record for record, one in zip(queries, asked, strict=True) if not isinstance(one, _Refused)]
            self._watch(at_work, rows, answers)
        wanted = [_extras(record) for record, one in zip(queries, asked, strict=True) if not isinstance(one, _Refused)]
        # Probabilities and reasons are computed only if a query asks for them.
        answers = answers.of_model(model) if any("probabilities" in extras for extras in wanted) else answers
        why = None
        if any("reasons" in extras for extras in wanted):
            why = reasons(model.plane, self.definition, rows, answers.chosen)
        first: list[Outgoing] = []
        then: list[Outgoing] = []
        for record, one in zip(queries, asked, strict=True):
            refused = one
            if not isinstance(refused, _Refused):
                query, at, place = refused, place, place + 1
                if at not in answers.refusals:
                    then.append(self._predicted(record, query, model, _Answer(answers, at, wanted[at], why)))
                    continue
                refused = _Refused(query.id, BAD_VALUE, f"query {query.id!r}: {answers.refusals[at]}")
            first.append(dead_letter(record, refused.kind, refused.reason, limits.DEAD_LETTER_BYTES))
            then.append(self._unanswered(record, refused, model))
        return Output(tuple(first), tuple(then))

    def keep_watches(self, partitions: Collection[int]) -> None:
        """Forget what was seen of partitions that are with other scorers now."""
        if self.watches is not None:
            self.watches = {partition: watch for partition, watch in self.watches.items() if partition in partitions}

    def _watch(self, records: Sequence[Record], rows: Floats, answers: Answers) -> None:
        """Look for drift in the features float64[n, d] of n queries; what could not be answered is left out."""
        assert self.watches is not None, "only called if somebody asks"
        of: dict[int, list[int]] = {}
        for at, record in enumerate(records):
            if at not in answers.refusals:
                of.setdefault(record.partition, []).append(at)
        for partition, chosen in of.items():
            watch = self.watches.get(partition)
            if watch is None:
                watch = self.watches[partition] = DriftWatch(rows.shape[1])
            self.drifts += len(watch.add(rows[chosen]))

    def _rows(self, queries: Sequence[Query | NamedQuery]) -> tuple[Floats, dict[int, str]]:
        """(features float64[n, d] of n queries, row to reason of those without); rows by name are encoded together."""
        definition = self.definition
        rows, named = np.empty((len(queries), len(definition.features))), dict[int, Mapping[str, Any]]()
        for at, query in enumerate(queries):
            if isinstance(query, NamedQuery):
                named[at] = query.cells
            else:
                rows[at] = query.features
        if not named or definition.columns is None:
            return rows, {}
        encoded, places = definition.columns.encode_records(list(named.values())), list(named)
        rows[places] = encoded.features
        return rows, {places[row]: reason for row, reason in encoded.reasons.items()}

    def _asked(self, record: Record) -> Query | NamedQuery | _Refused:
        """The query in a record, or why it cannot be answered."""
        query = self._codec.query(record)
        if isinstance(query, Undecodable):
            kind, reason = self._others.kind_and_reason(record, query.fault)
            return _Refused(_text(record.key) if query.id is None else query.id, kind, reason)
        if unknown := _extras(record) - EXTRAS:
            reason = (
                f"query {query.id[:_SHOWN]!r}: header {WITH}: expected {', '.join(sorted(EXTRAS))}, or both with a"
                f" comma, got {min(unknown)[:_SHOWN]!r}"
            )
            return _Refused(query.id, BAD_HEADER, reason)
        size = len(query.id.encode())
        if size > limits.ID_BYTES:
            # The answer repeats the id, and must fit its topic.
            reason = (
                f"query {query.id[:_SHOWN]!r}...: expected an id of at most {limits.ID_BYTES} bytes, got {size};"
                " shorten it"
            )
            return _Refused(query.id, BAD_ID, reason)
        return query

    def _predicted(self, record: Record, query: Query | NamedQuery, model: Model, of: _Answer) -> Outgoing:
        answers, at = of.answers, of.at
        prediction = Prediction(
            id=query.id,
            predicted=answers.plane.classes[int(answers.chosen[at])],
            decisions=answers.decisions(at),
            model_version=model.version,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            probabilities=answers.probabilities_of(at) if "probabilities" in of.extras else {},
            reasons=tuple(of.why.largest(at)) if of.why is not None and "reasons" in of.extras else (),
        )
        return self._outgoing(record, prediction)

    def _unanswered(self, record: Record, refused: _Refused, model: Model) -> Outgoing:
        unanswered = Unanswered(
            # A code point takes four bytes at most.
            id=refused.id[: limits.ID_BYTES // 4] if len(refused.id.encode()) > limits.ID_BYTES else refused.id,
            model_version=model.version,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            kind=refused.kind,
            reason=shortened(refused.reason),
            key=None if record.key is None else record.key[: limits.ID_BYTES],
        )
        return self._outgoing(record, unanswered)

    def _outgoing(self, record: Record, said: Prediction | Unanswered) -> Outgoing:
        key = answer_key(self.definition.name, record)
        return outgoing(PREDICTIONS, record.partition, key, said, _returned(record.headers))


def _extras(record: Record) -> frozenset[str]:
    """What the answer to a query is to have beside the class."""
    said = [value or b"" for name, value in record.headers if name == WITH]
    return frozenset(word.strip() for value in said for word in value.decode("utf-8", "replace").split(","))


def _text(key: bytes | None) -> str:
    """The key of a record as a text; empty if there is no key, or it is no text."""
    try:
        return (key or b"").decode()
    except UnicodeDecodeError:
        return ""


def _returned(headers: Headers) -> Headers:
    """The headers of a query that its answer returns: those that fit, in order, and one with the number of the others.

    If all fit, there is no such header.
    """
    kept: list[tuple[str, bytes | None]] = []
    room = limits.HEADERS_BYTES
    for name, value in headers:
        size = len(name.encode()) + len(value or b"")
        if len(kept) < limits.HEADERS and size <= room:
            kept.append((name, value))
            room -= size
    left_out = len(headers) - len(kept)
    return tuple(kept) if not left_out else (*kept, (LEFT_OUT, str(left_out).encode()))
