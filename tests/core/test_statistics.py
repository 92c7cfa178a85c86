"""Statistics by (window, class), and the digest by which processes compare them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import strategies
from deltaplane import limits
from deltaplane.arrays import Int32s, Int64s
from deltaplane.errors import StateMismatch
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics, moments_by_class

FINGERPRINT = bytes(range(16))
GOLDEN_DIGEST = "112bf35e1c581313f5cee0d08b441b3fccd898087e23b2559d94c6cf1009a60e"
GOLDEN_CODE = """
import numpy as np
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
rows = np.array([[1, -2], [2**30 - 1, 3]])
parts = {(1, "b"): Moments.of_rows(rows), (0, "é"): Moments.of_rows(rows[:1]), (0, "a"): Moments.of_rows(rows[1:])}
print(Statistics(3, parts).digest(bytes(range(16))))
"""


def one(*values: int, count: int = 1) -> Moments:
    """The statistics of so many equal rows."""
    return Moments.of_rows(np.array([values] * count))


def of(parts: dict[tuple[int, str], Moments]) -> Statistics:
    return Statistics(2, parts)


@given(strategies.statistics(3), strategies.statistics(3))
def test_statistics_add_and_subtract_key_by_key(a: Statistics, b: Statistics) -> None:
    keys = dict(a.items()).keys() | dict(b.items()).keys()
    added, subtracted = dict((a + b).items()), dict((a - b).items())
    zero = Moments.zero(3)
    for key in keys:
        x, y = dict(a.items()).get(key, zero), dict(b.items()).get(key, zero)
        assert added.get(key, zero) == x + y
        assert subtracted.get(key, zero) == x - y
    assert a + b == b + a
    assert (a + b) - b == a


@given(strategies.statistics(3))
def test_what_has_gone_is_as_if_it_had_never_come(a: Statistics) -> None:
    nothing = a - a
    assert nothing == Statistics(3)
    assert not nothing
    assert list(nothing.items()) == []
    assert nothing.digest(FINGERPRINT) == Statistics(3).digest(FINGERPRINT)


def test_entries_of_no_rows_are_never_held() -> None:
    held = of({(0, "a"): Moments.zero(2), (0, "b"): one(3)})
    assert [key for key, _ in held.items()] == [(0, "b")]
    gone = held - of({(0, "b"): one(3)})
    assert gone.grams() == {}
    assert gone == of({})


def test_a_window_and_its_classes_are_listed_in_order() -> None:
    statistics = of({(1, "a"): one(1), (0, "z"): one(2, count=2), (0, "b"): one(3), (10, "a"): one(4)})
    assert [key for key, _ in statistics.items()] == [(0, "b"), (0, "z"), (1, "a"), (10, "a")]
    assert list(statistics.grams()) == ["b", "z"]
    assert statistics.counts() == {"b": 1, "z": 2}
    assert statistics.counts(1) == {"a": 1}
    assert statistics.counts(7) == {}
    assert repr(statistics) == "Statistics({(0, 'b'): 1, (0, 'z'): 2, (1, 'a'): 1, (10, 'a'): 1})"


def test_rows_that_never_were_in_cannot_be_taken_out() -> None:
    of({(0, "a"): one(1)}).check_rows_exist("delta 3")
    with pytest.raises(StateMismatch, match="delta 3: class 'b' in window 1 has sums over -1 rows, expected 1 to"):
        (of({(0, "a"): one(1)}) - of({(1, "b"): one(1)})).check_rows_exist("delta 3")
    with pytest.raises(StateMismatch, match="sums over 0 rows"):
        (of({(0, "a"): one(1)}) - of({(0, "a"): one(2)})).check_rows_exist("delta 3")


def test_statistics_of_different_features_do_not_mix() -> None:
    with pytest.raises(AssertionError, match="other features"):
        Statistics(1, {(0, "a"): one(1)})
    with pytest.raises(AssertionError, match="other features in one window"):
        Statistics(3, {(0, "a"): one(1), (0, "b"): Moments.zero(3)})
    with pytest.raises(AssertionError, match="different features"):
        Statistics(3) + Statistics(2)
    with pytest.raises(AssertionError, match="different features"):
        Statistics(3) - Statistics(2)
    assert Statistics(3) != Statistics(2)
    assert Statistics(3) != 3


# The digest ----------------------------------------------------------------------------------------------------------


@given(strategies.statistics(3), st.data())
def test_the_digest_does_not_depend_on_the_order_of_arrival(statistics: Statistics, data: st.DataObject) -> None:
    items = data.draw(st.permutations(list(statistics.items())))
    assert Statistics(3, dict(items)).digest(FINGERPRINT) == statistics.digest(FINGERPRINT)
    grown = Statistics(3)
    for key, moments in items:
        grown = grown + Statistics(3, {key: moments})
    assert grown.digest(FINGERPRINT) == statistics.digest(FINGERPRINT)


@given(strategies.moments_of(3), st.integers(0, 6 * 128 - 1))
def test_the_digest_changes_with_any_bit_of_any_integer(moments: Moments, bit: int) -> None:
    data = bytearray(moments.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    other = Statistics(3, {(0, "a"): Moments.from_bytes(3, bytes(data))})
    assert other.digest(FINGERPRINT) != Statistics(3, {(0, "a"): moments}).digest(FINGERPRINT)


def test_the_digest_changes_with_whatever_it_covers() -> None:
    digests = [
        of({(0, "a"): one(1)}).digest(FINGERPRINT),
        of({(0, "b"): one(1)}).digest(FINGERPRINT),
        of({(1, "a"): one(1)}).digest(FINGERPRINT),
        of({(0, "a"): one(2)}).digest(FINGERPRINT),
        of({(0, "a"): one(1), (0, "b"): one(1)}).digest(FINGERPRINT),
        of({(0, "a"): one(1), (1, "a"): one(1)}).digest(FINGERPRINT),
        of({(0, "a"): one(1)}).digest(bytes(16)),
        of({}).digest(FINGERPRINT),
        Statistics(3).digest(FINGERPRINT),
    ]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_every_process_finds_the_same_digest(seed: str) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path = {sys.path!r}\n{GOLDEN_CODE}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}).stdout
    # A change of this value parts new processes from old ones: checkpoints and audits no longer agree with them.
    assert output.strip() == GOLDEN_DIGEST


# Classes -------------------------------------------------------------------------------------------------------------


@given(strategies.grid_rows(max_rows=20), st.data())
def test_rows_are_summed_class_by_class(rows: Int64s, data: st.DataObject) -> None:
    labels = ["x", "a", "never", "m"]
    codes: Int32s = data.draw(hnp.arrays(np.int32, len(rows), elements=st.sampled_from([0, 1, 3])))
    naive: dict[str, Moments] = {}
    for row, code in zip(rows, codes.tolist(), strict=True):
        part = Moments.of_rows(row[None, :])
        naive[labels[code]] = naive[labels[code]] + part if labels[code] in naive else part
    parts = moments_by_class(rows, codes, labels)
    assert parts == naive
    if (np.abs(rows) < limits.GRID_RANGE).all():
        assert moments_by_class(rows.astype(np.int32), codes, labels) == naive
    assert moments_by_class(rows.astype(np.float64), codes, labels) == naive


def test_rows_of_one_class_need_no_sorting_and_no_rows_have_no_class() -> None:
    rows = np.array([[1.0], [2.0]])
    assert moments_by_class(rows, np.array([1, 1], dtype=np.int32), ["a", "b"]) == {"b": Moments.of_rows(rows)}
    assert moments_by_class(rows[:0], np.zeros(0, dtype=np.int32), ["a"]) == {}


@pytest.mark.parametrize("classes", [2, 256, 257, 65_537])
def test_rows_of_any_number_of_classes_go_to_their_own(classes: int) -> None:
    codes = np.array([classes - 1, 0, classes // 2, classes - 1, 0], dtype=np.int32)
    rows = np.arange(1.0, 6.0)[:, None]
    labels = [f"class {code}" for code in range(classes)]
    expected = {labels[code]: Moments.of_rows(rows[codes == code]) for code in {0, classes // 2, classes - 1}}
    assert moments_by_class(rows, codes, labels) == expected
