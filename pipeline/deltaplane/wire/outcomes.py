"""What a stream answers: predictions, receipts, dead letters."""

from __future__ import annotations

from deltaplane.records import DeadLetter, Prediction, Receipt
from deltaplane.wire.frame import read_record, write_record
from deltaplane.wire.parts import source_fields, source_of


def write_prediction(prediction: Prediction) -> bytes:
    """One ``Prediction`` message."""
    fields = dict(vars(prediction))
    fields["class"] = fields.pop("predicted")
    return write_record("prediction", fields)


def read_prediction(data: bytes | None) -> Prediction:
    """The ``Prediction`` of a message. Raises :class:`WireError`."""
    _, fields = read_record(data, ("prediction",))
    fields["predicted"] = fields.pop("class")
    return Prediction(**fields)


def write_receipt(receipt: Receipt) -> bytes:
    """One ``Receipt`` message."""
    fields = vars(receipt) | source_fields(receipt.source)
    del fields["source"]
    return write_record("receipt", fields)


def read_receipt(data: bytes | None) -> Receipt:
    """The ``Receipt`` of a message. Raises :class:`WireError`."""
    name, fields = read_record(data, ("receipt",))
    source = source_of(name, fields)
    del fields["site"], fields["partition"]
    return Receipt(source=source, **fields)


def write_dead_letter(letter: DeadLetter) -> bytes:
    """One ``DeadLetter`` message."""
    return write_record("dead_letter", vars(letter))


def read_dead_letter(data: bytes | None) -> DeadLetter:
    """The ``DeadLetter`` of a message. Raises :class:`WireError`."""
    return DeadLetter(**read_record(data, ("dead_letter",))[1])
