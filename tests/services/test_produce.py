"""``produce``: rows of a pipe go out as they come, and rows without ids get ids that no other file's rows have."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.stream.sample import Samples
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from deltaplane_services.produce import producing as module
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.produce.line_ids import LineIds
from deltaplane_services.produce.producing import Produced, produce
from deltaplane_services.readers import ReaderError, RowBlock

TABLES: dict[str, Any] = {
    "name": "s",
    "features": {"names": ["a", "b"]},
    "grid": {"steps": [1.0, 1.0]},
    "window": {"length": 100},
    "solver": {"C": 1.0},
    "input": {"label": "label"},
}
SETTINGS = resolve_settings({}, {}, TABLES)
PATIENCE_SECONDS = 60.0


class Log:
    """Takes what is published, and lets a test wait for it."""

    def __init__(self) -> None:
        self.batches: list[Samples] = []
        self.flushed = 0
        self._news = threading.Condition()

    def publish(self, records: Iterable[Outgoing]) -> None:
        with self._news:
            for record in records:
                if record.topic == SAMPLES and isinstance(record.message, Samples):
                    self.batches.append(record.message)
            self._news.notify_all()

    @property
    def ids(self) -> list[str]:
        return [sample_id for batch in self.batches for sample_id in batch.ids]

    def wait_for(self, rows: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.ids) >= rows, PATIENCE_SECONDS), f"{len(self.ids)} of {rows}"

    def check(self) -> None:
        """No delivery fails."""

    def flush(self) -> None:
        self.flushed = len(self.ids)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(module, "sample_publisher", lambda _: made)
    return made


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def _heard() -> Iterator[None]:
    """Signals are heard, though these tests may run in the background of a shell, which has them ignored."""
    handlers: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def written(path: Path, write: Callable[[Callable[[str], object]], object]) -> Callable[[], None]:
    """Write to a pipe in a thread; the function that is returned waits for its end and raises what it raised."""
    faults: list[BaseException] = []

    def run() -> None:
        try:
            with path.open("wb", buffering=0) as file:
                write(lambda text: file.write(text.encode()))
        except BaseException as fault:  # noqa: BLE001 - it is the test's.
            faults.append(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> None:
        thread.join(PATIENCE_SECONDS)
        for fault in faults:
            raise fault
        assert not thread.is_alive()

    return join


def run(source: Path, *, batch: int = 500, within: float = 0.05) -> Produced:
    return produce(SETTINGS, ReplayOptions(str(source), DefinitionFile.of(TABLES), chunk=batch), within)


# A pipe --------------------------------------------------------------------------------------------------------------


def test_rows_go_out_while_the_pipe_is_open(pipe: Path, log: Log) -> None:
    def write(to: Callable[[str], object]) -> None:
        to("a,b,label\n")
        for count in (1, 3, 4):
            to("1,2,x\n" * (count - len(log.ids)))
            log.wait_for(count)
        to("9,9,y")

    join = written(pipe, write)
    produced = run(pipe)
    join()
    assert (produced.rows, produced.interrupted) == (5, False), "the last line has no line end, and the pipe has one"
    assert log.flushed == 5


def test_a_row_that_comes_in_pieces_is_one_row(pipe: Path, log: Log) -> None:
    def write(to: Callable[[str], object]) -> None:
        to("a,b,label\n1,2,x\n1")
        log.wait_for(1)
        to("7,2")
        to("5,x\n")
        log.wait_for(2)

    join = written(pipe, write)
    run(pipe)
    join()
    assert np.vstack([batch.features for batch in log.batches]).tolist() == [[1.0, 2.0], [17.0, 25.0]]


def test_rows_that_come_at_once_go_out_in_full_batches(pipe: Path, log: Log) -> None:
    join = written(pipe, lambda to: to("a,b,label\n" + "1,2,x\n" * 1000))
    run(pipe, batch=250, within=PATIENCE_SECONDS)
    join()
    assert [len(batch) for batch in log.batches] == [250] * 4


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_what_was_read_sent(pipe: Path, log: Log, number: signal.Signals) -> None:
    ended = threading.Event()

    def write(to: Callable[[str], object]) -> None:
        to("a,b,label\n1,2,x\n")
        log.wait_for(1)
        # Longer than a batch would wait: only the interrupt lets these go. The last is no whole line.
        to("3,4,y\n5,6,x\n7,8")
        os.kill(os.getpid(), number)
        ended.wait(PATIENCE_SECONDS)

    join = written(pipe, write)
    produced = run(pipe)
    ended.set()
    join()
    assert produced.interrupted
    assert (produced.rows, produced.refused) == (len(log.ids), 0)
    assert log.flushed == len(log.ids)
    values = [row for batch in log.batches for row in batch.features.tolist()]
    assert values == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]][: len(values)], "no part of a line was taken for a line"


@pytest.mark.usefixtures("_heard")
def test_an_interrupt_before_anything_was_written_is_the_end(pipe: Path, log: Log) -> None:
    ended = threading.Event()

    def write(_: Callable[[str], object]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait(PATIENCE_SECONDS)

    join = written(pipe, write)
    produced = run(pipe)
    ended.set()
    join()
    assert (produced.rows, produced.interrupted, log.ids) == (0, True, [])


@pytest.mark.usefixtures("_heard")
def test_an_interrupt_ends_a_slow_replay_of_a_file_at_once(tmp_path: Path, log: Log) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b,label\n" + "1,2,x\n" * 50)

    def interrupt() -> None:
        log.wait_for(1)
        os.kill(os.getpid(), signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    produced = produce(SETTINGS, ReplayOptions(str(file), DefinitionFile.of(TABLES), chunk=1, rows_per_second=1e-3))
    waiting.join()
    assert (produced.rows, produced.interrupted, log.flushed) == (1, True, 1)


def test_a_delivery_that_failed_ends_a_command_that_waits_for_rows(pipe: Path, log: Log) -> None:
    class Failed(Exception):
        """A delivery."""

    def fail() -> None:
        raise Failed

    ended = threading.Event()
    log.check = fail  # type: ignore[method-assign]

    def write(to: Callable[[str], object]) -> None:
        to("a,b,label\n")
        ended.wait(PATIENCE_SECONDS)

    join = written(pipe, write)
    with pytest.raises(Failed):
        run(pipe)
    ended.set()
    join()


def test_rows_before_a_damaged_place_of_a_file_are_published(tmp_path: Path, log: Log) -> None:
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(gzip.compress(("a,b,label\n" + "1,2,x\n" * 99).encode())[:-9])
    with pytest.raises(ReaderError, match="not a whole gzip file"):
        run(file, batch=40)
    assert log.flushed == len(log.ids) > 90


# Ids -----------------------------------------------------------------------------------------------------------------


def test_other_rows_of_another_file_have_other_ids_and_the_same_file_has_the_same(tmp_path: Path, log: Log) -> None:
    (tmp_path / "a.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    (tmp_path / "b.csv").write_text("a,b,label\n5,6,x\n3,4,y\n7,8,x\n")
    for name in ("a.csv", "b.csv", "a.csv", "b.csv"):
        run(tmp_path / name, batch=2 if len(log.ids) < 5 else 1)
    first, again = log.ids[:5], log.ids[5:]
    assert first == again
    assert len(set(first)) == 5
    assert first[0].startswith("a.csv:2:")


def test_a_file_that_has_grown_has_new_ids_for_its_new_rows_alone(tmp_path: Path, log: Log) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b,label\n1,2,x\n3,4,y\n")
    run(file)
    before = list(log.ids)
    file.write_text("a,b,label\n1,2,x\n3,4,y\n5,6,x\n")
    run(file)
    assert log.ids[2:4] == before
    assert len(set(log.ids)) == 3


def test_two_files_of_one_name_in_two_folders_do_not_meet(tmp_path: Path, log: Log) -> None:
    for folder, rows in (("one", "1,2,x\n"), ("two", "1,3,x\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("a,b,label\n" + rows)
        run(tmp_path / folder / "rows.csv")
    assert len(set(log.ids)) == 2


def test_what_has_an_id_keeps_it(tmp_path: Path, log: Log) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,a,b,label\nmine,1,2,x\n")
    tables = {**TABLES, "input": {"label": "label", "id": "id"}}
    produce(SETTINGS, ReplayOptions(str(file), DefinitionFile.of(tables)))
    assert log.ids == ["mine"]


def test_a_name_that_no_terminal_should_see_is_in_the_ids_only_as_text(tmp_path: Path, log: Log) -> None:
    file = tmp_path / ("\x1b[2J\n" + "x" * 200 + ".csv")
    file.write_text("a,b,label\n1,2,x\n")
    run(file)
    assert log.ids[0].isprintable()
    assert len(log.ids[0]) < 100


ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "x", "xy"])), min_size=1, max_size=6)


@given(one=ROWS, other=ROWS, cut=st.integers(0, 6))
def test_ids_are_the_same_as_far_as_rows_are_and_never_again(
    one: list[tuple[int, str]], other: list[tuple[int, str]], cut: int
) -> None:
    def named(rows: list[tuple[int, str]], *cuts: int) -> list[str]:
        ids, source = [], LineIds("f")
        features = np.array([[float(value)] for value, _ in rows])
        block = RowBlock(features, [label for _, label in rows], None, None, np.arange(len(rows)))
        for start, stop in zip((0, *cuts), (*cuts, len(rows)), strict=True):
            ids += source.named(block.cut(start, stop)).ids or []
        return ids

    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    first, second = named(one), named(other, min(cut, len(other)))
    assert first[:common] == second[:common]
    assert not set(first[common:]) & set(second[common:])
