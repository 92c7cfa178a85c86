"""Data files: the readers of CSV, ARFF, LIBSVM and Parquet, packed or not."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import io
import lzma
import random
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from deltaplane_services.definition_file.file_formats import FORMATS
from deltaplane_services.readers import ReaderOptions, open_rows
from fuzz.mutation import NUMBERS
from fuzz.target import Broken, Target

CSV = (
    b"id,when,a,b,label\n1,2024-01-01T00:00:00Z,0.5,-1e3,UP\n2,2024-01-01 00:00:01,?,2,DOWN\n"
    b'"3","2024-01-02",3.25,"4",UP\n4,1704067200,NaN,inf,"DO""WN"\n'
    + b"5,2024-01-03,-0.0,1e-320,UP\n6,7,8,9,DOWN\n"
    * 6,
    b"a;b;label\r\n1;2;x\r\n3;4;y\r\n\r\n5;6;x\r\n",
    b"a,b,label\n" + b"0.1,0.2,x\n0.3,0.4,y\n" * 40,
    b",when,a,label\n" + b"".join(b"%d,%d,0.5,UP\n" % (n, 1696118400000 + n) for n in range(12)),
    b"id,when,a,label\n" + b"1,01.10.2023 00:30,0.5,UP\n2,29.10.2023 02:30,1,DOWN\n" * 6,
    b"id,when,a,label\n" + b"1,45200.5,0.5,UP\n2,45201,1,DOWN\n" * 6,
)
ARFF = (
    b"% comment\n@relation r\n@attribute a numeric\n@attribute 'b c' {x, y}\n@attribute d date 'yyyy-MM-dd'\n"
    b"@attribute label {UP,DOWN}\n@data\n1.5,x,?,UP\n2,'y',?,DOWN\n{0 3, 3 DOWN}\n"
    + b"3,y,'2024-01-01',UP\n-1e3 x ? DOWN\n"
    * 8,
    b"@relation r\n@attribute id string\n@attribute when date\n@attribute a real\n@attribute b {u,v}\n"
    b"@attribute label {UP,DOWN}\n@data\ni1,2024-01-01T00:00:00,1,u,UP\n'i 2','2024-01-02',?,v,DOWN\n"
    + b"3,2024-01-01,1e3,v,UP\n"
    * 10,
    b"@RELATION r\n@ATTRIBUTE a REAL\n@ATTRIBUTE b INTEGER\n@ATTRIBUTE label STRING\n@DATA\n1 2 'x y'\n3\t4 z\n"
    + b"5,6,z\n" * 10,
)
LIBSVM = (
    b"+1 1:0.5 3:-2e3 # comment\n-1 2:1\n+1 qid:3 1:nan 2:inf\n" + b"+1 1:1 2:2 3:3\n-1 1:-1 3:0\n" * 6,
    b"1 1:1 2:2\n2 1:3 2:4\n" * 30,
)
JSONL = (
    b'{"id": 1, "when": "2024-01-01", "a": 0.5, "b": -1e3, "label": "UP"}\n{"id": 2, "a": null, "label": true}\n'
    + b'{"a": "3", "b": 4, "id": "x", "when": 7, "label": "DOWN"}\n' * 8,
    b'{"a": 1, "b": 2, "label": "UP"}\n' * 8,
    b'{"when": 1700000000, "id": 5, "a": 1.5, "b": 2, "label": "UP"}\n' * 8,
    b"[" + b'{"a": 1.5, "b": 2, "label": "UP"},\n {"a":\n 1, "b": 2, "label": "DOWN"}, ' * 4 + b'{"a": 1, "label": 1}]',
    b'{"a": 1, "b": {"c": 2, "d": {"e": "}"}}, "label": "UP"}\n' * 8,
)
AS_THEY_COME = (
    b"# made\n# by hand\na,b,label\n1,2,x\n$3,4%,y\n" + b"5,6,x\n" * 10,
    b"sep=;\na;b;label;\n1,5;1.000;x;\n" + b"2,5;2.000,5;y;\n" * 10 + b"(11 rows)\n",
    b'"a" "b" "label"\n' + b"".join(b'"%d" 1 2.5 "x"\n' % row for row in range(12)),
    b" a | b | label \n---+---+---\n" + b" 1 | 2 | x \n" * 10,
    b"a,a,label\n'1','2','x \\\"y\\\"'\n" + b'1,"2","x"\n' * 10,
    "a,b,label\n1,2,für\n".encode("utf-16") + "1,2,x\n".encode("utf-16-le") * 10,
    b"a,b,label\n1,2,f\xfcr\n" + b"1,2,x\n" * 10,
)
KEEL = (
    b"@relation r\n@attribute id{i,j}\n@attribute a real[0,1]\n@attribute b integer [0,9]\n@attribute label{UP,DOWN}\n"
    b"@inputs a, b\n@outputs label\n@data\n" + b"i, 0.5, 3, UP\nj, <null>, 4, DOWN\n" * 8,
)
CELLS = (
    *(
        b"",
        b"?",
        b"NA",
        b"x",
        b'""',
        b'"',
        b"'",
        b"''",
        b'"a""b"',
        b"'a\\'b'",
        b"{",
        b"}",
        b"{0 1}",
        b"\xff",
        b"\0",
        b"\r",
    ),
    *(
        b"2024-01-01T00:00:00Z",
        b"2024-02-30",
        b"9999-12-31",
        b"10000-01-01",
        b"0000-01-01",
        b"1e20",
        b"2024-01-01 25:00",
        b"20231001T24",
        b"1696118400000000",
        b"45200.5",
        b"01.10.2023 00:00",
    ),
    *(b"UP", b"DOWN", b"a" * 300, "\u0660".encode(), "\ud7ff\U0010ffff".encode(), b"2:1", b"1:1", b"0:0", b"# c"),
)
CSV_WORDS = (
    b",",
    b'"',
    b'""',
    b"\n",
    b"\r\n",
    b";",
    b"\t",
    b"?",
    b"NA",
    b"\xef\xbb\xbf",
    b"label",
    b"id",
    b"when",
    b"\0",
)
ARFF_WORDS = (
    b"@attribute",
    b"@data",
    b"@relation",
    b"{",
    b"}",
    b"'",
    b'"',
    b"%",
    b"numeric",
    b"{a, 'b}'} % {c}",
    b"date 'dd.MM.yyyy HH:mm'",
    b"string",
    b"date",
    b",",
    b"?",
)
JSONL_WORDS = (b"{", b"}", b'"', b":", b",", b"\\", b"[", b"null", b"true", b'"a"', b'"label"', b"\\ud800", b"1e999")
AS_THEY_COME_WORDS = (*CSV_WORDS, b"#", b"sep=", b"$", b"%", b"'", b"\\", b"|", b"---", b" ", b"(1 row)", b"\xfc")
KEEL_WORDS = (*ARFF_WORDS, b"@inputs", b"@outputs", b"[", b"]", b"<null>")
LIBSVM_WORDS = (b":", b" ", b"qid:1", b"#", b"\n", b"1:", b"0:1", b"-1:2", b"4294967296:1", b"2000:1", b"2001:1")


def _table(when: pa.Array) -> Any:
    return pa.table(
        {
            "id": pa.array(["1", "2", "3"]),
            "when": when,
            "a": pa.array([0.5, None, 3.0]),
            "b": pa.array([1, 2, 3], type=pa.int32()),
            "label": pa.array(["UP", "DOWN", "UP"]).dictionary_encode(),
        }
    )


def _parquet(when: pa.Array) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(_table(when), out, compression="NONE")
    return out.getvalue()


def _arrow(when: pa.Array) -> bytes:
    out, table = io.BytesIO(), _table(when)
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, 2)
    return out.getvalue()


PARQUET_TIMES = (
    pa.array([1, 2, 3], type=pa.timestamp("ms")),
    pa.array([1, 2, 3], type=pa.timestamp("us", tz="UTC")),
    pa.array([1_696_118_400_000, None, 1_696_118_402_000]),
    pa.array(["2024-01-01T00:00:00Z", "2024-01-02", "?"]),
    pa.array(["01.10.2023 00:30", "29.10.2023 02:30", "30.10.2023 02:30"]),
    pa.array([45200.5, 45201.0, 45202.25]),
)
"""Event times as columns hold them: typed, counted, and written."""

_IGNORED = ("id", "when", "d")
_PLACES = {"id": b"id", "when": b"when", "d": b"'b c'"}
"""What is in a file that has such a column."""
_TABLE_OPTIONS = (
    ReaderOptions(label="label", ignored=_IGNORED),
    ReaderOptions(label="label", ignored=_IGNORED, missing="keep"),
    ReaderOptions(label="label", id="id", time="when", features=("a", "b"), missing="keep"),
    ReaderOptions(label="label", id="id", time="when"),
    ReaderOptions(label="label", id="id", time="when", time_zone="Europe/Berlin"),
    ReaderOptions(label="label", id="id", time="when", time_unit="ms"),
    ReaderOptions(label="label", id="id", time="when", time_format="%d.%m.%Y %H:%M"),
)
_OPTIONS = {
    "csv": (*_TABLE_OPTIONS, ReaderOptions(label="3", header=False), ReaderOptions(label="label", delimiter=";")),
    "arff": (
        *_TABLE_OPTIONS,
        ReaderOptions(ignored=_IGNORED),
        ReaderOptions(ignored=_IGNORED, missing="keep"),
        ReaderOptions(ignored=_IGNORED, nominal="place"),
    ),
    "libsvm": (
        ReaderOptions(),
        ReaderOptions(missing="keep"),
        ReaderOptions(number_of_features=3),
        ReaderOptions(features=("f2", "f1")),
        ReaderOptions(libsvm_base="0", labels="text"),
    ),
    "parquet": _TABLE_OPTIONS,
    "arrow": _TABLE_OPTIONS,
    "jsonl": (*_TABLE_OPTIONS, ReaderOptions(label="label", ignored=_IGNORED, thousands=",", na=("1",))),
    "keel": (ReaderOptions(), ReaderOptions(label="label", missing="keep"), ReaderOptions(features=("b", "a"))),
    "as they come": (
        ReaderOptions(label="label"),
        ReaderOptions(label="label", comment="#", missing="keep"),
        ReaderOptions(label="label", decimal=",", thousands="."),
        ReaderOptions(label="label", delimiter="blanks"),
        ReaderOptions(label="label", quote="'"),
        ReaderOptions(label="label", quote='\\"', labels="text"),
        ReaderOptions(label="label", quote="none", encoding="cp1252"),
        ReaderOptions(label="label", na=("1",), renamed=(("a", "b"), ("b", "a"))),
        ReaderOptions(label="3", header=False),
    ),
}


_SEPARATORS = re.compile(rb"[,;\t :]+")


def cells(chance: random.Random, data: bytes) -> bytes:
    """A table with other cells in some of its lines, mostly not the first ones."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(lines))
        gaps = [gap.span() for gap in _SEPARATORS.finditer(lines[at])]
        places = [0, *(end for _, end in gaps)], [*(start for start, _ in gaps), len(lines[at])]
        place = chance.randrange(len(places[0]))
        cell = chance.choice((*NUMBERS, *CELLS, lines[at]))
        lines[at] = lines[at][: places[0][place]] + cell + lines[at][places[1][place] :]
    return b"\n".join(lines)


def _within(chance: random.Random, data: bytes) -> bytes:
    """A Parquet or Arrow file with other bytes in its first pages or batches, and its ends whole."""
    for _ in range(chance.choice((1, 1, 2, 8)) if len(data) > 100 else 0):
        at = chance.randrange(4, len(data) * 2 // 5)
        data = data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))]) + data[at + 1 :]
    return data


def _repacked(chance: random.Random, data: bytes) -> bytes:
    """A packed table with other cells inside, in one member or two."""
    try:
        inside = cells(chance, gzip.decompress(data))
    except (OSError, EOFError, zlib.error):
        return data
    at = chance.choice((0, chance.randint(0, len(inside))))
    return b"".join(gzip.compress(part, 1, mtime=0) for part in (inside[:at], inside[at:]))


def _reader(format_name: str) -> Callable[[bytes], str]:
    def take(data: bytes) -> str:
        # The options are of the input, too, so that an input is all there is to a crash.
        draw, every = zlib.crc32(data), _OPTIONS[format_name]
        named = [[option.label, option.id, option.time, *(option.features or ())] for option in every]
        known = [o for o, names in zip(every, named, strict=True) if all(not n or n.encode() in data for n in names)]
        known = known or list(every)
        options = known[draw % len(known)]
        options = dataclasses.replace(options, ignored=tuple(n for n in options.ignored if _PLACES[n] in data))
        told = None if draw % 7 == 0 else "csv" if format_name == "as they come" else format_name
        rows = refused = 0
        with open_rows(io.BytesIO(data), dataclasses.replace(options, format=told)) as reader:
            for block in reader:
                if block.features.shape != (len(block), len(reader.feature_names)) or len(block.labels) != len(block):
                    raise Broken("a block whose columns disagree")
                rows += len(block)
                refused += len(block.refused)
        return "rows and refused rows" if rows and refused else "rows" if rows else "refused rows"

    return take


def _packed(seeds: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(gzip.compress(seed, mtime=0) for seed in seeds)


def _packed_otherwise() -> tuple[bytes, ...]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(zipfile.ZipInfo("rows.csv"), CSV[2])
    zstd: bytes = pa.compress(CSV[2], codec="zstd", asbytes=True)
    return bz2.compress(CSV[2]), lzma.compress(CSV[2]), zstd, archive.getvalue()


def targets() -> list[Target]:
    """Every reader of rows."""
    assert set(FORMATS) == {"csv", "arff", "libsvm", "parquet", "arrow", "keel", "jsonl"}
    return [
        Target("csv", CSV, _reader("csv"), 0.3, CSV_WORDS, cells),
        Target("arff", ARFF, _reader("arff"), 0.3, ARFF_WORDS, cells),
        Target("libsvm", LIBSVM, _reader("libsvm"), 0.3, LIBSVM_WORDS, cells),
        Target("parquet", tuple(map(_parquet, PARQUET_TIMES)), _reader("parquet"), 0.3, (), _within),
        Target("arrow", tuple(map(_arrow, PARQUET_TIMES)), _reader("arrow"), 0.3, (), _within),
        Target("csv, packed", _packed(CSV), _reader("csv"), 0.1, (), _repacked),
        Target("files as they come", AS_THEY_COME, _reader("as they come"), 0.3, AS_THEY_COME_WORDS, cells),
        Target("jsonl", JSONL, _reader("jsonl"), 0.3, JSONL_WORDS, cells),
        Target("keel", KEEL, _reader("keel"), 0.3, KEEL_WORDS, cells),
        Target("other packings", _packed_otherwise(), _reader("csv"), 0.2),
    ]
