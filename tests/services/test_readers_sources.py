"""Where files come from: paths, standard input, gzip; and how their format is told."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane_services.readers import ReaderError, ReaderOptions, RowBlock, open_rows
from services.readers_samples import Rows, Trickle, read

BY_LABEL = ReaderOptions(label="y")
CSV = b"x,y\n1,p\n2,q\n"
LIBSVM = b"1 1:1\n2 1:2\n"
ARFF = b"% a comment\n@relation r\n@attribute x real\n@attribute y {p,q}\n@data\n1,p\n2,q\n"


def parquet() -> bytes:
    data = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": ["p", "q"]}), data)
    return data.getvalue()


FILES = {"csv": CSV, "libsvm": LIBSVM, "arff": ARFF, "parquet": parquet()}


def fault(path: Path) -> str:
    with pytest.raises(ReaderError) as raised:
        open_rows(path, BY_LABEL)
    return str(raised.value)


def zip_of(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def tar_of(content: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("rows.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("suffix", list(PACK))
@pytest.mark.parametrize("name", ["csv", "libsvm", "arff", "parquet"])
def test_a_file_is_read_from_its_path_by_name_and_from_a_pipe_by_its_first_bytes(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = PACK[suffix](FILES[name])
    path = tmp_path / f"rows.{name}{suffix}"
    path.write_bytes(data)
    options = ReaderOptions() if name == "libsvm" else BY_LABEL
    with open_rows(str(path), options) as reader:
        assert (reader.format, reader.bytes_total) == (name, len(data))
        from_path = Rows(reader)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Trickle(data, 3))))
    with open_rows("-", options) as reader:
        assert (reader.format, reader.bytes_total) == (name, None)
        from_pipe = Rows(reader)
    for rows in (from_path, from_pipe):
        assert rows.features.tolist() == [[1.0], [2.0]]
        assert rows.labels == (["1", "2"] if name == "libsvm" else ["p", "q"])
    assert not sys.stdin.closed


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\xef\xbb\xbf\n\nx,y\n1,p\n", "csv"),
        (b"x;y\n1;p\n", "csv"),
        (b"x\ty\n1\tp\n", "csv"),
        (b"# comment\n\n+1 3:0.5 7:1 # more\n", "libsvm"),
        (b"-1 qid:4 1:0.5\n", "libsvm"),
        (b"1 1:0.5", "libsvm"),
        (b"\n@RELATION r\n@attribute x real\n@attribute y {p}\n@data\n1,p\n", "arff"),
        (b"%" * 70_000 + b"\n@relation r\n@attribute x real\n@attribute y {p}\n@data\n1,p\n", "arff"),
    ],
)
def test_the_first_bytes_show_the_format(data: bytes, name: str) -> None:
    with open_rows(io.BytesIO(data), ReaderOptions() if name == "libsvm" else BY_LABEL) as reader:
        assert reader.format == name


def test_a_format_that_is_named_is_not_told_from_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(LIBSVM)
    with open_rows(path, ReaderOptions(format="libsvm")) as reader:
        assert reader.format == "libsvm"


@pytest.mark.parametrize("data", [b"hello\nworld\n", b"hello big world\nbye\n", b"\x00\x01\x02"])
def test_a_format_that_cannot_be_told_is_a_fault(data: bytes) -> None:
    with pytest.raises(ReaderError, match=r"The format of the stream cannot be told.*Name it with `--format`"):
        open_rows(io.BytesIO(data), BY_LABEL)


def test_an_empty_file_of_unknown_format_is_a_fault() -> None:
    with pytest.raises(
        ReaderError, match="is empty; a data file in one of csv, parquet, arrow, libsvm, arff, keel, jsonl was expected"
    ):
        open_rows(io.BytesIO(b" \n"), BY_LABEL)


def test_a_file_that_is_not_there_is_answered_with_one_of_nearly_that_name(tmp_path: Path) -> None:
    (tmp_path / "electricity.csv").write_bytes(CSV)
    assert f"There is {tmp_path / 'electricity.csv'}: is that the one?" in fault(tmp_path / "electricty.csv")
    assert "Check the path" in fault(tmp_path / "other.txt")
    assert "Its directory" in fault(tmp_path / "nowhere" / "electricity.csv")


def test_a_directory_is_a_fault(tmp_path: Path) -> None:
    assert "is a directory; name one data file in it" in fault(tmp_path)


def test_a_file_whose_name_says_gzip_must_be_gzip(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(CSV)
    assert (
        "is not a gzip file, though its name says so: it should start with 1f 8b and starts with 78 2c 79 0a"
        in fault(path)
    )


def test_gzip_is_unpacked_whatever_the_name_in_any_number_of_members_with_padding(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(gzip.compress(CSV) + gzip.compress(b"") + gzip.compress(b"3,r\n") + b"\0" * 1000)
    with open_rows(path, BY_LABEL) as reader:
        assert Rows(reader).labels == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"7z\xbc\xaf\x27\x1crest", "is a 7z archive; gzip, bzip2, xz, zstd and zip are unpacked here. Unpack it with"),
        (b"\x04\x22\x4d\x18rest", "is compressed by lz4"),
        (gzip.compress(tar_of(CSV)), "is a tar archive"),
        (b"PK\x03\x04rest of it", "is not a whole zip archive"),
        (zip_of(a=CSV, b=CSV), "is a zip archive of 2 files (a, b), and one is read at a time"),
        (zip_of(**{"[Content_Types].xml": b"", "xl/workbook.xml": b""}), "is a spreadsheet"),
        (b"\x28\xb5\x2f\xfdrest", "is not a whole zstd file"),
        (bz2.compress(CSV)[:-9], "is not a whole bzip2 file: it ends in the middle"),
        (lzma.compress(CSV)[:-9], "is not a whole xz file: it ends in the middle"),
    ],
)
def test_other_archives_are_named_with_what_unpacks_them(data: bytes, expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        read(data, BY_LABEL)
    assert expected in str(raised.value)


def blocks_before_the_fault(data: bytes) -> tuple[list[RowBlock], str]:
    blocks: list[RowBlock] = []
    with open_rows(io.BytesIO(data), BY_LABEL) as reader, pytest.raises(ReaderError) as raised:
        blocks.extend(reader)
    return blocks, str(raised.value)


@pytest.mark.parametrize("rows", [3, 400_000])
def test_of_a_gzip_file_that_was_cut_off_the_whole_lines_stand_and_then_comes_the_fault(rows: int) -> None:
    text = b"x,y\n" + b"".join(b"%d,p\n" % number for number in range(rows))
    # Stored, not compressed, so that the cut falls where it is wanted: within the last line.
    blocks, message = blocks_before_the_fault(gzip.compress(text, compresslevel=0)[: -8 - 2])
    joined = Rows(blocks)
    assert joined.features.ravel().tolist() == list(range(rows - 1))
    assert "is not a whole gzip file: it ends in the middle" in message
    assert f"Whole lines before line {rows + 1} were read." in message


@pytest.mark.parametrize("name", list(FILES))
def test_a_zip_archive_of_one_file_is_read_as_that_file(name: str, tmp_path: Path) -> None:
    members = {f"folder/rows.{name}": FILES[name], "__MACOSX/._rows": b"x", "folder/.DS_Store": b"y"}
    path = tmp_path / "rows.zip"
    path.write_bytes(zip_of(**members))
    options = ReaderOptions() if name == "libsvm" else BY_LABEL
    for source in (path, Trickle(path.read_bytes(), 100)):
        with open_rows(source, options) as reader:  # type: ignore[arg-type]
            assert reader.format == name
            assert Rows(reader).features.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".zst"])
def test_packed_files_may_have_any_number_of_parts(suffix: str) -> None:
    pack = PACK[suffix]
    data = pack(CSV) + pack(b"3,r\n" * 100_000) + pack(b"4,s\n")
    rows = read(data, BY_LABEL)
    assert (len(rows.labels), rows.labels[-1]) == (100_003, "s")


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".zst"])
def test_of_a_packed_file_that_was_cut_off_the_whole_lines_stand_and_then_comes_the_fault(suffix: str) -> None:
    rows = np.random.default_rng(0).integers(0, 10**9, 300_000)
    packed = PACK[suffix](b"x,y\n" + b"".join(b"%d,p\n" % number for number in rows.tolist()))
    blocks, message = blocks_before_the_fault(packed[: len(packed) // 2])
    joined = Rows(blocks)
    assert 50_000 < len(joined.labels) < 200_000
    assert joined.features.ravel().tolist() == rows[: len(joined.labels)].tolist()
    assert "it ends in the middle" in message


def test_a_zip_archive_that_is_damaged_or_locked_is_a_fault() -> None:
    whole = bytearray(zip_of(rows=CSV * 5000))
    at = whole.index(b"PK\x01\x02")
    changed = whole.copy()
    changed[at + 16] ^= 1  # The sum over the member.
    with pytest.raises(ReaderError, match="is not a whole zip archive: Bad CRC-32"):
        read(bytes(changed), BY_LABEL)
    changed = whole.copy()
    changed[at + 8] |= 1
    with pytest.raises(ReaderError, match="under a password"):
        read(bytes(changed), BY_LABEL)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("rows.csv", CSV)
    with pytest.raises(ReaderError, match="is not deflated"):
        read(data.getvalue(), BY_LABEL)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst", ".zip"])
def test_a_small_file_that_unpacks_to_a_huge_one_is_read_in_bounded_memory(suffix: str) -> None:
    line = b"7" * 2**25
    packed = (
        zip_of(rows=b"x,y\n" + line + b"\n8,p\n") if suffix == ".zip" else PACK[suffix](b"x,y\n" + line + b"\n8,p\n")
    )
    assert len(packed) < 2**16
    tracemalloc.start()
    try:
        rows = Rows(open_rows(io.BytesIO(packed), ReaderOptions("y", format="csv")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (rows.labels, list(rows.reasons)) == (["p"], [2])
    assert peak < 16 * 2**20


def test_an_xz_file_that_asks_for_too_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**29}]
    with pytest.raises(ReaderError, match="needs more than 256 MiB to be unpacked"):
        read(lzma.compress(CSV, filters=filters), BY_LABEL)


def test_a_damaged_gzip_file_is_a_fault() -> None:
    data = bytearray(gzip.compress(CSV * 1000))
    data[-8] ^= 1
    with pytest.raises(ReaderError, match=r"is not a whole gzip file: .*incorrect data check"):
        read(bytes(data), BY_LABEL)


def test_bytes_read_go_from_the_first_block_to_the_whole_file() -> None:
    data = gzip.compress(b"x,y\n" + b"".join(b"%d,p\n" % number for number in range(600_000)))
    with open_rows(io.BytesIO(data), BY_LABEL) as reader:
        seen = [reader.bytes_read for _ in reader]
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == len(data)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_file_is_closed_at_the_end_and_after_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(CSV)
    before = open_files()
    for options in (BY_LABEL, ReaderOptions("nope")):
        try:
            reader = open_rows(path, options)
        except ReaderError:
            continue
        assert len(list(reader)) == 1
        reader.close()
        assert list(reader) == []
    assert open_files() == before


class Endless(io.RawIOBase):
    """A line of 200 MiB and one row behind it, made as it is read."""

    def __init__(self) -> None:
        self._left = 200

    def read(self, _size: int = -1, /) -> bytes:
        self._left -= 1
        if self._left == 199:
            return b"x,y\n"
        return b"7" * 2**20 if self._left >= 0 else b"\n8,p\n" if self._left == -1 else b""


def test_memory_stays_bounded_however_long_a_line_is() -> None:
    tracemalloc.start()
    try:
        rows = Rows(open_rows(Endless(), ReaderOptions("y", format="csv")))  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (rows.labels, rows.line_numbers, list(rows.reasons)) == (["p"], [3], [2])
    assert peak < 16 * 2**20


def test_reading_csv_does_not_load_parquet() -> None:
    program = (
        "import io, sys; from deltaplane_services.readers import ReaderOptions, open_rows; "
        "list(open_rows(io.BytesIO(b'x,y\\n1,p\\n'), ReaderOptions('y'))); print('pyarrow.parquet' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
