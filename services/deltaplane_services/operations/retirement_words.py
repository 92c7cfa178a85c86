"""What is said of a retirement, in words and as an exit code: never that a row is out where none was found.

Whoever retires a row must be able to rely on the answer. So only a row that is gone is called out, and each other
outcome has words and an exit code of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from deltaplane.log.records import Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome

__all__ = [
    "RETIRE_EXIT_CODES",
    "VERIFY_EXIT_CODES",
    "ExitCode",
    "exit_code_of",
    "exit_code_of_one_id",
    "first_that_applies",
    "outcome_of",
    "receipt_as_json",
    "what_became",
]


class ExitCode(IntEnum):
    """How ``retire`` and ``verify-receipt`` end. 2 is for what any command refuses, or cannot do."""

    OUT = 0
    NOT_YET = 1
    WAITING = 3
    UNKNOWN = 4
    DUPLICATE = 5


def _listed(codes: Iterable[str]) -> str:
    return "\n\n".join(("Exit codes; of several the first that is not 0:", *codes))


RETIRE_EXIT_CODES = _listed(
    (
        "0 out: every row is out, taken out now or gone from the windows before.",
        "1 not yet: a receipt, or a model without the row, did not come in time.",
        "2 refused: nothing was published, or Kafka failed; the message says why.",
        "3 waiting: no live row has the id; nothing was taken out; it waits for a sample that has not come.",
        "4 unknown: no row was found to take out; a stream that keeps no rows cannot find one by its id.",
        "5 duplicate: the id had been retired before, this took nothing out; verify-receipt says what the first did.",
    )
)
VERIFY_EXIT_CODES = _listed(
    (
        "0: proved that the rows are out.",
        "1: a receipt is not what the log gives.",
        "2: nothing can be proved: there is no receipt, or the log has lost what is needed.",
        "3: proved that no live row had the id, so that nothing was taken out.",
        "4: proved that no row was found to take out (a stream that keeps no rows).",
        "5: proved that an earlier retirement was repeated; the receipt of the first is gone.",
    )
)


def outcome_of(receipt: Receipt) -> RetirementOutcome:
    """The outcome that a receipt names. One that this version does not know is unknown."""
    known = {str(outcome): outcome for outcome in RetirementOutcome}
    return known.get(receipt.outcome, RetirementOutcome.UNKNOWN)


def what_became(receipt: Receipt, definition: StreamDefinition) -> str:
    """What the outcome of a receipt means for the row."""
    match outcome_of(receipt):
        case RetirementOutcome.RETIRED:
            return "its row is out of every window"
        case RetirementOutcome.EXPIRED:
            return "its row had left every window before; there was nothing to take out any more"
        case RetirementOutcome.DUPLICATE:
            return (
                "this id had been retired before, and this retirement took nothing out; what came of the first:"
                " deltaplane verify-receipt"
            )
        case RetirementOutcome.WAITING:
            unchecked = (
                "; this stream does not check places (partitioner crc32), so a row may lie in another partition"
                if definition.partitions > 1 and not definition.checks_places
                else ""
            )
            return (
                f"no live row has this id in source {receipt.source}; nothing was taken out, and the retirement waits"
                f" for a sample that has not come{unchecked}"
            )
        case RetirementOutcome.UNKNOWN:
            if receipt.outcome != RetirementOutcome.UNKNOWN:
                return f"this version knows no such outcome ({receipt.outcome!r}); nothing is known to be out"
            return "no row was found to take out; a stream that keeps no rows cannot find one by its id"


def exit_code_of(receipt: Receipt) -> ExitCode:
    """What a receipt comes to, where it is true."""
    return {
        RetirementOutcome.RETIRED: ExitCode.OUT,
        RetirementOutcome.EXPIRED: ExitCode.OUT,
        RetirementOutcome.WAITING: ExitCode.WAITING,
        RetirementOutcome.DUPLICATE: ExitCode.DUPLICATE,
        RetirementOutcome.UNKNOWN: ExitCode.UNKNOWN,
    }[outcome_of(receipt)]


def exit_code_of_one_id(receipts: Iterable[Receipt]) -> ExitCode:
    """What the true receipts of one id come to, the oldest first: the last one that is no repeat of another."""
    codes = [exit_code_of(receipt) for receipt in receipts]
    return next((code for code in reversed(codes) if code is not ExitCode.DUPLICATE), ExitCode.DUPLICATE)


def first_that_applies(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of several answers: the lowest that is not 0."""
    return min((code for code in codes if code), default=ExitCode.OUT)


def receipt_as_json(receipt: Receipt, definition: StreamDefinition) -> dict[str, object]:
    """A receipt for scripts. ``out``: whether the row is out of every window by its word."""
    return {
        "id": receipt.id,
        "outcome": receipt.outcome,
        "out": exit_code_of(receipt) is ExitCode.OUT,
        "meaning": what_became(receipt, definition),
        "source": str(receipt.source),
        "tile": receipt.sequence,
        "offset": receipt.offset,
        "digest_before": receipt.digest_before,
        "digest_after": receipt.digest_after,
    }
