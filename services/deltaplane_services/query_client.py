"""Asking a scorer from Python: queries go to their topic, answers come back from theirs.

    from deltaplane_services import QueryClient

    with QueryClient.connect("stream.toml", broker="127.0.0.1:9092") as client:
        print(client.ask({"amount": 12}).predicted)

Whoever can follow the model predicts faster in a process of their own: :class:`deltaplane_services.LiveModel`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from deltaplane.errors import DeltaplaneError
from deltaplane.log.records import Prediction, Unanswered
from deltaplane_services.connecting import settings_of
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.messages import PREDICTIONS, Headers
from deltaplane_services.processors.scorer_processor import EXTRAS, WITH

__all__ = ["NoAnswer", "QueryClient"]


class NoAnswer(DeltaplaneError):
    """No scorer has answered in time."""


class QueryClient:
    """Asks the scorers of a stream; used from one thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._codec = codec_of(settings.definition)
        # Names that nobody else has: the topic holds the answers to everybody's queries.
        self._name, self._asked = secrets.token_hex(8), 0
        self._answers = reader(settings, "central")
        partitions = range(settings.definition.partitions)
        self._answers.follow([(PREDICTIONS, at, self._answers.bounds(PREDICTIONS, at)[1]) for at in partitions])
        self._publisher = publisher(settings, "central")

    @classmethod
    def connect(cls, definition: str | os.PathLike[str], **settings: Any) -> Self:
        """A client of the stream of a definition file, with settings of a service, such as ``broker``."""
        return cls(settings_of(Path(definition), settings))

    def ask(
        self,
        row: Mapping[str, Any] | Sequence[float],
        timeout_seconds: float = 10.0,
        extras: Sequence[str] = ("probabilities",),
    ) -> Prediction | Unanswered:
        """The answer to one row: a dictionary by name, or the features in the definition's order.

        As :meth:`ask_all`.
        """
        return self.ask_all([row], timeout_seconds, extras)[0]

    def ask_all(
        self,
        rows: Sequence[Mapping[str, Any] | Sequence[float]],
        timeout_seconds: float = 10.0,
        extras: Sequence[str] = ("probabilities",),
        ids: Sequence[str] | None = None,
    ) -> list[Prediction | Unanswered]:
        """The answers to n rows, in their order; an :class:`Unanswered` has the reason why a row has no class.

        ``ids``: n different ids of the rows, by default some that nobody has. Under the id of its sample an answer can
        be held against the label that comes later (``deltaplane judge``); nobody else should ask by it meanwhile.
        ``extras``: what answers are to have beside the class and decision values, of ``probabilities`` and ``reasons``.
        Raises :class:`NoAnswer` if not all have come in time, and :class:`deltaplane.errors.WireError` or
        :class:`deltaplane.errors.RowsRefused` for a row that cannot be asked about.
        """
        if unknown := set(extras) - EXTRAS:
            raise DeltaplaneError(f"extras: expected some of {', '.join(sorted(EXTRAS))}, got {sorted(unknown)}")
        headers: Headers = ((WITH, ",".join(extras).encode()),) if extras else ()
        if ids is not None and not len(set(ids)) == len(ids) == len(rows):
            raise DeltaplaneError(f"ids: expected {len(rows)} different ones, one for each row, got {len(set(ids))}")
        names = ids or [f"{self._name}-{self._asked + at}" for at in range(1, len(rows) + 1)]
        self._asked += len(rows)
        records = [self._codec.query_of(name, row, headers) for name, row in zip(names, rows, strict=True)]
        waited = {str((record.key or b"").decode()): at for at, record in enumerate(records)}
        answers: dict[int, Prediction | Unanswered] = {}
        self._publisher.publish(records)
        self._publisher.flush()
        deadline = time.monotonic() + timeout_seconds
        while len(answers) < len(records):
            for record in self._answers.poll(500, 0.05):
                answer = self._codec.answer(record)
                if not isinstance(answer, Undecodable) and answer.id in waited:
                    answers[waited[answer.id]] = answer
            if len(answers) < len(records) and time.monotonic() >= deadline:
                raise NoAnswer(
                    f"queries: {len(records) - len(answers)} of {len(records)} have no answer within"
                    f" {timeout_seconds:g} s; is a scorer running, and is there a model yet?"
                )
        return [answers[at] for at in range(len(records))]

    def close(self) -> None:
        """Let go of the clients."""
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
