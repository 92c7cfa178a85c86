"""When late labels are known: the same as counted row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.errors import DefinitionError
from deltaplane.log.label_delay import LabelClock, LabelDelay


@given(st.integers(0, 12), st.lists(st.integers(0, 5), max_size=8))
def test_a_label_is_known_when_so_many_rows_have_come_behind_its_own(delay: int, blocks: list[int]) -> None:
    clock, rows = LabelClock(LabelDelay(delay)), 0
    for block in blocks:
        found = clock.arrive(np.zeros(block, dtype=np.int64))
        late = max(1, delay)
        assert found.tolist() == [sum(row + late <= mine for row in range(mine)) for mine in range(rows, rows + block)]
        rows += block
        assert clock.known() == sum(row + late <= rows for row in range(rows))


@given(st.integers(1, 30), st.lists(st.lists(st.integers(-50, 50), max_size=6), max_size=8))
def test_a_label_is_known_when_time_has_gone_by_and_never_before_those_of_earlier_rows(
    delay: int, blocks: list[list[int]]
) -> None:
    clock = LabelClock(LabelDelay(delay, timed=True))
    moments: list[int] = []
    for block in blocks:
        found = clock.arrive(np.array(block, dtype=np.int64))
        expected = []
        for time in block:
            moments.append(max(time, *moments) if moments else time)
            expected.append(sum(moment + delay <= moments[-1] for moment in moments))
        assert found.tolist() == expected
        assert clock.known() == (sum(moment + delay <= moments[-1] for moment in moments) if moments else 0)


@pytest.mark.parametrize(("text", "delay"), [("500", LabelDelay(500)), ("12h", LabelDelay(12 * 3_600_000, timed=True))])
def test_a_delay_is_read_and_written_as_it_is_given(text: str, delay: LabelDelay) -> None:
    assert LabelDelay.parse(text) == delay
    assert str(delay) == text


@pytest.mark.parametrize("text", ["-1", "7y", "0d", "late", str(2**80)])
def test_what_is_no_delay_is_refused_by_name(text: str) -> None:
    with pytest.raises(DefinitionError, match="label-delay: expected"):
        LabelDelay.parse(text)
