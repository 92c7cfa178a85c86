"""The stream that a seed is about, as the definition file that every process of a run reads."""

from __future__ import annotations

import secrets
from pathlib import Path

WINDOWS = ("1500", "all", "5s")
"""A count of rows, everything, a span of event time: a seed has the one at its remainder."""

PARTITIONS = 4
SESSION_SECONDS = 3.0
"""How long a silent process keeps its place. Brokers of the tests allow it; deployments take twice as much."""

SHUTDOWN_SECONDS = 25.0


def window_for(seed: int) -> str:
    """The window that a seed is about."""
    return WINDOWS[seed % len(WINDOWS)]


DENSE = """
[features]
names = ["a", "b", "c"]
"""
BY_NAME = """
[[columns.rules]]
column = "amount"
kind = "number"
missing = "fill"
fill = 7.0

[[columns.rules]]
column = "kind"
kind = "category"
missing = "fill"
levels = ["a"]
"""
"""As many features, of rows by name: those of the simulation, whose producer sends some by name and some encoded."""


def has_columns(seed: int) -> bool:
    """Whether rows come by name, too: with every other seed, whatever the window."""
    return seed % 2 == 1


def write_definition(path: Path, seed: int, window: str) -> None:
    """Write the definition file of a run; the name of the stream has not been used before."""
    length = window if window.isdigit() else f'"{window}"'
    path.write_text(
        f"""name = "chaos-{seed}-{secrets.token_hex(3)}"
partitions = {PARTITIONS}
max_skew = "1h"
{BY_NAME if has_columns(seed) else DENSE}
[grid]
steps = [1.0, 1.0, 1.0]

[classes]
names = ["x", "y", "z"]

[window]
length = {length}

[solver]
C = 1.0

[service]
site = "here"
session_timeout_milliseconds = {int(1000 * SESSION_SECONDS)}
shutdown_timeout_seconds = {SHUTDOWN_SECONDS}
refresh_seconds = 0.1
checkpoint_seconds = 2.0
# The account at the end reads every record that was ever sent.
trim_seconds = 0.0
poll_records = 300
replication_factor = 3
""",
        encoding="utf-8",
    )
