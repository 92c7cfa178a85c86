"""Interrupts: what they may cut short, and what they may not."""

from __future__ import annotations

import gzip
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.pipeline import EmbeddedPipeline
from deltaplane_services.replay.result import ReplayResult
from deltaplane_services.replay.run import replay
from deltaplane_services.system.interrupts import STOP_SIGNALS, Interrupts

EXAMPLES = Path(__file__).parents[2] / "examples"
ELECTRICITY = EXAMPLES / "electricity.csv.gz"
CHUNK = 1000

pytestmark = pytest.mark.usefixtures("_heard")


@pytest.fixture
def _heard() -> Iterator[None]:
    """Both signals are heard, though these tests may run in the background of a shell, which has them ignored."""
    handlers: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
        assert handlers == {number: signal.getsignal(number) for number in STOP_SIGNALS}, "handlers are put back"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_an_interrupt_is_raised_where_nothing_is_held_and_at_the_end_of_what_is(number: signal.Signals) -> None:
    done = []

    def work(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(number)
            done.append("the whole of it")
        done.append("more")

    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            work(interrupts)
        with interrupts.held():
            done.append("nothing is left of what was heard before")
    assert done == ["the whole of it", "nothing is left of what was heard before"]


def test_a_second_interrupt_is_not_held() -> None:
    done = []

    def work(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            done.append("after the first")
            signal.raise_signal(signal.SIGINT)
            done.append("after the second")

    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        work(interrupts)
    assert done == ["after the first"]


def test_what_fails_while_interrupts_are_held_says_so_itself() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("its own")

    with Interrupts() as interrupts, pytest.raises(ValueError, match="its own"):
        work(interrupts)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_there_are_no_handlers_to_set_and_work_is_done() -> None:
    done = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.held():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


class Interrupted(EmbeddedPipeline):
    """Is interrupted in the third chunk: between two of its records, or before it is learned."""

    def __init__(self, definition: StreamDefinition, where: str) -> None:
        super().__init__(definition, seed=0)
        self._where, self._chunks = where, 0

    def _interrupt(self, where: str) -> None:
        if where == self._where and self._chunks == 3:
            signal.raise_signal(signal.SIGINT)

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        self._chunks += 1
        for number, record in enumerate(records):
            if number == 1:
                self._interrupt("published by half")
            super().publish([record], now)

    def advance(self, now: int) -> None:
        self._interrupt("published, not learned")
        super().advance(now)
        self._interrupt("learned, not noted")


def run(open_pipeline: Callable[[StreamDefinition], EmbeddedPipeline], rows: Path = ELECTRICITY) -> ReplayResult:
    tables = load_tables(EXAMPLES / "deltaplane.toml") | {"partitions": 3, "window": {"length": 1500}}
    options = ReplayOptions(source=str(rows), definition_file=DefinitionFile.of(tables), chunk=CHUNK, verify=True)
    return replay(options, lambda _: None, open_pipeline)


@pytest.mark.parametrize("where", ["published by half", "published, not learned", "learned, not noted"])
def test_an_interrupted_replay_ends_with_whole_chunks(where: str, tmp_path: Path) -> None:
    interrupted = run(lambda definition: Interrupted(definition, where))

    with gzip.open(ELECTRICITY, "rt") as lines:
        rows = tmp_path / "rows.csv"
        rows.write_text("".join(itertools.islice(lines, 1 + 3 * CHUNK)))
    whole = run(lambda definition: EmbeddedPipeline(definition, seed=0), rows)
    assert (interrupted.ended_early, whole.ended_early) == ("interrupted", None)
    assert interrupted.rows == whole.rows == 3 * CHUNK
    assert interrupted.model.digest == whole.model.digest
    assert interrupted.model.scores == whole.model.scores
    assert interrupted.verification is not None
    assert interrupted.verification.passed


def test_an_interrupt_while_a_replay_waits_for_its_next_row_ends_it_at_once() -> None:
    told = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM])

    class Told(EmbeddedPipeline):
        def advance(self, now: int) -> None:
            super().advance(now)
            if told.ident is None:
                told.start()

    declared = DefinitionFile.read(EXAMPLES / "deltaplane.toml")
    options = ReplayOptions(source=str(ELECTRICITY), definition_file=declared, chunk=100, rows_per_second=1e-3)
    ended = replay(options, lambda _: None, lambda definition: Told(definition, seed=0))
    assert (ended.ended_early, ended.rows) == ("interrupted", 100)
