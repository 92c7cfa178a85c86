"""The fuzzer itself: it finds what was planted, one seed repeats one run, and a short run finds nothing else."""

from __future__ import annotations

import random

import pytest

from deltaplane.errors import DeltaplaneError
from fuzz import records
from fuzz import run as fuzzer
from fuzz.every import every_target
from fuzz.lines import LinesSeen
from fuzz.mutation import damaged
from fuzz.run import NO_DECODERS, Crash, bounded, decoders, run, try_input
from fuzz.target import Broken, Target


def lines() -> LinesSeen:
    return LinesSeen(decoders(), NO_DECODERS)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_messages_and_files_are_read_or_refused_and_touch_nothing_after_them(seed: int) -> None:
    seen = lines()
    findings = run(every_target(), 6000, seed, seen)
    assert not findings.crashes, "\n".join(crash.trace for crash in findings.crashes)
    for name, outcomes in findings.outcomes.items():
        assert outcomes.total() > 5, f"hardly an input of {name}"
    assert sum(len(seen.seen(path)) for path in seen.lines) > 0.6 * sum(map(len, seen.lines.values()))


def test_one_seed_repeats_one_run() -> None:
    targets = [target for target in records.targets() if target.name in ("decode model", "decode delta_tried")]
    one, other = (run(targets, 400, 9, lines()) for _ in range(2))
    assert one.outcomes == other.outcomes
    assert one.seeds_found == other.seeds_found > 0
    assert run(targets, 400, 10, lines()).outcomes != one.outcomes


def test_damage_is_of_its_seed_and_bounded() -> None:
    data = b"some, text\n1, 2\n" * 1000
    one, other = ([damaged(random.Random(at), data, [data], [b","]) for at in range(200)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 190
    assert max(map(len, one)) <= 20_000


def planted(data: bytes) -> str:
    """What is wrong in three ways, each behind a condition that an input must meet."""
    if data[:1] > b"\xf0":
        raise IndexError
    if len(data) > 9:
        while True:
            pass
    if len(data) < 4:
        bytes(4 * 2**30)
    if data[:1] == b"s":
        raise DeltaplaneError("not this one")
    return "read"


def test_a_traceback_a_hang_and_memory_without_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "SECONDS_OF_AN_INPUT", 1)
    target = Target("planted", (b"seed data",), planted)
    with bounded():
        kinds = [try_input(target, data) for data in (b"\xff123456", b"1234567890", b"12", b"s2345", b"12345")]
    assert [one.what if isinstance(one, Crash) else one for one in kinds] == [
        "IndexError",
        "hang",
        "MemoryError",
        "refused: DeltaplaneError",
        "read",
    ]


def test_damage_comes_upon_what_was_planted_and_what_it_came_upon_crashes_again() -> None:
    target = Target("planted", (b"seed data", b"12345"), lambda data: planted(data[:9]))
    findings = run([target], 3000, 1, lines())
    assert {"IndexError", "MemoryError"} == {crash.what for crash in findings.crashes}
    with bounded():
        assert all(isinstance(try_input(target, crash.data), Crash) for crash in findings.crashes)


def test_a_target_that_reads_nothing_is_not_put_to_the_test_and_says_so() -> None:
    with pytest.raises(Broken, match="no undamaged input of planted is read"):
        run([Target("planted", (b"seed data",), planted)], 10, 1, lines())
