"""A replay that is saved in a file and can be continued: the logs of its embedded broker, from the oldest live row on.

The file is an Avro container like a backup, but with all topics: everything that a worker and a merger need to take
over after a crash. A continued replay therefore goes on as a stream does after a restart, and its sums are the same,
bit for bit, as if it had never ended. The header holds the position in the file and the counts so far, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from deltaplane.errors import DeltaplaneError
from deltaplane.stream.declared import DeclaredStream
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.operations.backup import Backup, BackupWriter
from deltaplane_services.processors.messages import TOPICS, Record

__all__ = ["REPLAY", "BadSavedReplay", "SavedReplay", "read_saved", "save"]

REPLAY = "deltaplane.replay"
_FIELDS = {
    "rows": int,
    "now": int,
    "last_line": int,
    "input": dict,
    "logs": list,
    "rounding_error": list,
    "order": dict,
}


class BadSavedReplay(DeltaplaneError):
    """A file is no saved replay, or cannot be continued with these options."""


@dataclass(frozen=True)
class SavedReplay:
    """The state that a replay continues from.

    ``rows`` is the number of rows fed. ``last_line`` is the line of the last one, counted over all files. ``now`` is
    the time of the stream in milliseconds since the epoch. ``rounding_error`` is the largest so far of each feature.
    ``order`` holds the counts of :class:`~deltaplane_services.replay.label_order.LabelOrder`.
    """

    definition: StreamDefinition
    input: InputTable
    rows: int
    now: int
    last_line: int
    rounding_error: list[float]
    order: Mapping[str, Any]
    broker: EmbeddedBroker

    @property
    def definition_file(self) -> DefinitionFile:
        """Its definition, with the columns of its file."""
        return DefinitionFile(DeclaredStream.of(self.definition.to_tables()), self.input)

    def check(self, definition: StreamDefinition) -> None:
        """Raise BadSavedReplay if ``definition`` is not the one that was saved."""
        ours, others = self.definition.to_tables(), definition.to_tables()
        self._refuse_changes([name for name in others if others[name] != ours.get(name)])

    def check_declared(self, stream: DeclaredStream) -> None:
        """Raise BadSavedReplay if options have changed what was saved, so that it may be no definition any more."""
        ours = self.definition_file.stream
        names = [one.name for one in fields(stream)]
        self._refuse_changes([name for name in names if getattr(stream, name) != getattr(ours, name)])

    def _refuse_changes(self, names: list[str]) -> None:
        if names:
            raise BadSavedReplay(
                f"resume: the options change {', '.join(names)} of the stream that was saved, and it would be another"
                " one; leave them out, or begin anew without --resume"
            )


def save(saved: SavedReplay, digest: str, path: Path) -> None:
    """Write a saved replay; the file appears only when it is complete. Raises :class:`OutputRefused`."""
    broker = saved.broker
    places = [(topic, partition) for topic in TOPICS for partition in broker.partitions_of(topic)]
    facts = {
        "rows": saved.rows,
        "now": saved.now,
        "last_line": saved.last_line,
        "input": saved.input.table,
        "logs": [[*place, broker.begin(*place), broker.end(*place)] for place in places],
        "rounding_error": saved.rounding_error,
        "order": dict(saved.order),
    }
    with BackupWriter(path, saved.definition, "save") as writer:
        writer.begin({}, {REPLAY: json.dumps(facts)})
        for topic, partition in places:
            for record in broker.fetch(topic, partition, broker.begin(topic, partition)):
                assert not record.headers, "no record of a replay has headers"
                writer.add([record])
        writer.end(digest)


def read_saved(path: Path) -> SavedReplay:
    """A saved replay. Raises :class:`BadBackup` or :class:`BadSavedReplay` if the file is not one."""
    backup = Backup(path, tuple(TOPICS))
    facts = _facts(backup, path)
    broker = EmbeddedBroker(backup.definition.partitions, keep_messages=True)
    logs: dict[tuple[str, int], list[Record]] = {}
    for record in backup.records():
        logs.setdefault((record.topic, record.partition), []).append(record)
    try:
        for topic, partition, begin, end in facts["logs"]:
            broker.take_over(topic, partition, begin, end, logs.pop((topic, partition), []))
    except (KeyError, TypeError, ValueError) as fault:
        raise BadSavedReplay(f"{path}: its logs do not fit its header ({fault}); save the replay again") from fault
    if logs:
        raise BadSavedReplay(f"{path}: it holds records of logs that its header does not name; save the replay again")
    rest = {name: facts[name] for name in _FIELDS if name not in ("logs", "input")}
    return SavedReplay(definition=backup.definition, input=InputTable.of(facts["input"]), broker=broker, **rest)


def _facts(backup: Backup, path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(backup.meta[REPLAY])
        right = all(isinstance(facts[name], kind) for name, kind in _FIELDS.items())
    except (KeyError, TypeError, ValueError):
        right = False
    if not right:
        raise BadSavedReplay(f"{path}: expected what `replay --save` has written, got another backup; give such a file")
    return dict(facts)
