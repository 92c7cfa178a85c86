"""A stream in a file: an Avro container of the records that its state depends on, with its definition in the header.

Any Avro tool reads it. The records are those of the samples and retirements topics, byte for byte; the last one says
how many there are, so that a file that was cut off is known as such, and which digest a restored stream must have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import fastavro

from deltaplane.definition import StreamDefinition
from deltaplane.errors import DeltaplaneError
from deltaplane_services.processors.records import RETIREMENTS, SAMPLES, Record

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "BackedUp",
        "namespace": "deltaplane",
        "doc": "One record of a stream's samples or retirements; the last one is the end.",
        "fields": [
            {"name": "topic", "type": "string", "doc": "samples or retirements; end for the last record."},
            {"name": "partition", "type": "int", "doc": "Partition of the topic."},
            {"name": "offset", "type": "long", "doc": "Offset in it; at the end the number of records before it."},
            {"name": "log_time", "type": "long", "doc": "When it was appended, in milliseconds since the epoch."},
            {"name": "key", "type": ["null", "bytes"], "doc": "Its key."},
            {"name": "value", "type": ["null", "bytes"], "doc": "Its value; at the end the digest, if it is known."},
        ],
    }
)
DEFINITION, END = "deltaplane.definition", "end"


class BadBackup(DeltaplaneError):
    """A file is no backup of a stream, or was cut off."""


class BackupWriter:
    """Writes a backup, which takes its place only when it is whole and safely on the disk."""

    def __init__(self, path: Path, definition: StreamDefinition) -> None:
        self._path, self._partial = path, path.with_name(f"{path.name}.partial")
        self._file = self._partial.open("wb")
        metadata = {DEFINITION: json.dumps(definition.to_tables())}
        self._writer = fastavro.write.Writer(self._file, SCHEMA, codec="deflate", metadata=metadata)
        self.records = 0

    def add(self, records: Sequence[Record]) -> None:
        """Write some records."""
        for record in records:
            self._writer.write(record._asdict())
        self.records += len(records)

    def end(self, digest: str | None) -> None:
        """Write the end, and put the file in its place."""
        last = Record(END, 0, self.records, 0, None, None if digest is None else digest.encode())
        self._writer.write(last._asdict())
        self._writer.flush()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)


class Backup:
    """A backup that is read: its definition at once, its ``digest`` when all of its records have been."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest: str | None = None
        try:
            with path.open("rb") as file:
                metadata: Any = fastavro.reader(file).metadata
                self.definition = StreamDefinition.from_tables(json.loads(metadata[DEFINITION]))
        except OSError as fault:
            raise BadBackup(f"{path}: cannot be read: {fault}") from fault
        except DeltaplaneError:
            raise
        except Exception as fault:
            raise BadBackup(f"{path}: expected a backup of a stream, got another file ({fault})") from fault

    def records(self) -> Iterator[Record]:
        """Its records, in the order of the file. Raises :class:`BadBackup` where it is damaged or has no end."""
        number, ended = 0, False
        with self.path.open("rb") as file:
            for record in self._decoded(file):
                if ended or record.topic not in (SAMPLES, RETIREMENTS, END):
                    raise BadBackup(f"{self.path}: expected samples and retirements, got a record of {record.topic!r}")
                if record.topic == END:
                    ended = True
                    self.digest = None if record.value is None else record.value.decode("ascii", "replace")
                    if record.offset != number:
                        raise BadBackup(f"{self.path}: expected {record.offset} records, got {number}")
                else:
                    number += 1
                    yield record
        if not ended:
            raise BadBackup(f"{self.path}: it ends after {number} records without saying so; it was cut off")

    def _decoded(self, file: Any) -> Iterator[Record]:
        try:
            for fields in fastavro.reader(file):
                yield Record(**fields)  # type: ignore[arg-type]
        except Exception as fault:
            # The decoder raises whatever its C code runs into.
            raise BadBackup(f"{self.path}: damaged or cut off ({type(fault).__name__}: {fault})") from fault
