"""The codec of a stream: the messages in records, and the records of messages.

Only this module knows how messages are written. Processors ask it for values, and give it values to be sent; runners
hand it to them. Input in another form is a codec of its own: a class that reads samples, retirements and queries
otherwise. Records are decoded when a processor comes to them, since some kilobytes may unpack to gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from deltaplane.errors import DefinitionMismatch, WireError
from deltaplane.log.delta import Claim, Delta, SourceOrder
from deltaplane.log.model import Model
from deltaplane.log.records import Checkpoint, DeadLetter, NamedQuery, Prediction, Query, Receipt, Unanswered
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    NamedSamples,
    named_features,
    query_id,
    read_checkpoint,
    read_claim_or_delta,
    read_model,
    read_prediction,
    read_query,
    read_retirement,
    read_samples,
    single_samples,
    write_checkpoint,
    write_claim,
    write_dead_letter,
    write_delta,
    write_model,
    write_prediction,
    write_receipt,
    write_retirement,
    write_sample_batch,
    write_unanswered,
)
from deltaplane_services.processors.messages import Encoding, Headers, Outgoing, Record
from deltaplane_services.processors.topics import RETIREMENTS, SAMPLES

__all__ = ["Change", "Codec", "Undecodable", "outgoing", "read_published_model", "read_published_samples"]

Change = Claim | Delta | SourceOrder

_M = TypeVar("_M")


class Undecodable(NamedTuple):
    """A record that holds no message of the stream, and why; ``id`` is that of a query, as far as it can be read."""

    record: Record
    fault: WireError | DefinitionMismatch
    id: str | None = None


def read_published_samples(record: Record, definition: StreamDefinition) -> Samples:
    """The rows in a record of the samples topic. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    if isinstance(record.decoded, Samples):
        return record.decoded.at(record.offset, record.log_time)
    features, fingerprint = len(definition.features), definition.data_fingerprint
    return read_samples(record.value, features, fingerprint, record.offset, record.log_time, columns=definition.columns)


def read_published_model(record: Record) -> Model:
    """The model in a record of the models topic. Raises :class:`WireError`."""
    return record.decoded if isinstance(record.decoded, Model) else read_model(record.value)


def _message(read: Callable[[Record], _M], record: Record) -> _M | Undecodable:
    try:
        return read(record)
    except (WireError, DefinitionMismatch) as fault:
        return Undecodable(record, fault)


class Codec:
    """Reads and writes the messages of one stream, in Avro."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self._singles = single_samples(len(definition.features), definition.data_fingerprint)
        self._named = NamedSamples(definition.columns, definition.data_fingerprint)

    # Messages of records ---------------------------------------------------------------------------------------------

    def samples(self, records: Iterable[Record]) -> Iterator[Samples | Undecodable]:
        """The rows of records of samples, in order: several records may give one value."""
        singles, named = self._singles, self._named
        by_name = self.definition.columns is not None
        for record in records:
            # Messages of single samples are gathered as long as the next has the same form. Only one form waits.
            if record.decoded is None and singles.take(record.value, record.offset, record.log_time):
                if by_name and len(named):
                    yield named.samples()
                continue
            if len(singles):
                yield singles.samples()
            try:
                if record.decoded is None and named.take(record.value, record.offset, record.log_time):
                    continue
            except (WireError, DefinitionMismatch) as fault:
                yield Undecodable(record, fault)
                continue
            if len(named):
                yield named.samples()
            yield self.rows(record)
        yield from (one.samples() for one in (singles, named) if len(one))

    def rows(self, record: Record) -> Samples | Undecodable:
        """The rows of one record of samples."""
        return _message(lambda one: read_published_samples(one, self.definition), record)

    def features_made(self, record: Record) -> int:
        """The number of feature values that a record of rows by name unpacks to; 0 for any other."""
        # Records passed on within this process have no bytes yet, and are not encoded only to be measured.
        return 0 if record.decoded is not None else named_features(record.value, self.definition.columns)

    def retirement(self, record: Record) -> Retirement | Undecodable:
        """The retirement in a record."""
        features, fingerprint = len(self.definition.features), self.definition.data_fingerprint
        return _message(lambda one: read_retirement(one.value, features, fingerprint, one.offset), record)

    def change(self, record: Record) -> Change | Undecodable:
        """The claim, delta or order in a record of the deltas topic."""
        if isinstance(record.decoded, Delta):
            return record.decoded
        return _message(lambda one: read_claim_or_delta(one.value, self.definition.dimensions), record)

    def checkpoint(self, record: Record) -> Checkpoint | Undecodable:
        """The checkpoint in a record, which may be one of another definition."""
        return _message(lambda one: read_checkpoint(one.value, self.definition.dimensions), record)

    def model(self, record: Record) -> Model | Undecodable:
        """The model in a record, which may be one of another definition."""
        return _message(read_published_model, record)

    def query(self, record: Record) -> Query | NamedQuery | Undecodable:
        """The query in a record."""
        definition = self.definition
        by_name, features = definition.columns is not None, len(definition.features)
        try:
            return read_query(record.value, features, definition.data_fingerprint, by_name=by_name)
        except (WireError, DefinitionMismatch) as fault:
            return Undecodable(record, fault, query_id(record.value))

    def prediction(self, record: Record) -> Prediction | Undecodable:
        """The prediction in a record; an answer that is none is undecodable."""
        return _message(lambda one: read_prediction(one.value), record)

    # Records of messages ---------------------------------------------------------------------------------------------

    def sample_batch(self, partition: int, samples: Samples) -> Outgoing:
        """The record of a batch of samples, which is encoded only when its bytes are asked for."""
        write = partial(write_sample_batch, samples, self.definition.data_fingerprint)
        return Outgoing(SAMPLES, partition, None, Encoding(write, samples.features.nbytes), samples)

    def retirement_of(self, partition: int, retirement: Retirement) -> Outgoing:
        """The record of a retirement."""
        value = write_retirement(retirement, self.definition.data_fingerprint)
        return Outgoing(RETIREMENTS, partition, retirement.id.encode(), value)


_WRITERS: Mapping[type, Callable[[Any], bytes]] = {
    Claim: write_claim,
    Delta: write_delta,
    Checkpoint: write_checkpoint,
    Model: write_model,
    Prediction: write_prediction,
    Unanswered: write_unanswered,
    Receipt: write_receipt,
    DeadLetter: write_dead_letter,
}
_PASSED_ON = (Delta, Model, Prediction, Unanswered, DeadLetter)


def outgoing(
    topic: str, partition: int, key: bytes, message: object, headers: Headers = (), source_bytes: int | None = None
) -> Outgoing:
    """The record of a message; with ``source_bytes`` it is encoded only when its bytes are asked for.

    ``source_bytes``: the memory that the message takes until then. Raises :class:`WireError` and
    :class:`LimitExceeded` if it cannot be encoded, then or at once.
    """
    write = partial(_WRITERS[type(message)], message)
    content = write() if source_bytes is None else Encoding(write, source_bytes)
    return Outgoing(topic, partition, key, content, message if isinstance(message, _PASSED_ON) else None, headers)
