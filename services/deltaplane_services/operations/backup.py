"""A stream in a file: an Avro container of the records that its state depends on, with its definition in the header.

The header also holds the labels of open classes that each partition has admitted, because the rows that brought them
may have left the window. Any Avro tool reads the file. The records are those of the samples and retirements topics,
byte for byte. The last record gives the number of records, so that a truncated file is recognised, and the digest that
a restored stream must have. Blocks are unpacked one at a time, and only up to the size of the largest block that we
ever write, so a malicious file takes no more memory than one of ours.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import fastavro

from deltaplane import limits
from deltaplane.errors import DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.regroup import Labels
from deltaplane_services.system.output_files import PRIVATE, OutputFile

__all__ = ["DEFINITION", "END", "LABELS", "MAGIC", "SCHEMA", "Backup", "BackupWriter", "BadBackup"]

SCHEMA: Any = fastavro.parse_schema(
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
DEFINITION, LABELS, END = "deltaplane.stream.definition", "deltaplane.labels", "end"
_HEADER: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)
MAGIC = b"Obj\x01"
_FIELDS = tuple(field["name"] for field in SCHEMA["fields"])
"""The fields in the order in which :class:`Record` takes them."""


class BadBackup(DeltaplaneError):
    """A file is not a backup of a stream, or it was cut off."""


class BackupWriter:
    """Writes a backup that only its owner may read; the file appears only when it is complete and synced to disk.

    Raises :class:`OutputRefused` if it cannot be written.
    """

    def __init__(self, path: Path, definition: StreamDefinition, what: str = "backup") -> None:
        self._output = OutputFile(path, what, PRIVATE)
        self._definition = definition
        self._writer: Any = None
        self.records = 0

    def begin(self, labels: Labels, more: Mapping[str, str] | None = None) -> None:
        """Write the header: the labels of open classes that each partition has admitted, and entries ``more``."""
        named = {str(partition): list(admitted) for partition, admitted in labels.items() if admitted}
        metadata = {DEFINITION: json.dumps(self._definition.to_tables()), **(more or {})}
        if named:
            metadata[LABELS] = json.dumps(named)
        self._writer = fastavro.write.Writer(self._output.file, SCHEMA, codec="deflate", metadata=metadata)

    def add(self, records: Sequence[Record]) -> None:
        """Write records; if the header was not written, write it first, without labels."""
        if self._writer is None:
            self.begin({})
        for record in records:
            self._writer.write(_fields_of(record))
        self.records += len(records)

    def end(self, digest: str | None) -> None:
        """Write the last record with the digest, and give the file its final name."""
        self.add(())
        last = Record(END, 0, self.records, 0, None, None if digest is None else digest.encode())
        self._writer.write(_fields_of(last))
        self._writer.flush()
        self._output.keep()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, trace)


class Backup:
    """Reads a backup: definition and labels at once; ``digest`` is known when all records have been read.

    ``topics`` are the topics that its records may belong to. Raises :class:`BadBackup` if the file is not a backup.
    """

    def __init__(self, path: Path, topics: Sequence[str] = (SAMPLES, RETIREMENTS)) -> None:
        self.path = path
        self._topics = (*topics, END)
        self.digest: str | None = None
        try:
            with path.open("rb") as file:
                beginning = io.BytesIO(file.read(limits.BACKUP_BLOCK_BYTES))
            header: Any = fastavro.schemaless_reader(beginning, _HEADER, None)
            self._sync, self._begin = header["sync"], beginning.tell()
            self.meta: Mapping[str, bytes] = header["meta"]
            meta = self.meta
            self._packed = meta.get("avro.codec", b"null") == b"deflate"
            if header["magic"] != MAGIC or meta.get("avro.codec") not in (None, b"null", b"deflate"):
                raise BadBackup(f"{path}: expected an Avro container, not packed or by deflate, got another file")
            if _canonical(json.loads(meta["avro.schema"])) != _canonical(SCHEMA):
                raise BadBackup(f"{path}: expected the records of a backup of this version, got others")
            # Files of earlier versions name no partitioner, since there was but one.
            tables = {"partitioner": "crc32", **json.loads(meta[DEFINITION])}
            self.definition = StreamDefinition.from_tables(tables)
            named = json.loads(meta.get(LABELS, b"{}"))
            self.labels: Labels = {int(partition): [str(one) for one in each] for partition, each in named.items()}
        except OSError as fault:
            raise BadBackup(f"{path}: cannot be read: {fault}") from fault
        except DeltaplaneError:
            raise
        except Exception as fault:
            raise BadBackup(f"{path}: expected a backup of a stream, got another file ({fault})") from fault

    def records(self) -> Iterator[Record]:
        """The records in the order of the file. Raises :class:`BadBackup` if it is damaged or has no last record."""
        number, ended = 0, False
        with self.path.open("rb") as file:
            for record in self._decoded(file):
                if ended or record.topic not in self._topics:
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

    def _decoded(self, file: BinaryIO) -> Iterator[Record]:
        try:
            file.seek(self._begin)
            while (count := _long(file)) is not None:
                block = io.BytesIO(self._block(file))
                for _ in range(count):
                    fields: Any = fastavro.schemaless_reader(block, SCHEMA, None)
                    yield Record(*(fields[name] for name in _FIELDS))
                if block.read(1):
                    raise BadBackup(f"{self.path}: a block holds more than its {count} records")
        except BadBackup:
            raise
        except Exception as fault:
            # The decoder raises errors of many types for damaged data.
            raise BadBackup(f"{self.path}: damaged or cut off ({type(fault).__name__}: {fault})") from fault

    def _block(self, file: BinaryIO) -> bytes:
        """The next block, unpacked. Both its packed and its unpacked size are bounded."""
        size, most = _long(file), limits.BACKUP_BLOCK_BYTES
        if size is None or not 0 <= size <= most:
            raise BadBackup(f"{self.path}: expected blocks of up to {most:,} bytes, got one of {size}")
        data = file.read(size)
        if len(data) < size or file.read(len(self._sync)) != self._sync:
            raise BadBackup(f"{self.path}: a block does not end as it should; damaged or cut off")
        if not self._packed:
            return data
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        block = unpacking.decompress(data, most + 1)
        if len(block) > most:
            raise BadBackup(
                f"{self.path}: a block of {size:,} bytes unpacks to more than {most:,}, more than any that is written"
            )
        if not unpacking.eof:
            raise BadBackup(f"{self.path}: a block is packed badly; damaged or cut off")
        return block


def _canonical(schema: Any) -> str:
    return str(fastavro.schema.to_parsing_canonical_form(schema))


def _long(file: BinaryIO) -> int | None:
    """The next Avro long; None at the end of the file. Raises ValueError if it is cut off or too long."""
    zigzag = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            if shift:
                raise ValueError("a number is cut off")
            return None
        zigzag |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1)
    raise ValueError("a number of more than 64 bits")


def _fields_of(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in _FIELDS}
