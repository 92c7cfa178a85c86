"""``deltaplane dead-letters``: what was refused and why, and records that come back once its cause has been mended.

A record that is sent again goes to the topic and partition that it came from, as it was. A letter holds it whole unless
it was one row of a batch, or was too large; those are sent again by whoever has the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.log.records import DeadLetter
from deltaplane_services.definition_file.kafka_properties import ClusterName
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader, whole_name_publisher
from deltaplane_services.kafka.letter_headers import original_headers
from deltaplane_services.kafka.topic_plans import topic_name
from deltaplane_services.kafka.unpacking import NOT_READ, STAND_IN
from deltaplane_services.processors.codec import Codec, Undecodable
from deltaplane_services.processors.messages import DEAD_LETTERS, UNREADABLE, Headers, Outgoing
from deltaplane_services.processors.topics import TOPICS

__all__ = ["KeptLetter", "Replayed", "kept_letters", "letter_named", "replay_letters"]


@dataclass(frozen=True)
class KeptLetter:
    """A dead letter of a cluster: its key, by which it is named, and when it was written, in milliseconds.

    ``headers`` are those of the record that it stands for, as far as they are known.
    """

    cluster: ClusterName
    key: str
    log_time: int
    letter: DeadLetter
    headers: Headers = ()

    @property
    def is_whole(self) -> bool:
        """Whether the record that it stands for can be sent again as it was."""
        letter = self.letter
        whole = len(letter.value or b"") == letter.size and letter.row is None
        whole = whole and not any(name == UNREADABLE for name, _ in self.headers)
        # The letter of a batch that no client reads holds words of ours, and not its bytes.
        words = letter.value in (STAND_IN, NOT_READ)
        return whole and not words and not letter.rest and len(letter.key or b"") < limits.DEAD_LETTER_BYTES

    def as_json(self) -> dict[str, Any]:
        """The letter as values that JSON has; bytes as text, with escapes for what is none."""
        letter = self.letter
        return {
            "name": self.key,
            "cluster": self.cluster,
            "written": self.log_time,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "row": letter.row,
            "kind": letter.kind,
            "reason": letter.reason,
            "stands_for": letter.rows,
            "whole": self.is_whole,
            "size": letter.size,
            "headers": [[name, _text(value)] for name, value in self.headers],
            "key": _text(letter.key),
            "value": _text(letter.value),
        }


@dataclass(frozen=True)
class Replayed:
    """How many records were sent again, and how many letters hold no whole record, or none that may be sent again."""

    sent: int
    not_whole: int


def kept_letters(
    settings: ServiceSettings, reason: str | None = None, since: int | None = None
) -> Iterator[KeptLetter]:
    """The newest letter of each key, in the order of their logs: of one kind (``reason``), or since a time in ms."""
    for cluster in settings.clusters:
        newest: dict[str, KeptLetter] = {}
        with closing(reader(settings, cluster.name, headers=True)) as log:
            for partition in range(settings.definition.partitions):
                for record in log.read(DEAD_LETTERS, partition):
                    letter = Codec.dead_letter(record)
                    if isinstance(letter, Undecodable):
                        continue
                    key = (record.key or b"").decode("utf-8", "replace")
                    newest.pop(key, None)
                    headers = original_headers(record.headers) or ()
                    newest[key] = KeptLetter(cluster.name, key, record.log_time, letter, headers)
        for one in newest.values():
            kinds = {one.letter.kind, *one.letter.rest}
            if (reason is None or reason in kinds) and (since is None or one.log_time >= since):
                yield one


def letter_named(settings: ServiceSettings, name: str) -> KeptLetter:
    """The letter of a name. Raises :class:`DefinitionError` if there is none."""
    for one in kept_letters(settings):
        if one.key == name:
            return one
    raise DefinitionError(f"dead letter: there is none named {name[:100]!r}; deltaplane dead-letters list has them all")


def replay_letters(settings: ServiceSettings, letters: Iterable[KeptLetter]) -> Replayed:
    """Send the records of letters again, to where they came from. Raises what publishing raises."""
    sent = not_whole = 0
    publishers: dict[ClusterName, Any] = {}
    for one in letters:
        letter, topic = one.letter, _topic_of(settings, one.letter)
        if not one.is_whole or topic is None:
            not_whole += 1
            continue
        out = publishers.setdefault(one.cluster, None) or whole_name_publisher(settings, one.cluster)
        publishers[one.cluster] = out
        out.publish([Outgoing(topic, letter.partition, letter.key, letter.value, headers=one.headers)])
        sent += 1
    for out in publishers.values():
        out.flush()
    return Replayed(sent, not_whole)


def _topic_of(settings: ServiceSettings, letter: DeadLetter) -> str | None:
    """The whole name of the topic that a record goes back to; None if it is none that is written from outside.

    Whoever may write dead letters must not have records written to any topic by whoever sends them again.
    """
    if letter.topic in TOPICS:
        return topic_name(settings.definition, letter.topic) if TOPICS[letter.topic].from_outside else None
    users = () if settings.intake is None else settings.intake.topics
    return letter.topic if letter.topic in users else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
