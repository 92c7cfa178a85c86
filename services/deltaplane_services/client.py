"""Deltaplane in a user's own process: publish samples and retirements, follow the live model, predict.

    from deltaplane_services import LiveModel, SampleProducer

    with SampleProducer(settings) as producer:
        producer.send("order-17", event_time, "fraud", [12.5, 0.0, 3.0])
        producer.retire("order-3", "asked for")

    with LiveModel(settings) as live:
        live.wait(10.0)
        live.predict(rows)

``settings`` are those of a service: ``resolve_settings({"broker": "127.0.0.1:9092"}, os.environ, tables)``, where
``tables`` is the parsed ``deltaplane.toml``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from itertools import islice
from types import TracebackType
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Floats, Int64s
from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DefinitionError, DeltaplaneError, RowsRefused
from deltaplane.log.answers import Answers, answer
from deltaplane.log.model import Model
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import write_retirement, write_sample, write_sample_batch
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader, sample_publisher, topic_watch
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.processors.messages import MODELS, RETIREMENTS, SAMPLES, Outgoing

__all__ = ["LiveModel", "NoPlane", "SampleProducer"]

logger = logging.getLogger(__name__)

_SHOWN = 3
"""Rows that an error names; all of them are in its ``refusals``."""


class NoPlane(DeltaplaneError):
    """There is no model with a plane yet."""


class SampleProducer:
    """Publishes samples and retirements of one stream; used from one thread, and flushed at the end of its block."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._definition = settings.definition
        self._publisher = sample_publisher(settings)

    def send(self, sample_id: str, event_time_milliseconds: int, label: str, features: Sequence[float]) -> None:
        """Publish one sample. Raises :class:`DefinitionError` for another number of features than the stream has."""
        self._check(len(features))
        value = write_sample(sample_id, event_time_milliseconds, label, features, self._definition.data_fingerprint)
        partition = self._definition.partition_of(sample_id)
        self._publisher.publish((Outgoing(SAMPLES, partition, sample_id.encode(), value),))

    def send_batch(
        self,
        ids: Sequence[str],
        event_times_milliseconds: Int64s,
        labels: Sequence[str],
        features: Floats,
        feature_type: Literal["float32", "float64"] = "float64",
    ) -> None:
        """Publish n samples (features float64[n, d]), as one message for each partition they fall into.

        ``feature_type``: float32 halves the message; values are rounded to it. Raises :class:`DefinitionError` for
        another number of features than the stream has, or columns that differ in length.
        """
        if features.ndim != 2 or not len(ids) == len(event_times_milliseconds) == len(labels) == len(features):
            raise DefinitionError(
                f"samples: expected columns of one length and features [n, d], got {len(ids)} ids,"
                f" {len(event_times_milliseconds)} event times, {len(labels)} labels, features {features.shape}"
            )
        self._check(features.shape[1])
        place = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        table = tuple(place)
        codes = np.array([place[label] for label in labels], dtype=np.int32)
        home = self._definition.partitions_of(ids)
        for partition in np.unique(home).tolist():
            rows = np.flatnonzero(home == partition)
            chosen = [ids[row] for row in rows.tolist()]
            samples = Samples.of_record(chosen, event_times_milliseconds[rows], table, codes[rows], features[rows])
            value = write_sample_batch(samples, self._definition.data_fingerprint, feature_type)
            self._publisher.publish((Outgoing(SAMPLES, partition, None, value),))

    def retire(self, sample_id: str, reason: str) -> None:
        """Ask for a sample to be unlearned; the receipt comes on the receipts topic."""
        retirement = Retirement(sample_id, reason, 0, time=time.time_ns() // 1_000_000)
        partition = self._definition.partition_of(sample_id)
        value = write_retirement(retirement, self._definition.data_fingerprint)
        self._publisher.publish((Outgoing(RETIREMENTS, partition, sample_id.encode(), value),))

    def _check(self, features: int) -> None:
        expected = len(self._definition.features)
        if features != expected:
            raise DefinitionError(
                f"sample: expected {expected} features, got {features} (the first is {self._definition.features[0]!r});"
                " send them in the definition's order"
            )

    def flush(self) -> None:
        """Wait until everything is acknowledged. Raises :class:`DeliveryFailed` if it is not."""
        self._publisher.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()


class LiveModel:
    """Follows a stream's model in a thread of its own and predicts in the caller's; any thread may ask.

    A broker that is away for a while is waited for: the last model stays in force. So it does where the models topic is
    gone or was emptied, and ``stale`` says why; the first model of a topic that was made anew replaces it, whatever its
    version. Raises :class:`DefinitionMismatch` where the stream's models are of another definition.
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
        """Have whoever asks next told: a model that is followed no more must not answer in silence."""
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

    def predict(self, rows: npt.ArrayLike) -> list[str]:
        """The class of each raw row float64[n, d] by the newest plane.

        Raises :class:`NoPlane` before there is one, :class:`DefinitionError` for another number of features, and
        :class:`deltaplane.errors.RowsRefused`, whose ``refusals`` have the reason for each row, if any row is one that
        a scorer would refuse: with values outside the grid, or not finite (a missing value, which is NaN, is filled in
        if the definition says so). :meth:`answer` answers the others.
        """
        answers = self.answer(rows)
        if refusals := answers.refusals:
            shown = "; ".join(f"row {row}: {reason}" for row, reason in islice(refusals.items(), _SHOWN))
            more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
            raise RowsRefused(
                f"rows: {len(refusals)} of {len(answers)} have no answer: {shown}{more}; leave them out, or ask"
                " answer(), which answers the others",
                refusals,
            )
        return [answers.plane.classes[index] for index in answers.chosen.tolist()]

    def answer(self, rows: npt.ArrayLike) -> Answers:
        """What a scorer would answer for each raw row float64[n, d]: classes, decision values, reasons of refusals.

        Raises :class:`NoPlane` before there is a plane, and :class:`DefinitionError` for another number of features.
        """
        model = self.model
        if model is None or model.plane is None:
            raise NoPlane("no model with a plane yet; call wait() first")
        if self._definition.feature_map.kind == "none":
            return answer(model.plane, self._definition, rows)
        # The map is a product of matrices, in a process that is not ours.
        with blas_threads():
            return answer(model.plane, self._definition, rows)

    def close(self) -> None:
        """Stop following."""
        self._stopping = True
        self._thread.join()
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
