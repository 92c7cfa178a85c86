"""``deltaplane retire --where``: all rows of a subject, found in the log of samples, retired one by one.

The log is the index: what is live is in it, and nothing has to be kept or rebuilt beside it. Rows that come while
others are retired are looked for again, until none is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from deltaplane.columns.rules import SubjectRule
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.operations.retire import Answer, retire
from deltaplane_services.operations.retirement_words import ExitCode, first_that_applies
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.messages import SAMPLES, Record

__all__ = ["RetiredSubject", "Subject", "SubjectRows", "retire_subject"]


@dataclass(frozen=True)
class Subject:
    """Who or what rows are of: a column of the definition that is a subject, and its text.

    Raises :class:`DefinitionError` if the definition has no such column.
    """

    column: str
    value: str

    @classmethod
    def parse(cls, text: str, definition: StreamDefinition) -> Subject:
        """The subject of ``COLUMN=VALUE``."""
        column, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not column or not value:
            raise DefinitionError(f"--where: expected COLUMN=VALUE, got {text[:100]!r}")
        rules = () if definition.columns is None else definition.columns.rules
        known = [rule.column for rule in rules if isinstance(rule, SubjectRule)]
        if column not in known:
            have = f"it has {', '.join(known)}" if known else "it has none"
            raise DefinitionError(
                f"--where: column {column[:100]!r} is no subject of this stream, {have}; a stream declares one among"
                f' columns.rules when it begins: {{ column = "{column[:100]}", kind = "subject" }}'
            )
        return cls(column, value)

    def __str__(self) -> str:
        """The text that :meth:`parse` makes this subject of."""
        return f"{self.column}={self.value}"


class SubjectRows:
    """The ids of a subject's rows, from records of samples in the order of the log; changed by :meth:`take` only.

    If an id comes again, its last row counts: a correction may belong to somebody else.
    """

    def __init__(self, definition: StreamDefinition, subject: Subject) -> None:
        self._codec, self._subject = codec_of(definition), subject
        self._ids: dict[str, None] = {}
        self.without_names = 0
        """Records without rows by name, which have no subject."""

    @property
    def ids(self) -> list[str]:
        """In the order in which they came."""
        return list(self._ids)

    def take(self, records: Iterable[Record]) -> None:
        """Look through the next records of the logs."""
        for record in records:
            rows = self._codec.subjects(record, self._subject.column)
            if isinstance(rows, Undecodable):
                continue  # No worker could read it, so none has learned its rows.
            self.without_names += not rows
            for sample_id, text in rows:
                if text == self._subject.value:
                    self._ids[sample_id] = None
                else:
                    self._ids.pop(sample_id, None)


@dataclass(frozen=True)
class RetiredSubject:
    """What became of a subject's rows, and how many records had no rows by name."""

    answers: tuple[Answer, ...]
    without_names: int

    @property
    def exit_code(self) -> ExitCode:
        """How ``retire`` ends.

        All rows are in the log before their retirements. So one that waits is of a row that was refused, or that no
        worker has read yet and that will not be learned, and one that had been retired before is out.
        """
        if not self.answers:
            return ExitCode.UNKNOWN
        gone = (ExitCode.WAITING, ExitCode.DUPLICATE)
        return ExitCode(first_that_applies(one.exit_code for one in self.answers if one.exit_code not in gone))

    def line(self, subject: Subject) -> str:
        """All of it in a line."""
        if not self.answers:
            return f"{subject}: no row of it is in the log of samples; is it spelt so?"
        counts: dict[str, int] = {}
        for answer in self.answers:
            outcome = "without a receipt" if answer.receipt is None else str(answer.receipt.outcome)
            counts[outcome] = counts.get(outcome, 0) + 1
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
        versions = [answer.model_version for answer in self.answers if answer.model_version is not None]
        model = f"; model {max(versions)} is without them" if versions else ""
        unsure = "" if self.exit_code is ExitCode.OUT else "; not all are known to be out"
        return f"{subject}: {len(self.answers):,} rows: {told}{model}{unsure}"


def retire_subject(settings: ServiceSettings, subject: Subject, reason: str, wait_seconds: float) -> RetiredSubject:
    """Retire all rows of a subject that this site's log has, until no new one comes.

    ``wait_seconds`` is how long to wait for receipts each time. Raises as :func:`retire` does.
    """
    rows, partitions = SubjectRows(settings.definition, subject), range(settings.definition.partitions)
    answers: dict[str, Answer] = {}
    with closing(reader(settings, "site")) as log:
        read_to = dict.fromkeys(partitions, 0)
        while True:
            for partition in partitions:
                low, end = log.bounds(SAMPLES, partition)
                rows.take(log.read(SAMPLES, partition, max(low, read_to[partition]), end))
                read_to[partition] = end
            new = [sample_id for sample_id in rows.ids if sample_id not in answers]
            if not new:
                return RetiredSubject(tuple(answers.values()), rows.without_names)
            answers |= {answer.id: answer for answer in retire(settings, new, reason, wait_seconds)}
