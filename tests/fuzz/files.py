"""What is read from files, the command line, and other services: data files, definitions, settings, reports, metrics."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import random
import re
import tempfile
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from prometheus_client.exposition import generate_latest

from deltaplane.definition import StreamDefinition
from deltaplane.delta import Verdict
from deltaplane.ladder import Window
from deltaplane.tables import span
from deltaplane_services.cli import _c, _weighting, _window
from deltaplane_services.metrics_export import MergerMetrics, WorkerMetrics
from deltaplane_services.readers import FORMATS, ReaderOptions, open_rows
from deltaplane_services.replay.options import (
    ImbalanceSchedule,
    ReplayOptions,
    complete_definition,
    lay_over,
    load_tables,
    read_prior,
    reader_options,
)
from deltaplane_services.report.compare import best, comparison
from deltaplane_services.report.record import read_run, run_of
from deltaplane_services.settings import resolve_settings
from deltaplane_services.top.draw import draw
from deltaplane_services.top.frame import frame_of
from deltaplane_services.top.gather import Address, Gathering, Scrape, Silence, read_metrics
from deltaplane_services.top.history import History
from fuzz.mutation import NUMBERS
from fuzz.target import Broken, Target
from services.metrics_models import model, plane, scores, stream
from services.report_summaries import vanishing

Reshape = Callable[[random.Random, bytes], bytes]
EXAMPLES = Path(__file__).parents[2] / "examples"
SCRATCH = Path(tempfile.gettempdir())

# Data files ----------------------------------------------------------------------------------------------------------

CSV = (
    b"id,when,a,b,label\n1,2024-01-01T00:00:00Z,0.5,-1e3,UP\n2,2024-01-01 00:00:01,?,2,DOWN\n"
    b'"3","2024-01-02",3.25,"4",UP\n4,1704067200,NaN,inf,"DO""WN"\n' + b"5,2024-01-03,-0.0,1e-320,UP\n6,7,8,9,DOWN\n" * 6,
    b"a;b;label\r\n1;2;x\r\n3;4;y\r\n\r\n5;6;x\r\n",
    b"a,b,label\n" + b"0.1,0.2,x\n0.3,0.4,y\n" * 40,
)
ARFF = (
    b"% comment\n@relation r\n@attribute a numeric\n@attribute 'b c' {x, y}\n@attribute d date 'yyyy-MM-dd'\n"
    b"@attribute label {UP,DOWN}\n@data\n1.5,x,?,UP\n2,'y',?,DOWN\n{0 3, 3 DOWN}\n" + b"3,y,'2024-01-01',UP\n-1e3 x ? DOWN\n" * 8,

    b"@relation r\n@attribute id string\n@attribute when date\n@attribute a real\n@attribute b {u,v}\n"
    b"@attribute label {UP,DOWN}\n@data\ni1,2024-01-01T00:00:00,1,u,UP\n'i 2','2024-01-02',?,v,DOWN\n" + b"3,2024-01-01,1e3,v,UP\n" * 10,

    b"@RELATION r\n@ATTRIBUTE a REAL\n@ATTRIBUTE b INTEGER\n@ATTRIBUTE label STRING\n@DATA\n1 2 'x y'\n3\t4 z\n" + b"5,6,z\n" * 10,

)
LIBSVM = (
    b"+1 1:0.5 3:-2e3 # comment\n-1 2:1\n+1 qid:3 1:nan 2:inf\n" + b"+1 1:1 2:2 3:3\n-1 1:-1 3:0\n" * 6,

    b"1 1:1 2:2\n2 1:3 2:4\n" * 30,
)
CELLS = (
    *(b"", b"?", b"NA", b"x", b'""', b'"', b"'", b"''", b'"a""b"', b"'a\\'b'", b"{", b"}", b"{0 1}", b"\xff", b"\0", b"\r"),
    *(b"2024-01-01T00:00:00Z", b"2024-02-30", b"9999-12-31", b"10000-01-01", b"0000-01-01", b"1e20", b"2024-01-01 25:00"),
    *(b"UP", b"DOWN", b"a" * 300, "\u0660".encode(), "\ud7ff\U0010ffff".encode(), b"2:1", b"1:1", b"0:0", b"# c"),
)
CSV_WORDS = (b",", b'"', b'""', b"\n", b"\r\n", b";", b"\t", b"?", b"NA", b"\xef\xbb\xbf", b"label", b"id", b"when", b"\0")
ARFF_WORDS = (b"@attribute", b"@data", b"@relation", b"{", b"}", b"'", b'"', b"%", b"numeric", b"string", b"date", b",", b"?")
LIBSVM_WORDS = (b":", b" ", b"qid:1", b"#", b"\n", b"1:", b"0:1", b"-1:2", b"4294967296:1", b"2000:1", b"2001:1")


def _parquet() -> bytes:
    table = pa.table(
        {
            "id": pa.array(["1", "2", "3"]),
            "when": pa.array([1, 2, 3], type=pa.timestamp("ms")),
            "a": pa.array([0.5, None, 3.0]),
            "b": pa.array([1, 2, 3], type=pa.int32()),
            "label": pa.array(["UP", "DOWN", "UP"]).dictionary_encode(),
        }
    )
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="NONE")
    return out.getvalue()


_IGNORED = ("id", "when", "d")
_PLACES = {"id": b"id", "when": b"when", "d": b"'b c'"}
"""What is in a file that has such a column."""
_TABLE_OPTIONS = (
    ReaderOptions(label="label", ignored=_IGNORED),
    ReaderOptions(label="label", ignored=_IGNORED, missing="keep"),
    ReaderOptions(label="label", id="id", time="when", features=("a", "b"), missing="keep"),
    ReaderOptions(label="label", id="id", time="when"),
)
_OPTIONS = {
    "csv": (*_TABLE_OPTIONS, ReaderOptions(label="3", header=False), ReaderOptions(label="label", delimiter=";")),
    "arff": (*_TABLE_OPTIONS, ReaderOptions(ignored=_IGNORED)),
    "libsvm": (
        ReaderOptions(),
        ReaderOptions(missing="keep"),
        ReaderOptions(number_of_features=3),
        ReaderOptions(features=("f2", "f1")),
    ),
    "parquet": _TABLE_OPTIONS,
}


_SEPARATORS = re.compile(rb"[,;\t :]+")


def _cells(chance: random.Random, data: bytes) -> bytes:
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
    """A Parquet file with other bytes in its pages, and its ends whole."""
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(4, len(data) * 2 // 5)
        data = data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))]) + data[at + 1 :]
    return data


def _reader(format_name: str) -> Callable[[bytes], str]:
    def take(data: bytes) -> str:
        # The options are of the input, too, so that an input is all there is to a crash.
        draw, every = zlib.crc32(data), _OPTIONS[format_name]
        named = [[option.label, option.id, option.time, *(option.features or ())] for option in every]
        known = [o for o, names in zip(every, named, strict=True) if all(not n or n.encode() in data for n in names)]
        known = known or list(every)
        options = known[draw % len(known)]
        options = dataclasses.replace(options, ignored=tuple(n for n in options.ignored if _PLACES[n] in data))
        told = None if draw % 7 == 0 else format_name
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


# Definitions, settings -----------------------------------------------------------------------------------------------

FULL_DEFINITION = b"""
name = "s"
partitions = 2
max_skew = "1d"
[input]
label = "label"
time = "when"
ignore = ["x"]
[features]
names = ["a", "b"]
missing = "offset"
[grid]
steps = [0.5, 1.0]
offsets = [0.0, 3.0]
[feature_map]
kind = "fourier"
units = 4
sigma = 1.0
seed = 7
centers = [0, 1]
scales = [1.0, 2.0]
[classes]
names = ["no", "yes"]
positive = "yes"
[window]
length = ["100", "1000", "all"]
pane = 10
[solver]
kind = "wlpsvm"
weighting = ["inverse", "balanced"]
C = [0.001, 0.1, 10.0]
[prior]
classes = ["no", "yes"]
positive = "yes"
weights = [[1.0, 2.0, 3.0, 4.0]]
biases = [0.5]
[service]
broker = "localhost:9092"
refresh_seconds = 0.5
[kafka]
security.protocol = "SSL"
"""
PLAIN_DEFINITION = b"""
[input]
time = "when"
[window]
length = "7d"
[features]
missing = "refuse"
[solver]
kind = "lssvm"
bias = "free"
C = 1.0
standardize = false
[feature_map]
kind = "hidden"
units = 6
"""
WEIGHTED = b"[classes]\nnames = [0, 1]\n[window]\nlength = 'all'\nkeep_rows = false\n[solver]\nC = 2\nweighting = {0 = 1.0, 1 = 5}\n"
VALUES = (
    *("0", "-1", "1", "2", "3", "2001", "{no = 1, yes = 2}", f"{{no = 1, yes = {10**400}}}", "1e400", "nan", "-inf", "inf", "true", "false", "[]", "{}", "''", "'auto'"),
    *("'all'", "'7d'", "'1ms'", "'none'", "'a'", "[1]", "['a']", "[[1.0]]", "[[]]", "{a = 1}", "1979-05-27", "0.5"),
    *("9223372036854775807", "9223372036854775808", "1" * 400, "9" * 5000, "[" * 50 + "]" * 50, "'\\u0000'", "1e308"),
    *("'" + "9" * 30 + "d'", "['100', '100']", "['100', '7d']", "'0'", "'-5'", "-9223372036854775808", "5e-324"),
)
TOML_WORDS = (b"[", b"]", b"=", b'"', b"\n", b"[[", b"[grid]", b"[prior]", b"[feature_map]", b"max = 500\n", b"\xff", b"{", b"'''")
FIRST_ROWS = np.tile([[0.5, 3.0], [1.0, 4.0], [-2.0, 5.0], [0.0, 0.0]], 4)


def _assigned(chance: random.Random, data: bytes) -> bytes:
    """The definition with other values behind some of its keys, or without them."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        key, equals, _ = lines[at].partition(b" = ")
        if equals:
            lines[at] = b"" if chance.random() < 0.2 else key + equals + chance.choice(VALUES).encode()
        elif chance.random() < 0.3:
            lines[at] = b""
    return b"\n".join(lines)


def _definition(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.toml"
    path.write_bytes(data)
    options = ReplayOptions("stream.csv", load_tables(path))
    reader_options(options)
    tables = {key: value for key, value in options.tables.items() if key not in ("service", "kafka")}
    names = tables.get("features", {}).get("names")
    rows = FIRST_ROWS[:, : len(names)] if isinstance(names, list) and names else FIRST_ROWS[:, :2]
    definition = complete_definition(dataclasses.replace(options, tables=tables), ("a", "b"), rows)
    # A definition that is accepted can be written down, and says the same when it is read.
    again = StreamDefinition.from_tables(definition.to_tables())
    if again.stream_fingerprint != definition.stream_fingerprint:
        raise Broken("the tables of a definition make another")
    resolve_settings({}, {}, {**definition.to_tables(), **{k: options.tables[k] for k in ("service", "kafka") if k in options.tables}})
    return "read"


def _prior(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.json"
    path.write_bytes(data)
    tables = lay_over(tomllib.loads(PLAIN_GRID), "prior", **read_prior(path))
    StreamDefinition.from_tables(tables)
    return "read"


PLAIN_GRID = '[features]\nnames = ["a", "b"]\n[grid]\nsteps = [0.5, 1.0]\n'
PRIORS = tuple(
    json.dumps(value).encode()
    for value in (
        {"model": {"classes": ["0", "1"], "features": ["a", "b"], "weights": [1.0, 2.0], "bias": 0.5}, "positive": "1"},
        {"classes": ["0", "1"], "positive": "1", "features": ["a"], "weights": [[1.0]], "biases": [0.5]},
        {"classes": ["0", "1", "2"], "features": ["a", "b"], "weights": [[1, 2]] * 3, "biases": [1, 2, 3]},
    )
)


def _options(data: bytes) -> str:
    """Values of the command line: one to each line, in this order."""
    lines = [line.decode("utf-8", "surrogateescape") for line in data.split(b"\n")]
    lines += [""] * (8 - len(lines))
    tables: dict[str, Any] = tomllib.loads(PLAIN_GRID)
    tables = lay_over(tables, "window", length=_window(lines[0] or None))
    tables = lay_over(tables, "solver", C=_c(lines[1] or None), weighting=_weighting(lines[2] or None))
    StreamDefinition.from_tables(tables)
    ImbalanceSchedule.parse(lines[3])
    Window.parse(lines[4])
    span(lines[4], "max_skew")
    Address.of(lines[5])
    knobs = ("refresh_seconds", "poll_records", "metrics_address", "instance", "log_level", "broker", "replication_factor")
    environment = {f"DELTAPLANE_{knobs[len(lines[6]) % len(knobs)].upper()}": lines[6], "DELTAPLANE_KAFKA_PROPERTIES": lines[7]}
    resolve_settings({}, environment, tables)
    return "taken"


OPTION_SEEDS = (
    b"auto\nauto\nauto\n0:1,20000:20\n7d\n127.0.0.1:9108\n5\nclient.id=a;linger.ms=5",
    b"100,2000,all\n0.01,1\n0=1,1=5\n2\n20000\n[::1]:80\n0.5\nsite.acks=all",
    b"20000\n1e3\ninverse\n0:1e-3\n90s\nhost:1\nlocalhost:9092\nsecurity.protocol=SSL",
)
OPTION_WORDS = (b"\n", b",", b":", b"=", b";", b"all", b"auto", b"7d", b"ms", b"_", b"nan", b"1e400", b"site.", b"@")

# Reports and metrics -------------------------------------------------------------------------------------------------

JSON_VALUES = (
    *("null", "true", "0", "-1", "1e999", "NaN", "Infinity", "-0.0", '""', '"x"', "[]", "{}", "[null]", '{"a":1}', "1.5"),
    *("9223372036854775808", "1" * 400, "9" * 5000, "[" * 3000, '"\\ud800"', '"\\u0000"', '"<script>"', '"[bold]"'),
)


def _other_json(chance: random.Random, data: bytes) -> bytes:
    """A JSON text with other values in some places."""
    try:
        value = json.loads(data)
        for _ in range(chance.choice((1, 1, 2))):
            value = _replaced(chance, value)
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return data
    return text.replace('"@@"', chance.choice(JSON_VALUES)).encode("utf-8", "surrogatepass")


def _replaced(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _replaced(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(chance, value[at]), *value[at + 1 :]]
    return "@@"


USUAL_RUN = run_of(vanishing(), "usual")


def _report(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.json"
    path.write_bytes(data)
    runs = {"a": read_run(path), "b": USUAL_RUN}
    comparison(runs)
    best(runs)
    return "read"


def _pages() -> tuple[bytes, ...]:
    definition = stream(name="s")
    worker, merger = WorkerMetrics(definition, "here"), MergerMetrics(definition)
    worker.lags({("samples", 0): 7, ("samples", 1): 3, ("retirements", 0): 0})
    merger.model(
        model(
            3,
            definition,
            plane=plane(),
            plane_version=3,
            counts={"no": 60, "yes": 40},
            scores=scores(no_no=80, no_yes=20, yes_yes=45, yes_no=5),
            totals={"applied": 1000, "refused bad value": 3, "retirements retired": 9},
        )
    )
    merger.turn(dict.fromkeys(Verdict, 0), joined=True, has_place=True)
    return tuple(generate_latest(metrics.registry) for metrics in (worker, merger))


def _metrics(data: bytes) -> str:
    """What ``top`` makes of a page, asked twice, beside a service that does not answer."""
    try:
        series = read_metrics(data.decode())
    except ValueError:
        return "no metrics"
    if isinstance(series, Silence):
        return "a stranger"
    here, there = Address("here", 1), Address("there", 2)
    history = History()
    for at in (100.0, 101.0):
        answers: dict[Address, Scrape | Silence] = {here: Scrape(at, series, True, "ok"), there: Silence("no")}  # noqa: FBT003
        history.see(Gathering(at, at, answers, {here: "here", there: "there"}))
    frame = frame_of(history)
    json.dumps(dataclasses.asdict(frame))
    draw(frame, history, 80)
    return "shown"


METRIC_WORDS = (b"NaN", b"+Inf", b"-Inf", b"{", b"}", b'"', b"\n", b"# TYPE x counter\n", b"1e400", b"-1", b'stream="', b'le="', b" ")


def _numbers(chance: random.Random, data: bytes) -> bytes:
    """A page with other numbers, or without some of its labels or lines."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    front, space, _ = lines[at].rpartition(b" ")
    match chance.randrange(3):
        case 0 if space:
            lines[at] = front + space + chance.choice(NUMBERS)
        case 1:
            lines[at] = b""
        case _:
            lines[at] = lines[at].replace(chance.choice((b"stream=", b"site=", b"topic=", b"class=", b"le=", b"of=")), b"x=")
    return b"\n".join(lines)


def targets() -> list[Target]:
    """Every reader of files, texts and pages."""
    assert set(FORMATS) == {"csv", "arff", "libsvm", "parquet"}
    made = (vanishing(), vanishing(("a", "b", "c")))
    reports = tuple(json.dumps(summary).encode() for summary in made)
    return [
        Target("csv", CSV, _reader("csv"), 0.3, CSV_WORDS, _cells),
        Target("arff", ARFF, _reader("arff"), 0.3, ARFF_WORDS, _cells),
        Target("libsvm", LIBSVM, _reader("libsvm"), 0.3, LIBSVM_WORDS, _cells),
        Target("parquet", (_parquet(),), _reader("parquet"), 0.3, (), _within),
        Target("csv, packed", _packed(CSV), _reader("csv"), 0.1),
        Target("definition", (FULL_DEFINITION, PLAIN_DEFINITION, WEIGHTED, (EXAMPLES / "deltaplane.toml").read_bytes()), _definition, 0.3, TOML_WORDS, _assigned),
        Target("prior", PRIORS, _prior, 0.3, (b"[", b"]", b"{", b"}", b'"'), _other_json),
        Target("options", OPTION_SEEDS, _options, 0.2, OPTION_WORDS),
        Target("report", reports, _report, 0.1, (b"[", b"]", b"{", b"}", b'"', b"null"), _other_json),
        Target("metrics", _pages(), _metrics, 0.1, METRIC_WORDS, _numbers),
    ]
