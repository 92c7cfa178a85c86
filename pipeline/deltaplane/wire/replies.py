"""The records with which a stream answers: predictions, receipts, dead letters."""

from __future__ import annotations

from deltaplane.errors import WireError
from deltaplane.log.records import DeadLetter, Prediction, Receipt, Unanswered
from deltaplane.wire.frame import Fields, read_record, write_record
from deltaplane.wire.parts import source_fields, source_of

__all__ = [
    "read_answer",
    "read_dead_letter",
    "read_prediction",
    "read_receipt",
    "read_unanswered",
    "write_dead_letter",
    "write_prediction",
    "write_receipt",
    "write_unanswered",
]

_PREDICTIONS = ("prediction", "full_prediction")


def write_prediction(prediction: Prediction) -> bytes:
    """One ``Prediction`` message, or a ``FullPrediction`` if it has probabilities or reasons."""
    fields = dict(vars(prediction))
    fields["class"] = fields.pop("predicted")
    if not prediction.probabilities and not prediction.reasons:
        return write_record("prediction", fields)
    fields["reasons"] = [{"column": column, "contribution": part} for column, part in prediction.reasons]
    return write_record("full_prediction", fields)


def read_prediction(data: bytes | None) -> Prediction:
    """The ``Prediction`` of a message. Raises :class:`WireError`."""
    return _prediction(read_record(data, _PREDICTIONS)[1])


def _prediction(fields: Fields) -> Prediction:
    fields["predicted"] = fields.pop("class")
    if "reasons" in fields:
        fields["reasons"] = tuple((part["column"], part["contribution"]) for part in fields["reasons"])
    return Prediction(**fields)


def write_unanswered(unanswered: Unanswered) -> bytes:
    """One ``Unanswered`` message; it begins like a ``Prediction`` whose class and decision values are empty."""
    return write_record("unanswered", {**vars(unanswered), "class": "", "decisions": {}})


def read_unanswered(data: bytes | None) -> Unanswered:
    """The ``Unanswered`` of a message. Raises :class:`WireError`."""
    return _unanswered(read_record(data, ("unanswered",))[1])


def _unanswered(fields: Fields) -> Unanswered:
    if fields.pop("class") or fields.pop("decisions"):
        raise WireError("unanswered: expected no class and no decision values, got some; no scorer wrote it")
    return Unanswered(**fields)


def read_answer(data: bytes | None) -> Prediction | Unanswered:
    """The prediction, or the reason for none, in a message of the predictions topic. Raises :class:`WireError`."""
    name, fields = read_record(data, (*_PREDICTIONS, "unanswered"))
    return _prediction(fields) if name in _PREDICTIONS else _unanswered(fields)


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
