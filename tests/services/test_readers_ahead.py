"""Reading ahead changes neither the blocks nor what is raised, and leaves no thread behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from deltaplane_services.readers import ReadAhead, ReaderError, RowBlock


def block(number: int) -> RowBlock:
    return RowBlock(np.full((1, 2), float(number)), [str(number)], None, None, np.array([number]))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "reader"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_the_blocks_are_the_same_in_the_same_order(count: int) -> None:
    blocks = [block(number) for number in range(count)]
    with ReadAhead(blocks) as ahead:
        assert list(ahead) == blocks
        assert list(ahead) == []
    assert not threads()


def test_a_fault_comes_after_the_blocks_before_it_and_once() -> None:
    def blocks() -> Iterator[RowBlock]:
        yield block(1)
        yield block(2)
        raise ReaderError("line 3 is damaged")

    with ReadAhead(blocks()) as ahead:
        assert [next(ahead).labels, next(ahead).labels] == [["1"], ["2"]]
        with pytest.raises(ReaderError, match="line 3"):
            next(ahead)
        assert next(ahead, None) is None
    assert not threads()


def test_leaving_early_ends_the_thread_and_reads_no_further_than_it_may() -> None:
    taken = []

    def blocks() -> Iterator[RowBlock]:
        for number in range(1000):
            taken.append(number)
            yield block(number)

    with ReadAhead(blocks(), most=2) as ahead:
        next(ahead)
    assert not threads()
    # One handed out, two ready, one in work.
    assert len(taken) <= 4
