"""The few settings that an operator may have to turn, each declared once: its default, its bounds, who heeds it.

From this the command line takes its flags, the environment its variables and ``[service]`` its keys; what a setting is
for is said here, and shown by ``--help``. Imports nothing heavy: every command reads it before it does anything.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass, field
from typing import Any

from deltaplane.errors import DefinitionError

__all__ = [
    "ANYTHING",
    "FOLLOWER",
    "HOST_AND_PORT",
    "LOG_LEVELS",
    "MEMBERS",
    "SERVICES",
    "TOPICS",
    "Bounds",
    "Knobs",
    "check_range",
]

LOG_LEVELS = ("debug", "info", "warning", "error")
SERVICES = ("worker", "merger", "scorer", "intake", "judge")
FOLLOWER = "bootstrap follow"
MEMBERS = ("worker", "scorer", "intake")
TOPICS = ("topics create", "topics check")

_ADDRESS = re.compile(
    r"https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?(,https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?)*"
)
_INSTANCE = re.compile(r"[A-Za-z0-9._-]{1,249}")
HOST_AND_PORT = re.compile(r"(?:[A-Z_]+://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Bounds:
    """What a setting may be: a number from ``low`` to ``high``, or one of some words."""

    low: float = -math.inf
    high: float = math.inf
    words: tuple[str, ...] = ()


ANYTHING = Bounds()


def _knob(default: Any, heeded_by: tuple[str, ...], description: str, bounds: Bounds = ANYTHING) -> Any:
    metadata = {"heeded_by": heeded_by, "help": description, "bounds": bounds}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Knobs:
    """What an operator may have to turn; every other choice is made. Commands heed some of them."""

    instance: str = _knob(
        "",
        MEMBERS,
        "Fixed name of this process: a restart within the session keeps its partitions. Must differ between processes;"
        " {hostname} is replaced.",
    )
    metrics_address: str = _knob(
        "127.0.0.1:9108",
        (*SERVICES, FOLLOWER),
        "HOST:PORT of /metrics, /healthz and /readyz; this machine only by default.",
    )
    log_level: str = _knob(
        "info", (*SERVICES, FOLLOWER), "How much is said on standard error.", Bounds(words=LOG_LEVELS)
    )
    blas_threads: int = _knob(
        1,
        (*SERVICES, FOLLOWER, "replay"),
        "Threads of BLAS in this process; 0: all that it would take. More than one pays for planes of a thousand"
        " features and more, on cores with nothing else to do, and gives other last bits from 128 on.",
        Bounds(0, 1024),
    )
    refresh_seconds: float = _knob(
        0.1, ("merger",), "Solve at most once in this time. Longer is less work, and later models.", Bounds(0.0, 3600.0)
    )
    checkpoint_seconds: float = _knob(
        10.0,
        ("merger",),
        "Write checkpoints at most once in this time. Longer is less written, and a slower restart.",
        Bounds(0.1, 3600.0),
    )
    poll_records: int = _knob(
        1000,
        SERVICES,
        "Records taken from a source at once. More is more rows a second, and later deltas.",
        Bounds(1, 10_000),
    )
    poll_timeout_seconds: float = _knob(
        0.05,
        SERVICES,
        "How long to wait for so many records. It adds to how old a delta is when the input is thin.",
        Bounds(0.001, 10.0),
    )
    session_timeout_milliseconds: int = _knob(
        6000,
        SERVICES,
        "How long a silent member keeps its place. Brokers allow no less than their group.min.session.timeout.ms.",
        Bounds(1000, 1_800_000),
    )
    shutdown_timeout_seconds: float = _knob(
        30.0,
        (*SERVICES, FOLLOWER),
        "How long a service may take to end before it ends itself by force. Stay below what the supervisor allows.",
        Bounds(1.0, 600.0),
    )
    worst_lag_seconds: float = _knob(
        604_800.0,
        TOPICS,
        "How long the slowest reader may stand still before retention may take what it has not read; a week by"
        " default.",
        Bounds(60.0, 315_360_000.0),
    )
    trim_seconds: float = _knob(
        600.0,
        ("merger",),
        "How often the elected merger lets go of samples and retirements that no window needs, if brokers allow it:"
        " what goes is found one turn and let go of in the next. 0: never. See: deltaplane topics trim.",
        Bounds(0.0, 2_592_000.0),
    )
    state_directory: str = _knob(
        "deltaplane-state",
        ("intake",),
        "Directory of the events that wait for their labels. It may be lost: it is rebuilt from the topics.",
    )
    registry: str = _knob(
        "",
        ("intake",),
        "Address of the schema registry, http://HOST:PORT with its path, for the formats that need one.",
    )
    registry_properties: str = _knob(
        "",
        ("intake",),
        "File of more properties of the registry's client, in TOML: those of confluent-kafka, such as"
        " 'basic.auth.user.info' = 'USER:PASSWORD'. Secrets belong there.",
    )
    replication_factor: int = _knob(
        -1,
        TOPICS,
        "Replicas of the topics that are created; -1 leaves it to the brokers. Use 3 wherever loss matters.",
        Bounds(-1, 100),
    )

    def __post_init__(self) -> None:
        for knob in dataclasses.fields(self):
            check_range(knob, getattr(self, knob.name), knob.name)
        if self.replication_factor == 0:
            raise DefinitionError("replication_factor: expected -1 (as the brokers have it) or 1 and more, got 0")
        if self.instance and not _INSTANCE.fullmatch(self.instance):
            raise DefinitionError(
                f"instance: expected at most 249 letters, digits, '.', '_' and '-', got {self.instance[:50]!r}"
            )
        self.metrics_host_and_port()
        if self.registry and not _ADDRESS.fullmatch(self.registry):
            raise DefinitionError(
                "registry: expected http://HOST:PORT or https://…, without user and password, which belong into the"
                f" file of registry_properties; got {len(self.registry)} characters that are none"
            )

    def metrics_host_and_port(self) -> tuple[str, int]:
        """Where /metrics listens."""
        match = HOST_AND_PORT.fullmatch(self.metrics_address)
        if match is None or int(match[2]) > 65_535 or "://" in self.metrics_address:
            raise DefinitionError(f"metrics_address: expected HOST:PORT, got {self.metrics_address[:100]!r}")
        return match[1].strip("[]"), int(match[2])


def check_range(knob: dataclasses.Field[Any], value: Any, where: str) -> None:
    """Raise :class:`DefinitionError` for a value that a setting cannot have."""
    bounds: Bounds = knob.metadata["bounds"]
    if bounds.words and value not in bounds.words:
        raise DefinitionError(f"{where}: expected one of {', '.join(bounds.words)}, got {str(value)[:50]!r}")
    if not isinstance(value, str) and not bounds.low <= value <= bounds.high:
        raise DefinitionError(f"{where}: expected from {bounds.low:g} to {bounds.high:g}, got {str(value)[:50]}")
