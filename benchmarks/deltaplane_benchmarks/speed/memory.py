"""``bench memory``: what a stream that never ends takes: memory and time a row, by rows seen and by length of window.

Rows made from a seed go through the embedded pipeline, chunk by chunk, with a model after each, in a process of its
own: what stands beside them there (imports, the rows that are sent again and again under new ids) is there before the
first row and does not grow. Cost is processor time, and what is judged is its ratio to that of plain work on the same
rows, done in turn with it (their float product, and a dictionary of their ids): so whoever else is on the machine
slows down both.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from deltaplane.arrays import Flags
from deltaplane.errors import DeltaplaneError
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_benchmarks.speed.made_rows import LABELS, Rows, definition_for, make_rows
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.replay.pipeline import EmbeddedPipeline

__all__ = [
    "EVERY_EIGHTH",
    "PLAIN_EVERY",
    "POOL_ROWS",
    "SETTLING_SHARE",
    "SETTLING_WINDOWS",
    "Course",
    "Look",
    "Passed",
    "held_megabytes",
    "median_microseconds",
    "median_ratio",
    "plain_work",
    "resident_megabytes",
    "run_course",
    "run_here",
]

POOL_ROWS = 100_000
"""Rows that are made once and sent in turn."""

EVERY_EIGHTH = 8
SETTLING_SHARE, SETTLING_WINDOWS = 0.1, 10
"""Of the rows, and lengths of the window, but no more than half of all rows: until then buffers find their size."""

PLAIN_EVERY = 5
"""One chunk in so many goes through the plain work, too."""


@dataclass(frozen=True)
class Course:
    """``rows`` of ``features`` through a window of ``window`` rows, looked at ``looks`` times.

    ``retire_every``: one row in so many is retired while it is in the window; 0 is none. ``traced``: memory is what
    Python and NumPy have asked for and hold, to the byte, and not what the system has given; time means nothing then.
    """

    rows: int
    features: int
    window: int
    chunk: int
    seed: int
    looks: int
    retire_every: int = 0
    traced: bool = False


@dataclass(frozen=True)
class Look:
    """After so many rows: resident memory now, and processor time a row since the look before.

    ``ratio``: so many times the plain work took it.
    """

    rows: int
    megabytes: float
    microseconds: float
    ratio: float


@dataclass(frozen=True)
class Passed:
    """A course that was run: memory before its first row, the looks, and whether the digest is that of the batch."""

    course: Course
    megabytes_before: float
    looks: tuple[Look, ...]
    digest: str
    same_digest: bool
    live_rows: int

    @property
    def settled(self) -> tuple[Look, ...]:
        """The looks once the window has been full for a while."""
        rows, window = self.course.rows, self.course.window
        first = min(max(SETTLING_SHARE * rows, float(SETTLING_WINDOWS * window)), rows / 2)
        return tuple(look for look in self.looks if look.rows > first)


def median_ratio(looks: Sequence[Look]) -> float:
    """Time a row to that of plain work, over several looks."""
    return float(np.median([look.ratio for look in looks]))


def median_microseconds(looks: Sequence[Look]) -> float:
    """Processor time a row, over several looks."""
    return float(np.median([look.microseconds for look in looks]))


def run_course(course: Course) -> Passed:
    """Run it in a new process. Raises :class:`DeltaplaneError` where that fails."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_there, args=(theirs, course), daemon=True)
    process.start()
    theirs.close()
    try:
        passed: Passed = ours.recv()
    except EOFError:
        process.join()
        raise DeltaplaneError(f"bench memory: the process of {course} ended with {process.exitcode}") from None
    process.join()
    return passed


def _run_there(pipe: Connection, course: Course) -> None:
    if course.traced:
        tracemalloc.start()
    pipe.send(run_here(course, held_megabytes if course.traced else resident_megabytes))


def held_megabytes() -> float:
    """What Python and NumPy hold in this process, since tracing began."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 2**20


def resident_megabytes() -> float:
    """Of this process, now. Raises :class:`DeltaplaneError` where the system does not say."""
    gc.collect()
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        raise DeltaplaneError("bench memory: not supported on this system: it reads /proc (Linux)") from None
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def run_here(course: Course, measure: Callable[[], float]) -> Passed:
    """Run it in this process; ``measure`` gives the megabytes."""
    pool = make_rows(POOL_ROWS, course.features, course.seed)
    definition = definition_for(pool, "bench", str(course.window), 1.0)
    pipeline = EmbeddedPipeline(definition, course.seed)
    before, looks, spent, plain = measure(), [], _Spent(), _Spent()
    every = max(course.chunk, course.rows // course.looks)
    for start in range(0, course.rows, course.chunk):
        stop = min(start + course.chunk, course.rows)
        samples, retired = _samples(pool, start, stop), _retired(course, start, stop)
        began = time.process_time()
        pipeline.publish(_records(definition, samples, retired), start)
        pipeline.advance(start)
        spent.add(time.process_time() - began, len(samples))
        if start // course.chunk % PLAIN_EVERY == 0:
            began = time.process_time()
            plain_work(samples)
            plain.add(time.process_time() - began, len(samples))
        pipeline.dead_letters()  # Taken off their topics, and the receipts too, as a replay does.
        if stop // every > start // every:
            looks.append(Look(stop, measure(), 1e6 * spent.a_row, spent.a_row / plain.a_row))
            spent, plain = _Spent(), _Spent()
    # A retirement is in the log behind its row, and may come with the last chunk: one more round.
    pipeline.drain(course.rows)
    model = pipeline.model
    assert model is not None, "rows were learned"
    same = model.digest == _batch(definition, pool, course).digest(definition.data_fingerprint)
    live = sum(_live(course))
    return Passed(course, before, tuple(looks), model.digest, same, live)


@dataclass
class _Spent:
    """Processor seconds, and the rows that they were spent on."""

    seconds: float = 0.0
    rows: int = 0

    def add(self, seconds: float, rows: int) -> None:
        self.seconds += seconds
        self.rows += rows

    @property
    def a_row(self) -> float:
        """Seconds; never none at all, however coarse the clock is."""
        return max(self.seconds, 1e-9) / max(self.rows, 1)


def plain_work(samples: Samples) -> None:
    """What nobody could do less than: the product of the rows as floats, entering and leaving, and an index of ids."""
    for _ in range(2):
        samples.features.T @ samples.features
    index = dict(zip(samples.ids, range(len(samples)), strict=True))
    index.clear()


def _samples(pool: Rows, start: int, stop: int) -> Samples:
    """Rows of the pool, in turn, under the numbers of the stream."""
    at = np.arange(start, stop, dtype=np.int64) % len(pool)
    ids, numbers = list(map(str, range(start, stop))), np.arange(start, stop, dtype=np.int64)
    return Samples.of_record(ids, numbers, LABELS, pool.codes[at], pool.features[at])


def _retired(course: Course, start: int, stop: int) -> Iterable[int]:
    """Rows that are retired now: half a window ago they came."""
    if not course.retire_every:
        return ()
    first, last = (max(0, number - course.window // 2) for number in (start, stop))
    return range(-(-first // course.retire_every) * course.retire_every, last, course.retire_every)


def _records(definition: StreamDefinition, samples: Samples, retired: Iterable[int]) -> list[Outgoing]:
    codec = codec_of(definition)
    asked = [Retirement(str(number), "bench", 0, time=0) for number in retired]
    return [codec.sample_batch(0, samples), *(codec.retirement_of(0, one) for one in asked)]


def _live(course: Course) -> Flags:
    """Of the rows of the last window, in order: which are live in the end."""
    numbers = np.arange(max(0, course.rows - course.window), course.rows)
    if not course.retire_every:
        return np.ones(len(numbers), dtype=bool)
    last = max(0, course.rows - course.window // 2)
    retired: Flags = (numbers % course.retire_every == 0) & (numbers < last)
    return ~retired


def _batch(definition: StreamDefinition, pool: Rows, course: Course) -> Statistics:
    """What the rows that are live in the end add up to, learned at once."""
    numbers = np.arange(max(0, course.rows - course.window), course.rows)[_live(course)] % len(pool)
    quantized, _ = definition.grid.quantize(pool.features[numbers])
    parts = moments_by_class(quantized, pool.codes[numbers], list(LABELS))
    return Statistics(definition.dimension, {(0, label): moments for label, moments in parts.items()})
