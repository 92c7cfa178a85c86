"""A backup file: whole or not at all, and known to be damaged where it is."""

from __future__ import annotations

import dataclasses
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pytest

from deltaplane import limits
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.placement import Partitioner
from deltaplane_services.operations.backup import Backup, BackupWriter, BadBackup
from deltaplane_services.processors.messages import Record
from golden.wire_examples import zigzag
from strategies_streams import definition_of


def test_a_file_that_is_no_whole_backup_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "stream.avro"
    records = [Record("samples", 0, offset, 5, None, b"value" * 9) for offset in range(2000)]
    with BackupWriter(file, definition_of("all")) as writer:
        writer.add(records)
        assert not file.exists(), "a backup takes its place only when it is whole"
        writer.end("0123")
    whole = Backup(file)
    assert list(whole.records()) == records
    assert whole.digest == "0123"
    assert [path.name for path in tmp_path.iterdir()] == ["stream.avro"]
    data = file.read_bytes()
    for cut in (len(data) // 2, len(data) - 20):
        file.write_bytes(data[:cut])
        with pytest.raises(BadBackup):
            list(Backup(file).records())
    for junk in (b"", b"junk", data[:3]):
        file.write_bytes(junk)
        with pytest.raises(BadBackup, match="expected a backup of a stream"):
            Backup(file)
    with pytest.raises(BadBackup, match="cannot be read"):
        Backup(tmp_path / "none")


def test_a_backup_says_which_labels_each_partition_had_admitted(tmp_path: Path) -> None:
    file = tmp_path / "stream.avro"
    with BackupWriter(file, definition_of("all")) as writer:
        writer.begin({0: ("z", "a"), 1: ()})
        writer.end(None)
    assert Backup(file).labels == {0: ["z", "a"]}
    assert list(Backup(file).records()) == []


@pytest.mark.parametrize(("written", "partitioner"), [(False, "crc32"), (True, "murmur2")])
def test_a_backup_of_an_earlier_version_has_the_partitioner_that_there_was(
    tmp_path: Path, partitioner: Partitioner, *, written: bool
) -> None:
    class Earlier(StreamDefinition):
        def to_tables(self) -> dict[str, Any]:
            tables = super().to_tables()
            del tables["partitioner"]
            return tables

    file, definition = tmp_path / "stream.avro", definition_of("all", partitions=3)
    fields = {field.name: getattr(definition, field.name) for field in dataclasses.fields(definition) if field.init}
    with BackupWriter(file, definition if written else Earlier(**fields)) as writer:
        writer.end(None)
    assert Backup(file).definition == dataclasses.replace(definition, partitioner=partitioner)


def container(path: Path, *blocks: bytes, codec: str = "deflate", count: int = 1) -> Path:
    """A backup whose blocks are these, as they stand in the file."""
    with BackupWriter(path, definition_of("all")) as writer:
        writer.begin({})
        writer.end(None)
    with path.open("rb") as file:
        fastavro.reader(file)
        header = file.tell()
    data = path.read_bytes()
    data = data[:header].replace(b"deflate", codec.encode())
    out = b"".join(zigzag(count) + zigzag(len(block)) + block + data[-16:] for block in blocks)
    path.write_bytes(data + out)
    return path


def packed(size: int) -> bytes:
    """So many zeros, packed to a thousandth."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join(packing.compress(bytes(2**20)) for _ in range(size // 2**20)) + packing.flush()


def test_a_block_that_unpacks_to_more_than_any_that_is_written_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    bomb = container(tmp_path / "stream.avro", packed(2**30))
    assert bomb.stat().st_size < 2**21
    backup = Backup(bomb)
    tracemalloc.start()
    with pytest.raises(BadBackup, match="unpacks to more than"):
        list(backup.records())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * limits.BACKUP_BLOCK_BYTES


@pytest.mark.parametrize(
    ("block", "count", "words"),
    [
        (packed(2**20), 2**62, "got a record of ''"),
        (packed(2**20), 0, "a block holds more than its 0 records"),
        (b"\xff\xff\xff", 1, "damaged or cut off"),
        (packed(2**20)[:-1], 1, "a block is packed badly"),
        (bytes(4), 1, "damaged or cut off"),
    ],
)
def test_a_block_that_is_not_what_it_says_is_refused(tmp_path: Path, block: bytes, count: int, words: str) -> None:
    with pytest.raises(BadBackup, match=words):
        list(Backup(container(tmp_path / "stream.avro", block, count=count)).records())


def test_a_block_that_is_longer_than_any_that_is_written_is_not_read(tmp_path: Path) -> None:
    path = container(tmp_path / "stream.avro")
    with path.open("ab") as file:
        file.write(zigzag(1) + zigzag(2**40) + bytes(100))
    with pytest.raises(BadBackup, match=f"expected blocks of up to {limits.BACKUP_BLOCK_BYTES:,} bytes"):
        list(Backup(path).records())


def test_a_file_packed_in_another_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBackup, match="not packed or by deflate"):
        Backup(container(tmp_path / "stream.avro", codec="unknown"))
