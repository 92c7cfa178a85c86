"""Deltaplane in a user's own process: publish samples and retirements, follow the live model, predict.

    from deltaplane_services import LiveModel, SampleProducer

    with SampleProducer.connect("stream.toml", broker="127.0.0.1:9092") as producer:
        producer.send("order-17", event_time, "fraud", {"amount": 12.5, "country": "DE", "known": None})
        producer.retire("order-3", "asked for")

    with LiveModel.connect("stream.toml", broker="127.0.0.1:9092") as live:
        live.wait(10.0)
        live.predict(rows)

What is not said comes from the environment and the definition file, as for a command. Whoever has settings already
gives them: ``LiveModel(settings)``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.blas_threads import blas_threads
from deltaplane.columns.encoder import Cells, Encoder
from deltaplane.errors import DefinitionError, DeltaplaneError, RowsRefused
from deltaplane.log.answers import Answers, answer
from deltaplane.log.model import Model
from deltaplane.log.reasons import LARGEST, Reasons, reasons
from deltaplane.solve.solver import Plane
from deltaplane.stream.rows_by_name import features_by_name, features_of, is_by_name, table_by_name
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_services.connecting import settings_of
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader, sample_publisher, topic_watch
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import MODELS
from deltaplane_services.readers import codes_of
from deltaplane_services.sent_rows import check_admitted, milliseconds_of, refused, text_of, texts_of, warn_of_unit

__all__ = ["LiveModel", "NoPlane", "NoProbabilities", "SampleProducer"]

logger = logging.getLogger(__name__)

_NO_ANSWER = "have no answer", "leave them out, or ask answer(), which answers the others"
_OR_NEVER = (
    "wait for more; or the definition says solver.calibrate = false, has very many classes, or its merger is of an"
    " earlier version"
)
_OR_BY_NAME = ", encoded; or a dictionary of the cells of columns.rules"
_NONE_SENT = "cannot be sent, and none was", "correct them, or leave them out"


class NoPlane(DeltaplaneError):
    """There is no model with a plane yet."""


class NoProbabilities(DeltaplaneError):
    """The model has a plane, but not what probabilities or reasons are computed from."""


class SampleProducer:
    """Publishes samples and retirements of one stream; used from one thread, and flushed at the end of its block.

    With ``check``, a row that a worker would refuse (a label that the stream has not, a value outside its grid) raises
    :class:`deltaplane.errors.RowsRefused` here, with the worker's reason, and a time that seems to be in another unit
    than milliseconds is pointed out. Without, the row becomes a dead letter.
    """

    def __init__(self, settings: ServiceSettings, *, check: bool = True) -> None:
        self._definition, self._codec = settings.definition, codec_of(settings.definition)
        self._publisher = sample_publisher(settings)
        self._checks, self._warned = check, False

    @classmethod
    def connect(cls, definition: str | os.PathLike[str], *, check: bool = True, **settings: Any) -> Self:
        """A producer for the stream of a definition file, with settings of a service, such as ``broker``.

        Raises :class:`DefinitionError` for what the file or the settings say wrong.
        """
        return cls(settings_of(Path(definition), settings), check=check)

    def send(
        self,
        sample_id: str | int,
        event_time: int | datetime,
        label: str | int,
        features: Sequence[float] | Mapping[str, Any],
    ) -> None:
        """Publish one sample: its features in the definition's order, or a dictionary of the columns of its table.

        ``event_time`` is a datetime with a zone, or milliseconds since the epoch. If the definition has
        ``[columns]``, the cells of a dictionary travel as they are, and the worker encodes them. Without, they are the
        features by name.

        Raises :class:`DefinitionError` for another number of features than the stream has, and
        :class:`deltaplane.errors.RowsRefused` for a column that it has not, a cell that no message can carry, or what
        is said of ``check``. Warns (RuntimeWarning), once, of a time that seems to be in another unit.
        """
        columns = self._definition.columns
        name, said, time_of = text_of(sample_id, "id"), text_of(label, "label"), self._times_of(event_time)
        if isinstance(features, Mapping) and columns is not None:
            record = self._codec.sample(name, int(time_of[0]), said, features)
            encoded = columns.encode_records([features]) if self._checks else None
            if encoded is not None:
                self._check_rows([name], time_of, [said], encoded.features, encoded.reasons)
        else:
            row = self._features_of(features) if isinstance(features, Mapping) else features
            self._check(len(row))
            self._check_rows([name], time_of, [said], np.array([row], dtype=np.float64))
            record = self._codec.sample(name, int(time_of[0]), said, row)
        self._publisher.publish((record,))

    def send_batch(
        self,
        ids: Iterable[Any],
        event_times: Any,
        labels: Iterable[Any],
        features: Any,
        feature_type: Literal["float32", "float64"] = "float64",
    ) -> None:
        """Publish n samples, as one message for each partition they fall into, or a few of them.

        ``ids`` and ``labels`` are texts or whole numbers; ``event_times`` int64[n] milliseconds since the epoch, or
        datetimes. Each may be a list, an array or a series. ``features``: float64[n, d], or a table of the columns by
        name: a list of dictionaries, a dictionary of columns, a data frame or an Arrow table. ``feature_type``: float32
        halves a message of features; values are rounded to it.

        Raises :class:`DefinitionError` for another number of features than the stream has, or columns that differ
        in length; and what :meth:`send` raises of a row, before any of it is sent.
        """
        columns, table = self._definition.columns, dict[str, Cells]()
        if is_by_name(features) and columns is not None:
            table, features = self._table_of(features, columns)
        else:
            features = self._features_of(features) if is_by_name(features) else np.asarray(features)
        names, said, times = texts_of(ids, "id"), texts_of(labels, "label"), self._times_of(event_times)
        lengths = {len(cells) for cells in table.values()} | {len(times), len(said), len(features)}
        if features.ndim != 2 or lengths != {len(names)}:
            raise DefinitionError(
                f"samples: expected columns of one length and features [n, d], got {len(names)} ids,"
                f" {len(times)} event times, {len(said)} labels, features {features.shape}"
            )
        if not table:
            self._check(features.shape[1])
        if table and columns is not None and self._checks:
            encoded = columns.encode(table)
            self._check_rows(names, times, said, encoded.features, encoded.reasons)
        elif not table:
            self._check_rows(names, times, said, features)
        samples = _samples(names, times, said, features)
        home = self._definition.partitions_of(names)
        of = [(partition, np.flatnonzero(home == partition)) for partition in np.unique(home).tolist()]
        if not table:
            out = [self._codec.sample_batch(at, samples.chosen(rows), feature_type).encoded for at, rows in of]
        else:
            try:
                out = [one for at, rows in of for one in self._codec.named_batches(at, samples, table, rows)]
            except RowsRefused as fault:
                raise refused(fault.refusals, len(samples), _NONE_SENT) from None
        self._publisher.publish(out)

    def _times_of(self, given: Any) -> Int64s:
        times = milliseconds_of(given)
        self._warned = self._warned or not self._checks or warn_of_unit(times, time.time_ns() // 1_000_000)
        return times

    def _check_rows(
        self,
        ids: Sequence[str],
        times: Int64s,
        labels: Sequence[str],
        features: Floats,
        unread: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Raise what :func:`check_admitted` raises, if rows are to be checked."""
        if self._checks:
            samples = _samples(ids, times, labels, features, time.time_ns() // 1_000_000)
            check_admitted(replace(samples, unread=unread), self._definition)

    def _table_of(self, rows: Any, columns: Encoder) -> tuple[dict[str, Cells], Floats]:
        """The columns of rows by name that have rules, and for each row no features."""
        table, strange = table_by_name(self._definition, rows)
        read = {name: table[name] for name in columns.columns}
        count = len(read[columns.columns[0]])
        if strange:
            raise refused(strange, count, _NONE_SENT)
        return read, np.empty((count, 0))

    def _features_of(self, rows: Any) -> Any:
        """The features of rows by name in a stream without ``[columns]``, float64[n, d], or [d] of one row."""
        features, unread = features_by_name(self._definition, rows)
        if unread:
            raise refused(unread, len(features), _NONE_SENT)
        return features[0] if isinstance(rows, Mapping) and len(features) == 1 else features

    def retire(self, sample_id: str, reason: str) -> None:
        """Ask for a sample to be unlearned; the receipt comes on the receipts topic."""
        retirement = Retirement(sample_id, reason, 0, time=time.time_ns() // 1_000_000)
        self._publisher.publish((self._codec.retirement_of(self._definition.partition_of(sample_id), retirement),))

    def _check(self, features: int) -> None:
        expected = len(self._definition.features)
        if features != expected:
            raise DefinitionError(
                f"sample: expected {expected} features, got {features} (the first is {self._definition.features[0]!r});"
                f" send them in the definition's order{_OR_BY_NAME if self._definition.columns else ''}"
            )

    def flush(self) -> None:
        """Wait until everything is acknowledged. Raises :class:`DeliveryFailed` if it is not."""
        self._publisher.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


class LiveModel:
    """Follows a stream's model in a thread of its own and predicts in the caller's; any thread may ask.

    A broker that is away for a while is waited for: the last model stays in force. So it does if the models topic is
    gone or was emptied, and ``stale`` says why; the first model of a topic that was made anew replaces it, whatever its
    version. Raises :class:`DefinitionMismatch` if the stream's models are of another definition.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._definition = settings.definition
        watch = topic_watch(settings, "central", (MODELS,))
        self._follower = ModelFollower(reader(settings, "central"), settings.definition, watch=watch)
        self._model = self._follower.model
        self._news = threading.Condition()
        self._stopping = False
        self._failure: DeltaplaneError | None = None
        self._thread = threading.Thread(target=self._follow, name="deltaplane-live-model", daemon=True)
        self._thread.start()

    @classmethod
    def connect(cls, definition: str | os.PathLike[str], **settings: Any) -> Self:
        """The live model of the stream of a definition file, with settings of a service, such as ``broker``.

        Raises :class:`DefinitionError` for what the file or the settings say wrong.
        """
        return cls(settings_of(Path(definition), settings))

    def _follow(self) -> None:
        try:
            while not self._stopping:
                for model in self._follower.poll(500, 0.05)[-1:]:
                    with self._news:
                        self._model = model
                        self._news.notify_all()
        except DeltaplaneError as fault:
            self._fail(fault)
        except Exception as fault:
            logger.exception("the model is followed no more")
            self._fail(DeltaplaneError(f"models: they are followed no more, after {fault!r}; make a new LiveModel"))

    def _fail(self, fault: DeltaplaneError) -> None:
        """Raise ``fault`` for whoever asks from now on: a model that is followed no more must not answer in silence."""
        with self._news:
            self._failure = fault
            self._news.notify_all()

    @property
    def stale(self) -> str | None:
        """Why nobody renews the model; None as long as its topic is followed."""
        return self._follower.stale

    @property
    def model(self) -> Model | None:
        """The newest model, if there is one. Raises what ended the following of it."""
        if self._failure is not None:
            raise self._failure
        return self._model

    def wait(self, timeout_seconds: float, version: int = 0) -> Model:
        """The first model with a plane and a version above ``version``. Raises :class:`NoPlane` if none comes.

        The versions of a models topic that was made anew begin below the old ones.
        """

        def there() -> bool:
            model = self._model
            return self._failure is not None or (
                model is not None and model.plane is not None and model.version > version
            )

        with self._news:
            self._news.wait_for(there, timeout_seconds)
        model = self.model
        if model is None or model.plane is None or model.version <= version:
            raise NoPlane(f"no model with a plane above version {version} came within {timeout_seconds:g} s")
        return model

    def predict(self, rows: Any) -> list[str]:
        """The class of each row by the newest plane: of features float64[n, d], or of rows by name.

        Rows by name are a dictionary (of one row, or of columns), a list of dictionaries, a data frame or an Arrow
        table. If the definition has ``[columns]``, they have the cells of its columns, and else the features
        themselves; an array is always of features, encoded ones if there are ``[columns]``.

        Raises :class:`NoPlane` before there is one, :class:`DefinitionError` for another number of features,
        :class:`deltaplane.errors.TableMismatch` if a table lacks a column, and
        :class:`deltaplane.errors.RowsRefused`, whose ``refusals`` have the reason for each row, if any row is one that
        a scorer would refuse: with values outside the grid, or not finite (a missing value, which is NaN, is filled in
        if the definition says so). :meth:`answer` answers the others.
        """
        answers = self._all_answered(rows)
        return [answers.plane.classes[index] for index in answers.chosen.tolist()]

    def answer(self, rows: Any) -> Answers:
        """What a scorer would answer for each row: classes, decision values, probabilities, reasons of refusals.

        ``rows``: as :meth:`predict` takes them. Raises :class:`NoPlane` before there is a plane, and what
        :meth:`predict` raises for what are no such rows.
        """
        return self._answered(rows)[0]

    def _answered(self, rows: Any, *, why: bool = False) -> tuple[Answers, Reasons | None]:
        model, plane = self._with_plane()
        features, unread = features_of(self._definition, rows)
        mapped = self._definition.feature_map.kind != "none"
        # A map multiplies matrices, and the process is the user's: its BLAS threads are set back afterwards.
        with blas_threads() if mapped else nullcontext():
            answers = answer(plane, self._definition, features, unread).of_model(model)
            if not why:
                return answers, None
            asked = np.asarray(features, dtype=np.float64)
            return answers, reasons(plane, self._definition, asked, answers.chosen)

    def _with_plane(self) -> tuple[Model, Plane]:
        model = self.model
        if model is None or model.plane is None:
            raise NoPlane("no model with a plane yet; call wait() first")
        return model, model.plane

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that the newest plane tells apart, in the order of :meth:`predict_proba`.

        Raises :class:`NoPlane` before there is one.
        """
        return self._with_plane()[1].classes

    def decision_function(self, rows: Any) -> Floats:
        """Decision values: float64[n] of two classes, above 0 for the positive one; float64[n, k] of more.

        ``rows``, and what is raised: as of :meth:`predict`.
        """
        answers = self._all_answered(rows)
        return answers.values if answers.plane.positive is None else answers.values[:, 0]

    def predict_proba(self, rows: Any) -> Floats:
        """The probability float64[n, k] of each of :attr:`classes`, calibrated on rows scored before they were learned.

        Those of a row add to 1. The class that is predicted is that of the decision value, with the threshold that is
        best for the objective (:attr:`Model.objective`), and need not be the likeliest. ``rows``: as of
        :meth:`predict`; raises what it raises, and :class:`NoProbabilities` if the model has none.
        """
        answers = self._all_answered(rows)
        if answers.probabilities is None:
            raise NoProbabilities(
                f"probabilities: the model has none: no row of some class was scored yet; {_OR_NEVER}"
            )
        return answers.probabilities

    def reasons(self, rows: Any, most: int = LARGEST) -> list[list[tuple[str, float]]]:
        """For each row the columns that contribute most to the decision value of its class, with what they contribute.

        A contribution is measured against the mean of the live rows: all of them together (``most`` large enough) are
        the decision value less that of this mean. See :mod:`deltaplane.log.reasons` for feature maps. ``rows``: as of
        :meth:`predict`; raises what it raises, and :class:`NoProbabilities` if the model has no such mean.
        """
        answers, why = self._answered(rows, why=True)
        _check_all(answers)
        if why is None:
            raise NoProbabilities(f"reasons: the model does not say where the live rows lie; {_OR_NEVER}")
        return [why.largest(row, most) for row in range(len(answers))]

    def _all_answered(self, rows: Any) -> Answers:
        answers = self.answer(rows)
        _check_all(answers)
        return answers

    def close(self) -> None:
        """Stop following."""
        self._stopping = True
        self._thread.join()
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _samples(ids: Sequence[str], times: Int64s, labels: Sequence[str], features: Floats, log_time: int = 0) -> Samples:
    table, codes = codes_of(labels)
    return Samples.of_record(ids, times, table, codes, features, log_time)


def _check_all(answers: Answers) -> None:
    if refusals := answers.refusals:
        raise refused(refusals, len(answers), _NO_ANSWER)
