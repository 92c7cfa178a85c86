"""What a soak sees every few seconds: each process, and the stream as a whole. It becomes lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ProcessSample:
    """One process at one moment.

    ``life``: how often a process of this name has been started. ``work``: what it is occupied with, as far as its size
    depends on that: how many partitions a worker has, whether a merger is elected. ``seconds``: since the run began.
    """

    seconds: float
    name: str
    life: int
    work: str
    resident_megabytes: float
    files: int
    threads: int

    @property
    def role(self) -> str:
        """worker, merger, scorer, broker or load."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class StreamSample:
    """The stream at one moment.

    ``rows_behind``: rows that the broker has acknowledged and the newest model does not account for.
    ``lag_records``: what the services say that they have still to read. ``freshness_seconds``: from the log time of
    samples to the making of the first model with them, the mean since the last sample; None where no worker says it.
    """

    seconds: float
    rows_acknowledged: int
    rows_behind: int
    lag_records: int
    freshness_seconds: float | None
    live_rows: int
    disk_megabytes: float


@dataclass(frozen=True)
class Event:
    """Something that was done to a process; ``what`` begins with its name."""

    seconds: float
    what: str

    @property
    def role(self) -> str:
        """worker, merger, scorer or broker."""
        return self.what.partition("-")[0]


@dataclass(frozen=True)
class Curves:
    """All that was seen."""

    processes: tuple[ProcessSample, ...]
    stream: tuple[StreamSample, ...]
    events: tuple[Event, ...]

    @property
    def seconds(self) -> float:
        """How long it was looked at."""
        return max((sample.seconds for sample in self.stream), default=0.0)

    def of(self, name: str) -> list[ProcessSample]:
        """Every sample of the processes of one name."""
        return [sample for sample in self.processes if sample.name == name]

    @property
    def names(self) -> list[str]:
        """The names of all processes, in order of appearance."""
        return list(dict.fromkeys(sample.name for sample in self.processes))


Seen = ProcessSample | StreamSample | Event
KINDS: dict[str, type[Any]] = {"process": ProcessSample, "stream": StreamSample, "event": Event}


def as_line(seen: Seen) -> str:
    """One line of JSON, without its end."""
    kind = next(name for name, kind in KINDS.items() if isinstance(seen, kind))
    return json.dumps({"kind": kind, **asdict(seen)})


def read_curves(file: Path) -> Curves:
    """What was written down, as far as it goes: the last line may be half a line."""
    whole = file.read_text("utf-8").rpartition("\n")[0]
    return curves_of(_seen(json.loads(line)) for line in whole.splitlines())


def _seen(fields: dict[str, Any]) -> Seen:
    seen: Seen = KINDS[fields.pop("kind")](**fields)
    return seen


def curves_of(every: Iterable[Seen]) -> Curves:
    """Sort what was seen by kind."""
    seen = list(every)
    return Curves(
        tuple(one for one in seen if isinstance(one, ProcessSample)),
        tuple(one for one in seen if isinstance(one, StreamSample)),
        tuple(one for one in seen if isinstance(one, Event)),
    )
