"""Sums that are known already are those that would be formed anew, however spans cut them, and take bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.exact.statistics import moments_by_class
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement
from deltaplane.window.kept_sums import KeptSums, Sums
from deltaplane.window.partition import Partition
from strategies_streams import Row, admitted, definition_of

LABELS = ["a", "b"]
ROOMY = 1e9
"""A share of memory with which every run is worth keeping."""


class Rows:
    """Rows of one feature, of which some are current; counts the rows that were multiplied."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.codes: list[int] = []
        self.dead: set[int] = set()
        self.multiplied = 0

    def add(self, codes: list[int]) -> tuple[int, int]:
        first = len(self.codes)
        self.codes += codes
        self.values += [(7 * at + 3) % 101 - 50 for at in range(first, len(self.codes))]
        return first, len(self.codes)

    def product(self, first: int, until: int) -> Sums:
        slots = [slot for slot in range(first, until) if slot not in self.dead]
        self.multiplied += len(slots)
        quantized = np.array([[self.values[slot]] for slot in slots], dtype=np.int32).reshape(len(slots), 1)
        return moments_by_class(quantized, np.array([self.codes[slot] for slot in slots], dtype=np.int32), LABELS)


@given(st.data(), st.sampled_from([0.0, 30.0, 100.0, ROOMY]), st.integers(1, 5))
def test_whatever_is_asked_and_forgotten_on_the_way_the_sums_are_those_formed_anew(
    data: st.DataObject, share: float, windows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "KEPT_SUMS_SHARE", share)
        rows, known, held = Rows(), KeptSums(1, windows), 0
        for _ in range(data.draw(st.integers(1, 12))):
            codes = data.draw(st.lists(st.integers(0, 1), max_size=12))
            span = rows.add(codes)
            if data.draw(st.booleans()):
                known.keep(*span, rows.product(*span))
            slots = st.integers(held, len(rows.codes))
            killed = data.draw(st.lists(st.integers(held, max(held, len(rows.codes) - 1)), max_size=2))
            rows.dead.update(killed)
            known.forget(np.array(killed, dtype=np.int64))
            for _ in range(data.draw(st.integers(0, 3))):
                first, until = sorted((data.draw(slots), data.draw(slots)))
                assert known.between(first, until, rows.product) == rows.product(first, until)
            last = data.draw(slots)
            assert known.between(held, last, rows.product, last=True) == rows.product(held, last)
            held = last
            known.forget_below(held)


def test_what_leaves_in_the_batches_in_which_it_came_is_multiplied_no_more() -> None:
    rows, known = Rows(), KeptSums(100, 1)
    for _ in range(10):
        first, until = rows.add([0, 1] * 50)
        known.keep(first, until, rows.product(first, until))
    rows.multiplied = 0
    for first in range(0, 1000, 100):
        known.between(first, first + 100, rows.product, last=True)
    assert rows.multiplied == 0
    assert len(known) == 0


def test_of_a_batch_that_leaves_in_parts_less_is_multiplied_than_leaves_and_the_rest_is_the_difference() -> None:
    rows, known = Rows(), KeptSums(100, 1)
    known.keep(*rows.add([0, 1] * 500), rows.product(0, 1000))
    spans = ((0, 300), (300, 900), (900, 1000))
    anew = [rows.product(first, until) for first, until in spans]
    rows.multiplied = 0
    assert [known.between(first, until, rows.product, last=True) for first, until in spans] == anew
    assert rows.multiplied == 300 + 100
    assert len(known) == 0


def test_windows_that_cut_batches_at_the_same_places_share_the_pieces() -> None:
    rows, known = Rows(), KeptSums(100, 3)
    known.keep(*rows.add([0, 1] * 500), rows.product(0, 1000))
    known.keep(*rows.add([0, 1] * 500), rows.product(1000, 2000))
    rows.multiplied = 0
    for window in range(3):
        known.between(0, 600, rows.product, last=window == 2)
        known.between(600, 1600, rows.product, last=window == 2)
    assert rows.multiplied == 400 + 400


def test_sums_that_take_much_beside_their_rows_are_not_kept() -> None:
    rows, known = Rows(), KeptSums(1, 1)
    known.keep(*rows.add([0, 1] * 50), rows.product(0, 100))
    assert len(known) == 0


@pytest.mark.parametrize("window", ["2000", "2000ms", "all"])
def test_a_partition_forgets_the_sums_of_rows_that_it_holds_no_more(
    window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EXPIRED_ROWS_REMEMBERED", 10)
    monkeypatch.setattr(limits, "KEPT_SUMS_SHARE", ROOMY)
    definition = definition_of(window)
    partition = Partition(definition, 0)
    for batch in range(30):
        _step(partition, definition, range(300 * batch, 300 * batch + 300))
    # Windows over everything give nothing up, so that nothing is kept for them.
    assert len(partition._sums._known[None]) == (0 if window == "all" else -(-2000 // 300))


@pytest.mark.parametrize("window", ["2000", "2000ms", "all"])
def test_steps_that_bring_no_rows_leave_nothing_behind(window: str) -> None:
    definition = definition_of(window)
    partition = Partition(definition, 0)
    _step(partition, definition, range(50))
    before = len(partition._sums._known[None])
    for at in range(100):
        partition.step(admitted(definition, []), [Retirement(f"never {at}", "test", at)])
    assert len(partition._sums._known[None]) == before


def _step(partition: Partition, definition: StreamDefinition, numbers: range) -> None:
    records = [tuple(Row(str(n), "xy"[n % 2], (float(n % 7),), n) for n in numbers)]
    partition.step(admitted(definition, records, numbers.start), [])
