"""A backup file: whole or not at all, and known to be damaged where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaplane_services.backup import Backup, BackupWriter, BadBackup
from deltaplane_services.processors.records import Record
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
