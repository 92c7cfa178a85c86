"""The fuzzer: seeded damage to golden messages and example files, led by the lines of the decoders that inputs reach.

An input that runs a line that no input ran before becomes a seed itself. Every input must end in a value, a refusal by
name, or a dead letter, in bounded time and memory, and must not touch what comes after it; anything else is a crash.
One seed of the fuzzer repeats one run.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType

from fuzz.lines import LinesSeen
from fuzz.mutation import damaged
from fuzz.target import Broken, Target

SECONDS_OF_AN_INPUT = 10
"""An input that takes more processor time is a hang. The slowest, a megabyte of scores, takes two."""

WATCHED_TAKES_TIMES = 10
"""How much longer an input may take while its lines are watched: up to eight times was measured."""

BYTES_BEYOND_THE_START = 1024 * 2**20
"""Address space that the process may take beyond what it has when the first input comes."""

WATCHED_FIRST, WATCHED_EVERY = 20_000, 8
"""Inputs of which lines are watched: the first, and then every so many."""

MOST_SEEDS = 3000
DECODERS = (
    *(
        "deltaplane.wire",
        "deltaplane.columns",
        "deltaplane.stream.definition",
        "deltaplane.table_values",
        "deltaplane.stream.nested_windows",
        "deltaplane.stream.component_tables",
    ),
    *(
        "deltaplane_services.readers",
        "deltaplane_services.produce.feed_options",
        "deltaplane_services.definition_file.settings",
    ),
    *("deltaplane_services.observe.report.record", "deltaplane_services.observe.report.compare"),
    *(
        "deltaplane_services.operations.backup",
        "deltaplane_services.observe.top.gather",
        "deltaplane_services.observe.top.snapshot",
    ),
)
"""The modules whose lines lead the fuzzer, and are reported; packages with all that is in them."""

NO_DECODERS = ("write_", "trials_fields", "blend_fields", "statistics_fields", "score_fields", "source_fields")
"""Functions in them that only write."""


@dataclass(frozen=True)
class Crash:
    """An input that was neither read nor refused, and where that came out."""

    target: str
    data: bytes
    what: str
    where: str
    trace: str


@dataclass
class Findings:
    """What came of a run."""

    seed: int
    inputs: int = 0
    seconds: float = 0.0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    crashes: list[Crash] = field(default_factory=list)
    seeds_found: int = 0
    slowest: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0


def decoders() -> list[ModuleType]:
    """The modules of :data:`DECODERS`."""
    found = []
    for name in DECODERS:
        module = importlib.import_module(name)
        inside = getattr(module, "__path__", None)
        found.append(module)
        if inside is not None:
            found += [importlib.import_module(f"{name}.{part.name}") for part in pkgutil.iter_modules(inside)]
    return found


@contextmanager
def bounded() -> Iterator[None]:
    """No more than so much memory beyond what there is now, and a timer to set before each input.

    It counts processor time, so a busy machine makes no hang.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    usual = signal.signal(signal.SIGPROF, _hang)
    size = Path("/proc/self/statm")
    if size.exists():  # Elsewhere than on Linux memory is not bounded.
        now = int(size.read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + BYTES_BEYOND_THE_START, before[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)
        resource.setrlimit(resource.RLIMIT_AS, before)


class _Hang(BaseException):
    """Not an Exception, so that no decoder takes it for a fault of its input."""


def _hang(_: int, __: FrameType | None) -> None:
    raise _Hang


def try_input(target: Target, data: bytes) -> str | Crash:
    """What comes of one input: a word, or a crash."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_AN_INPUT * (WATCHED_TAKES_TIMES if sys.gettrace() else 1))
    try:
        return target.outcome(data)
    except (Exception, _Hang) as fault:  # noqa: BLE001 - whatever it is, it is a finding.
        return _crash(target, data, fault)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _crash(target: Target, data: bytes, fault: BaseException) -> Crash:
    what = "hang" if isinstance(fault, _Hang) else str(fault) if isinstance(fault, Broken) else type(fault).__name__
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "deltaplane" in frame.filename]
    last = frames[-1] if frames else traceback.extract_tb(fault.__traceback__)[-1]
    trace = "".join(traceback.format_exception(fault))
    return Crash(target.name, data, what, f"{Path(last.filename).name}:{last.lineno} {last.name}", trace)


def run(
    targets: Sequence[Target],
    inputs: int,
    seed: int,
    lines: LinesSeen,
    said: Callable[[Findings], None] = lambda _: None,
) -> Findings:
    """So many inputs, spread over the targets by their shares; a crash of the same kind and place is kept once."""
    chance = random.Random(seed)
    findings = Findings(seed, outcomes={target.name: Counter() for target in targets})
    seeds = {target.name: list(target.seeds) for target in targets}
    everything = [data for target in targets for data in target.seeds]
    known: set[tuple[str, str, str]] = set()
    began = time.monotonic()
    with bounded(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in targets:
            read = False
            for data in target.seeds:
                with lines:
                    came = try_input(target, data)
                if isinstance(came, Crash):
                    raise Broken(f"an undamaged input of {target.name} crashes:\n{came.trace}")
                read |= not came.startswith("refused")
            if not read:  # Whatever refuses everything is not put to the test.
                raise Broken(f"no undamaged input of {target.name} is read")
        order = chance.choices(targets, [target.share for target in targets], k=inputs)
        for number, target in enumerate(order):
            # Half of the inputs begin with what is whole: what reached a new line is mostly broken already.
            data = _input(chance, target, target.seeds if number % 2 else seeds[target.name], everything)
            at = time.monotonic()
            if number < WATCHED_FIRST or number % WATCHED_EVERY == 0:
                with lines:
                    came = try_input(target, data)
                if lines.new and len(seeds[target.name]) < MOST_SEEDS:
                    seeds[target.name].append(data)
                    findings.seeds_found += 1
            else:
                came = try_input(target, data)
            took = time.monotonic() - at
            findings.slowest[target.name] = max(findings.slowest.get(target.name, 0.0), took)
            findings.inputs += 1
            word = f"CRASH: {came.what}" if isinstance(came, Crash) else came
            findings.outcomes[target.name][word] += 1
            if isinstance(came, Crash) and (came.target, came.what, came.where) not in known:
                known.add((came.target, came.what, came.where))
                findings.crashes.append(came)
            if number % 1000 == 0 or (isinstance(came, Crash) and findings.crashes[-1] is came):
                findings.seconds = time.monotonic() - began
                said(findings)
    findings.seconds = time.monotonic() - began
    findings.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return findings


def _input(chance: random.Random, target: Target, seeds: Sequence[bytes], everything: Sequence[bytes]) -> bytes:
    data = chance.choice(seeds)
    others = seeds if chance.random() < 0.8 else everything
    if target.reshape is not None and chance.random() < 0.5:
        data = target.reshape(chance, data)
        if chance.random() < 0.8:
            return data
    return damaged(chance, data, others, target.words)
