"""Which file a process runs next: of its own kind while there is any, the longest first."""

from __future__ import annotations

from sharing_out import LONGEST, next_file
from tidy.sources import files

LONG_BROKERS, LONG = "tests/kafka/test_chaos.py", "tests/simulation/test_faults.py"


def test_each_process_begins_with_its_own_kind_and_ends_with_the_other() -> None:
    queue = {"tests/core/test_a.py": 9, "tests/kafka/test_b.py": 90}
    assert next_file(queue, waits=True) == "tests/kafka/test_b.py"
    assert next_file(queue, waits=False) == "tests/core/test_a.py"
    assert next_file({"tests/core/test_a.py": 9}, waits=True) == "tests/core/test_a.py"
    assert next_file({"tests/kafka/test_b.py": 9}, waits=False) == "tests/kafka/test_b.py"


def test_what_takes_longest_comes_first_and_then_what_has_most_tests() -> None:
    queue = {
        "tests/core/test_a.py": 9,
        "tests/core/test_b.py": 90,
        LONG: 1,
        LONG_BROKERS: 1,
        "tests/kafka/test_b.py": 2,
    }
    assert next_file(queue, waits=False) == LONG
    assert next_file(queue, waits=True) == LONG_BROKERS
    del queue[LONG]
    assert next_file(queue, waits=False) == "tests/core/test_b.py"


def test_every_file_that_is_said_to_take_long_is_there() -> None:
    assert set(files()) >= LONGEST
