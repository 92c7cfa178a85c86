"""The outcome of a retirement in words and as an exit code: it never says that a row is out if none was found.

Whoever retires a row must be able to rely on the answer. So only a row that is gone is called out, and each other
outcome has its own words and its own exit code.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from deltaplane.window.outcomes import RetirementOutcome

if TYPE_CHECKING:
    from deltaplane.log.records import Receipt
    from deltaplane.stream.definition import StreamDefinition

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
    """The exit codes of ``retire`` and ``verify-receipt``. 2 is for errors, as for every command."""

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
    """The outcome in a receipt; UNKNOWN if this version does not know it."""
    known = {str(outcome): outcome for outcome in RetirementOutcome}
    return known.get(receipt.outcome, RetirementOutcome.UNKNOWN)


def what_became(receipt: Receipt, definition: StreamDefinition) -> str:
    """What the outcome of a receipt means for the row, in words."""
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
    """The exit code for a receipt, provided that the receipt is true."""
    return {
        RetirementOutcome.RETIRED: ExitCode.OUT,
        RetirementOutcome.EXPIRED: ExitCode.OUT,
        RetirementOutcome.WAITING: ExitCode.WAITING,
        RetirementOutcome.DUPLICATE: ExitCode.DUPLICATE,
        RetirementOutcome.UNKNOWN: ExitCode.UNKNOWN,
    }[outcome_of(receipt)]


def exit_code_of_one_id(receipts: Iterable[Receipt]) -> ExitCode:
    """The exit code for the true receipts of one id, the oldest first: that of the last which is not a duplicate."""
    codes = [exit_code_of(receipt) for receipt in receipts]
    return next((code for code in reversed(codes) if code is not ExitCode.DUPLICATE), ExitCode.DUPLICATE)


def first_that_applies(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code for several answers: the lowest that is not 0; 0 if there is none."""
    return min((code for code in codes if code), default=ExitCode.OUT)


def receipt_as_json(receipt: Receipt, definition: StreamDefinition) -> dict[str, object]:
    """A receipt as plain values. ``out``: whether the row is out of every window, according to the receipt."""
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
