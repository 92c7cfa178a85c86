"""The codec of a stream: the messages in records, and the records of messages.

Only this module of the services knows how messages are written: whoever has a record asks it for the message, and
whoever has a message for the record. Input in another form is a codec of its own: a class that reads samples,
retirements and queries otherwise, and that :func:`codec_of` gives to the streams that have it. Records are decoded when
somebody comes to them, since some kilobytes may unpack to gigabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.columns.encoder import Cells, chosen_cells
from deltaplane.errors import DefinitionMismatch, RowsRefused, WireError
from deltaplane.log.delta import Claim, Delta, SourceOrder
from deltaplane.log.model import Model
from deltaplane.log.records import Checkpoint, DeadLetter, NamedQuery, Prediction, Query, Receipt, Unanswered
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name, is_by_name
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    NamedSamples,
    most_named_rows,
    named_features,
    query_id,
    read_answer,
    read_checkpoint,
    read_claim_or_delta,
    read_dead_letter,
    read_model,
    read_prediction,
    read_query,
    read_receipt,
    read_retirement,
    read_samples,
    single_samples,
    subjects_of,
    write_checkpoint,
    write_claim,
    write_dead_letter,
    write_delta,
    write_model,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
    write_prediction,
    write_query,
    write_receipt,
    write_retirement,
    write_sample,
    write_sample_batch,
    write_source_order,
    write_unanswered,
)
from deltaplane_services.processors.messages import Encoding, Headers, Outgoing, Record
from deltaplane_services.processors.topics import QUERIES, RETIREMENTS, SAMPLES

__all__ = [
    "Change",
    "Codec",
    "Undecodable",
    "codec_of",
    "outgoing",
    "read_published_samples",
    "readable",
]

Change = Claim | Delta | SourceOrder
_Row = Mapping[str, Any] | Sequence[float]
"""The cells or features of a row by name, or its features in the definition's order."""

_M = TypeVar("_M")


class Undecodable(NamedTuple):
    """A record that holds no message of the stream, and why; ``id`` is that of a query, as far as it can be read."""

    record: Record
    fault: WireError | DefinitionMismatch
    id: str | None = None


def readable(message: _M | Undecodable) -> _M:
    """A message that must be readable. Raises the fault of one that is not."""
    if isinstance(message, Undecodable):
        raise message.fault
    return message


def read_published_samples(record: Record, definition: StreamDefinition) -> Samples:
    """The rows in a record of the samples topic. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    return readable(codec_of(definition).rows(record))


def _message(read: Callable[[Record], _M], record: Record) -> _M | Undecodable:
    try:
        return read(record)
    except (WireError, DefinitionMismatch) as fault:
        return Undecodable(record, fault)


class Codec:
    """Reads and writes the messages of one stream, in Avro. It remembers nothing, and any thread may ask it."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition

    # Messages of records ---------------------------------------------------------------------------------------------

    def samples(self, records: Iterable[Record]) -> Iterator[Samples | Undecodable]:
        """The rows of records of samples, in order: several records may give one value."""
        definition = self.definition
        singles = single_samples(len(definition.features), definition.data_fingerprint)
        named = NamedSamples(definition.columns, definition.data_fingerprint)
        for record in records:
            # What was passed on within this process is decoded already.
            data = None if isinstance(record.content, Encoding) else record.content
            # Messages of single samples are gathered as long as the next has the same form. Only one form waits.
            if singles.take(data, record.offset, record.log_time):
                if len(named):
                    yield named.samples()
                continue
            if len(singles):
                yield singles.samples()
            try:
                if named.take(data, record.offset, record.log_time):
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
        if isinstance(record.message, Samples):
            return record.message.at(record.offset, record.log_time)
        of, place = self.definition, (record.offset, record.log_time)
        features, fingerprint = len(of.features), of.data_fingerprint
        return _message(lambda one: read_samples(one.value, features, fingerprint, *place, columns=of.columns), record)

    def features_made(self, record: Record) -> int:
        """The number of feature values that a record of rows by name unpacks to; 0 for any other."""
        # Records passed on within this process have no bytes yet, and are not encoded only to be measured.
        if isinstance(record.content, Encoding):
            return 0
        return named_features(record.value, self.definition.columns)

    def subjects(self, record: Record, column: str) -> Sequence[tuple[str, str | None]] | Undecodable:
        """(id, text in a column) of each row by name of a record; none for rows of another form."""
        fingerprint = self.definition.data_fingerprint
        return _message(lambda one: subjects_of(one.value, column, fingerprint), record)

    def retirement(self, record: Record) -> Retirement | Undecodable:
        """The retirement in a record."""
        features, fingerprint = len(self.definition.features), self.definition.data_fingerprint
        return _message(lambda one: read_retirement(one.value, features, fingerprint, one.offset), record)

    def change(self, record: Record) -> Change | Undecodable:
        """The claim, delta or order in a record of the deltas topic."""
        if isinstance(record.message, Delta):
            return record.message
        return _message(lambda one: read_claim_or_delta(one.value, self.definition.dimensions), record)

    def checkpoint(self, record: Record) -> Checkpoint | Undecodable:
        """The checkpoint in a record, which may be one of another definition."""
        return _message(lambda one: read_checkpoint(one.value, self.definition.dimensions), record)

    def query(self, record: Record) -> Query | NamedQuery | Undecodable:
        """The query in a record."""
        definition = self.definition
        by_name, features = definition.columns is not None, len(definition.features)
        try:
            return read_query(record.value, features, definition.data_fingerprint, by_name=by_name)
        except (WireError, DefinitionMismatch) as fault:
            return Undecodable(record, fault, query_id(record.value))

    # Messages that are the same in every stream.

    @staticmethod
    def model(record: Record) -> Model | Undecodable:
        """The model in a record, which may be one of another definition."""
        return (
            record.message if isinstance(record.message, Model) else _message(lambda one: read_model(one.value), record)
        )

    @staticmethod
    def prediction(record: Record) -> Prediction | Undecodable:
        """The prediction in a record; an answer that is none is undecodable."""
        return _message(lambda one: read_prediction(one.value), record)

    @staticmethod
    def answer(record: Record) -> Prediction | Unanswered | Undecodable:
        """The answer in a record of the predictions topic."""
        return _message(lambda one: read_answer(one.value), record)

    @staticmethod
    def receipt(record: Record) -> Receipt | Undecodable:
        """The receipt in a record."""
        return _message(lambda one: read_receipt(one.value), record)

    @staticmethod
    def dead_letter(record: Record) -> DeadLetter | Undecodable:
        """The dead letter in a record."""
        return _message(lambda one: read_dead_letter(one.value), record)

    # Records of messages ---------------------------------------------------------------------------------------------

    def sample(self, name: str, event_time: int, label: str, row: _Row) -> Outgoing:
        """The record of one sample: its features in order or, if the definition has columns, its cells by name.

        Raises :class:`WireError` and :class:`RowsRefused` for what no message can hold.
        """
        definition = self.definition
        fingerprint = definition.data_fingerprint
        if isinstance(row, Mapping):
            assert definition.columns is not None, "rows by name are encoded by columns"
            value = write_named_sample(name, event_time, label, row, definition.columns, fingerprint)
        else:
            value = write_sample(name, event_time, label, row, fingerprint)
        return Outgoing(SAMPLES, definition.partition_of(name), name.encode(), value)

    def sample_batch(
        self, partition: int, samples: Samples, feature_type: Literal["float32", "float64"] = "float64"
    ) -> Outgoing:
        """The record of a batch of samples, which is encoded only when its bytes are asked for."""
        write = partial(write_sample_batch, samples, self.definition.data_fingerprint, feature_type)
        return Outgoing(SAMPLES, partition, None, Encoding(samples, write, samples.features.nbytes))

    def named_batches(
        self, partition: int, samples: Samples, table: Mapping[str, Cells], rows: Int64s
    ) -> Iterator[Outgoing]:
        """The records of some rows by name, as many as it takes; ``table`` has the cells of all samples by column.

        ``rows`` are places among the samples, and ascend. Raises :class:`WireError`, and :class:`RowsRefused` by such
        places.
        """
        columns = self.definition.columns
        assert columns is not None, "rows by name are encoded by columns"
        for begin in range(0, len(rows), self.most_rows):
            chosen, part, these = rows[begin : begin + self.most_rows], table, samples
            if len(chosen) < len(samples):
                part = {name: chosen_cells(cells, chosen) for name, cells in table.items()}
                these = samples.chosen(chosen)
            try:
                value = write_named_sample_batch(these, part, columns, self.definition.data_fingerprint)
            except RowsRefused as fault:
                raise RowsRefused(str(fault), {int(chosen[at]): why for at, why in fault.refusals.items()}) from None
            yield Outgoing(SAMPLES, partition, None, value)

    @property
    def most_rows(self) -> int:
        """The most rows of one record of samples, if the definition has columns: what they unpack to is limited."""
        columns = self.definition.columns
        return sys.maxsize if columns is None else most_named_rows(columns)

    def retirement_of(self, partition: int, retirement: Retirement) -> Outgoing:
        """The record of a retirement. Raises :class:`WireError` for an id that no sample can have."""
        value = write_retirement(retirement, self.definition.data_fingerprint)
        return Outgoing(RETIREMENTS, partition, retirement.id.encode(), value)

    def query_of(self, name: str, row: _Row, headers: Headers = ()) -> Outgoing:
        """The record of a query: cells or features by name, or features in the definition's order.

        Raises :class:`WireError` and :class:`RowsRefused` for what no message can hold.
        """
        definition = self.definition
        if isinstance(row, Mapping) and definition.columns is not None:
            value = write_named_query(NamedQuery(name, row, definition.data_fingerprint), definition.columns)
        else:
            features = features_by_name(definition, row)[0][0] if is_by_name(row) else np.asarray(row, np.float64)
            value = write_query(Query(name, features, definition.data_fingerprint))
        return Outgoing(QUERIES, definition.partition_of(name), name.encode(), value, headers)


def codec_of(definition: StreamDefinition) -> Codec:
    """The codec of a stream: the place that decides in which form its input comes."""
    return Codec(definition)


_WRITERS: Mapping[type, Callable[[Any], bytes]] = {
    Claim: write_claim,
    Delta: write_delta,
    SourceOrder: write_source_order,
    Checkpoint: write_checkpoint,
    Model: write_model,
    Prediction: write_prediction,
    Unanswered: write_unanswered,
    Receipt: write_receipt,
    DeadLetter: write_dead_letter,
}
_PASSED_ON = (Delta, Model, Prediction, Unanswered, Receipt, DeadLetter)


def outgoing(
    topic: str, partition: int, key: bytes, message: object, headers: Headers = (), source_bytes: int | None = None
) -> Outgoing:
    """The record of a message; with ``source_bytes`` it is encoded only when its bytes are asked for.

    ``source_bytes``: the memory that the message takes until then. Raises :class:`WireError` and
    :class:`LimitExceeded` if it cannot be encoded, then or at once.
    """
    content = Encoding(message, partial(_WRITERS[type(message)], message), source_bytes or 0)
    value = content.value if source_bytes is None else None
    return Outgoing(topic, partition, key, content if isinstance(message, _PASSED_ON) else value, headers)
