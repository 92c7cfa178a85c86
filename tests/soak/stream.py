"""The stream that is soaked: ten features, two partitions, a window of time, a log that lets go of what has left it.

The features are those of eight columns: a part of the rows comes by name.
"""

from __future__ import annotations

import secrets
from pathlib import Path

NUMBERS = tuple(f"number_{at}" for at in range(7))
LEVELS = ("a", "b")
FEATURES = len(NUMBERS) + len(LEVELS) + 1
PARTITIONS = 2
LABELS = ("no", "yes")
WINDOW_SECONDS = 60
SKEW_SECONDS = 20
LAG_SECONDS = 120
"""How long the slowest reader may stand still. Window, skew and this together are how long the brokers keep a row: so
short that also a run of ten minutes lives through the loss of the oldest rows, and restarts after it."""

SESSION_SECONDS = 6.0

BROKER = {
    # A topic lets go of whole files only, and of none that is still written to.
    "log.segment.bytes": str(8 * 2**20),
    "log.roll.ms": "60000",
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
}
"""Settings of the broker by which its disk stays small: small files, closed soon, thrown away soon."""


def write_definition(path: Path, seed: int) -> None:
    """Write the definition file; the name of the stream has not been used before."""
    rules = [f'{{ column = "{name}", kind = "number", missing = "fill", fill = 0.0 }}' for name in NUMBERS]
    rules.append(
        f'{{ column = "kind", kind = "category", missing = "fill", levels = {list(LEVELS)} }}'.replace("'", '"')
    )
    path.write_text(
        f"""name = "soak-{seed}-{secrets.token_hex(3)}"
partitions = {PARTITIONS}
max_skew = "{SKEW_SECONDS}s"

[columns]
rules = [{", ".join(rules)}]

[grid]
steps = [{", ".join(["0.0009765625"] * FEATURES)}]

[classes]
names = ["{LABELS[0]}", "{LABELS[1]}"]
positive = "{LABELS[1]}"

[window]
length = "{WINDOW_SECONDS}s"

[solver]
C = 1.0

[service]
session_timeout_milliseconds = {int(1000 * SESSION_SECONDS)}
worst_lag_seconds = {LAG_SECONDS}
replication_factor = 1
""",
        encoding="utf-8",
    )
