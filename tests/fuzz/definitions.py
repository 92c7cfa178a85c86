"""Definitions, earlier planes, settings, and the values of the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane.stream.declared import DeclaredSolver, DeclaredWindow
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import Window
from deltaplane.table_values import span
from deltaplane_services.definition_file.definition_tables import read_prior
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.observe.top.gather import Address
from deltaplane_services.operations.backup import Backup, BackupWriter
from deltaplane_services.processors.messages import Record
from deltaplane_services.produce.feed_options import (
    ImbalanceSchedule,
    ReplayOptions,
    complete_definition,
    reader_options,
)
from deltaplane_services.replay.keywords import c_of, weighting_of, window_of
from fuzz.data_files import cells
from fuzz.pages import other_json
from fuzz.target import Broken, Target

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRATCH = Path(tempfile.gettempdir())
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
WEIGHTED = b"""
[classes]
names = [0, 1]
[window]
length = "all"
keep_rows = false
[solver]
C = 2
weighting = {0 = 1.0, 1 = 5}
"""
VALUES = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "3",
        "2001",
        "{no = 1, yes = 2}",
        f"{{no = 1, yes = {10**400}}}",
        "1e400",
        "nan",
        "-inf",
        "inf",
        "true",
        "false",
        "[]",
        "{}",
        "''",
        "'auto'",
    ),
    *("'all'", "'7d'", "'1ms'", "'none'", "'a'", "[1]", "['a']", "[[1.0]]", "[[]]", "{a = 1}", "1979-05-27", "0.5"),
    *("9223372036854775807", "9223372036854775808", "1" * 400, "9" * 5000, "[" * 50 + "]" * 50, "'\\u0000'", "1e308"),
    *("'" + "9" * 30 + "d'", "['100', '100']", "['100', '7d']", "'0'", "'-5'", "-9223372036854775808", "5e-324"),
)
TOML_WORDS = (
    b"[",
    b"]",
    b"=",
    b'"',
    b"\n",
    b"[[",
    b"[grid]",
    b"[prior]",
    b"[feature_map]",
    b"max = 500\n",
    b"\xff",
    b"{",
    b"'''",
)
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
    options = ReplayOptions("stream.csv", DefinitionFile.read(path))
    reader_options(options.definition_file)
    names = options.stream.features.names
    rows = FIRST_ROWS[:, : len(names)] if names else FIRST_ROWS[:, :2]
    definition = complete_definition(options, ("a", "b"), rows)
    # A definition that is accepted can be written down, and says the same when it is read.
    again = StreamDefinition.from_tables(definition.to_tables())
    if again.stream_fingerprint != definition.stream_fingerprint:
        raise Broken("the tables of a definition make another")
    resolve_settings({}, {}, {**definition.to_tables(), **options.definition_file.service})
    return "read"


def _prior(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.json"
    path.write_bytes(data)
    StreamDefinition.from_tables({**tomllib.loads(PLAIN_GRID), "prior": read_prior(path)})
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


def _span_or_window(line: str) -> None:
    Window.parse(line)
    if not line.isdigit():
        span(line, "max_skew")


def _options(data: bytes) -> str:
    """Values of the command line: one to each line, in this order."""
    lines = [line.decode("utf-8", "surrogateescape") for line in data.split(b"\n")]
    lines += [""] * (8 - len(lines))
    tables: dict[str, Any] = tomllib.loads(PLAIN_GRID)
    declared = DefinitionFile.of(tables)
    StreamDefinition.of(
        dataclasses.replace(
            declared.stream,
            window=DeclaredWindow().with_said(length=window_of(lines[0] or None)),
            solver=DeclaredSolver().with_said(C=c_of(lines[1] or None), weighting=weighting_of(lines[2] or None)),
        )
    )
    for line, parse in zip(lines[3:6], (ImbalanceSchedule.parse, _span_or_window, Address.of), strict=True):
        if line:
            parse(line)
    name, _, value = lines[6].partition("=")
    environment = {f"DELTAPLANE_{name.upper()}": value, "DELTAPLANE_KAFKA_PROPERTIES": lines[7]}
    resolve_settings({}, environment, tables)
    return "taken"


OPTION_SEEDS = (
    b"auto\nauto\nauto\n0:1,20000:20\n7d\n127.0.0.1:9108\npoll_records=5\nclient.id=a;linger.ms=5",
    b"100,2000,all\n0.01,1\n0=1,1=5\n2\n7w\n[::1]:80\nrefresh_seconds=0.5\nsite.acks=all",
    b"20000\n1e3\ninverse\n0:1e-3\n90s\nhost:1\nbroker=localhost:9092\nsecurity.protocol=SSL",
)
OPTION_WORDS = (b"\n", b",", b":", b"=", b";", b"all", b"auto", b"7d", b"ms", b"_", b"nan", b"1e400", b"site.", b"@")


def _backup_of(records: Sequence[Record], digest: str | None) -> bytes:
    path = SCRATCH / f"fuzz-{os.getpid()}.avro"
    with BackupWriter(path, StreamDefinition.from_tables(tomllib.loads(PLAIN_GRID))) as writer:
        writer.add(records)
        writer.end(digest)
    return path.read_bytes()


def _other_backup(chance: random.Random, _: bytes) -> bytes:
    """A whole file of other records, some of which belong in no backup."""
    records = [
        Record(
            chance.choice(("samples", "samples", "samples", "retirements", "retirements", "end", "")),
            chance.choice((0, 1, -1, 2**31 - 1)),
            chance.choice((at, -1, 2**63 - 1)),
            chance.choice((0, -(2**63))),
            chance.choice((None, b"", chance.randbytes(9))),
            chance.choice((None, chance.randbytes(30))),
        )
        for at in range(chance.randrange(4))
    ]
    return _backup_of(records, chance.choice((None, "", "0123", "\N{SNOWMAN}")))


def _backup(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.avro"
    path.write_bytes(data)
    for record in Backup(path).records():
        if record.topic not in ("samples", "retirements"):
            raise Broken("a record of another topic in a backup")
    return "read"


def targets() -> list[Target]:
    """Every reader of settings."""
    definitions = (FULL_DEFINITION, PLAIN_DEFINITION, WEIGHTED, (EXAMPLES / "deltaplane.toml").read_bytes())
    return [
        Target("definition", definitions, _definition, 0.3, TOML_WORDS, _assigned),
        Target("prior", PRIORS, _prior, 0.3, (b"[", b"]", b"{", b"}", b'"'), other_json),
        Target(
            "backup",
            (_backup_of([Record("samples", 0, 7, 5, None, b"value")], "0123"),),
            _backup,
            0.2,
            (),
            _other_backup,
        ),
        Target("options", OPTION_SEEDS, _options, 0.3, OPTION_WORDS, cells),
    ]
