"""Rows and ids of a partition: whatever comes and goes, they are what a list and a dictionary would hold."""

from __future__ import annotations

import copy
import sys
import zlib
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.window import ids as ids_module
from deltaplane.window.buffer import SEGMENT_ROWS, RowBuffer
from deltaplane.window.ids import PIECE_ROWS, IdIndex

ALPHABET = "abé\0𝄞"


class PlainIndex:
    """What an index is: a list of ids and a dictionary of the last slots."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.ids: list[str] = []

    @property
    def slots(self) -> dict[str, int]:
        return {sample_id: slot for slot, sample_id in enumerate(self.ids, start=self.first)}


def histories(
    what: str, numbers: int, rows: int, texts: int, steps: int
) -> st.SearchStrategy[list[tuple[str, object]]]:
    """Things to do to an index: batches of short texts or of numbered ids, called ``what``, letting go, renumbering."""
    batches = st.one_of(
        st.lists(st.text(ALPHABET, max_size=3), max_size=texts),
        st.builds(
            lambda begin, count: [f"{what}{number}" for number in range(begin, begin + count)],
            st.integers(0, numbers),
            st.integers(0, rows),
        ),
    )
    one = st.one_of(
        st.tuples(st.just("new"), batches),
        st.tuples(st.just("any"), batches),
        st.tuples(st.just("let go"), st.floats(0.0, 1.0)),
        st.tuples(st.just("renumber"), st.integers(0, 2**45)),
    )
    return st.lists(one, max_size=steps)


actions = histories("row ", numbers=2000, rows=1500, texts=12, steps=25)
short_actions = histories("", numbers=150, rows=60, texts=30, steps=30)


def live(index: IdIndex, plain: PlainIndex, what: str, of: object) -> list[str]:
    """Do one thing to both; the ids that it was about."""
    if what in {"new", "any"}:
        assert isinstance(of, list)
        new = len(set(of)) == len(of) and plain.slots.keys().isdisjoint(of)
        if what == "any":
            index.add(of)
        else:
            assert index.add_if_new(of) == new
        if what == "any" or new:
            plain.ids += of
        return of
    if what == "let go":
        assert isinstance(of, float)
        gone = round(of * len(plain.ids))
        left, plain.ids, plain.first = plain.ids[:gone], plain.ids[gone:], plain.first + gone
        index.forget_below(plain.first)
        return left
    assert isinstance(of, int)
    plain.first = of
    index.renumber(of)
    return []


def check(index: IdIndex, plain: PlainIndex, asked: list[str]) -> None:
    slots = plain.slots
    assert (index.first, index.next, len(index)) == (plain.first, plain.first + len(plain.ids), len(plain.ids))
    some = [*asked[:20], *plain.ids[:: max(1, len(plain.ids) // 20)]]
    assert [index.slot_of(sample_id) for sample_id in some] == [slots.get(sample_id) for sample_id in some]
    for place in range(0, len(plain.ids), max(1, len(plain.ids) // 20)):
        assert index.id(plain.first + place) == plain.ids[place]


@settings(deadline=None)
@given(st.sampled_from([0, 7, 2**32 - 3, 2**32 + 1000, 2**61]), actions)
def test_an_index_of_ids_is_a_list_and_a_dictionary(first: int, steps: list[tuple[str, object]]) -> None:
    index, plain = IdIndex(first), PlainIndex(first)
    for what, of in steps:
        check(index, plain, live(index, plain, what, of))


hashes = st.sampled_from(
    [
        hash,
        lambda text: (zlib.crc32(text.encode()) - 2**31) << 20,
        lambda text: zlib.crc32(text.encode()) % 5 << 29,
        lambda text: len(text) % 3 - 1,
    ]
)


@settings(deadline=None)
@given(hashes, st.sampled_from([0.0, 0.1, 4 / 3]), st.sampled_from([1, 7, 64]), short_actions)
def test_it_is_so_however_many_ids_meet_in_a_bucket_and_in_a_hash(
    hashed: Callable[[str], int], buckets: float, rows: int, steps: list[tuple[str, object]]
) -> None:
    with (
        mock.patch.multiple(ids_module, _ROOMY=0, _TIGHT=buckets, _PART=rows, PIECE_ROWS=rows),
        mock.patch.object(ids_module, "hash", hashed, create=True),
    ):
        index, plain = IdIndex(7), PlainIndex(7)
        for what, of in steps:
            check(index, plain, live(index, plain, what, of))


@pytest.mark.parametrize("left", [2900, 3001, 3142])
def test_numbers_of_slots_that_come_to_their_end_begin_anew(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "_table_size", lambda _: 512)
    index, plain = IdIndex(2**40), PlainIndex(2**40)
    index._make_room(0)
    index._base -= 2**32 - left
    for begin in range(0, 6000, 100):
        ids = [f"{number}" for number in range(begin, begin + 100)]
        check(index, plain, live(index, plain, "new", ids))
        check(index, plain, live(index, plain, "any", [*ids[:20], *ids[:20], f"{max(0, begin - 300)}"]))
        check(index, plain, live(index, plain, "let go", max(0.0, 1 - 600 / len(plain.ids))))


@pytest.fixture
def equal_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ids meet in a few places of the table."""
    monkeypatch.setattr(ids_module, "hash", lambda text: len(text) % 3 - 1, raising=False)


@pytest.mark.usefixtures("equal_hashes")
def test_no_hash_is_trusted() -> None:
    index, plain = IdIndex(), PlainIndex(0)
    ids = [f"{number}" for number in range(300)]
    for what, of in [("new", ids[:100]), ("any", ids[50:150]), ("let go", 0.4), ("new", ids[150:]), ("any", ids[:9])]:
        check(index, plain, live(index, plain, what, of))
    assert index.add_if_new(["fresh", "other"])
    assert not index.add_if_new([*(f"fresh {n}" for n in range(20)), "fresh 3"])
    assert not index.add_if_new([*(f"fresh {n}" for n in range(20)), "other"])


@pytest.mark.usefixtures("equal_hashes")
def test_an_id_that_comes_again_and_again_makes_no_search_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    index, compared = IdIndex(), list[int]()

    def compare(_: IdIndex, slot: int) -> str:
        compared.append(slot)
        return "neither"

    index.add(["cold", *["warm"] * 2000])
    monkeypatch.setattr(IdIndex, "id", compare)
    assert index.slot_of("done") is None
    index._make_room(20_000)
    assert index.slot_of("done") is None
    assert compared == [2000, 0, 2000, 0]


def _slide(index: IdIndex, window: int, rows: int) -> None:
    """Let so many new ids come, and the oldest leave."""
    for begin in range(index.next, index.next + rows, PIECE_ROWS):
        assert index.add_if_new([f"{number:08}" for number in range(begin, begin + PIECE_ROWS)])
        index.forget_below(max(index.first, index.next - window))


def test_a_window_that_slides_for_long_takes_no_more_memory_than_at_first() -> None:
    index, window = IdIndex(), 10 * PIECE_ROWS
    _slide(index, window, 40 * PIECE_ROWS)
    most = _bytes(index)
    _slide(index, window, 360 * PIECE_ROWS)
    assert _bytes(index) <= most < 60 * window


@pytest.mark.parametrize("window", [390_000, 396_000, 500_000])
def test_a_long_window_takes_25_bytes_an_id_beside_its_text(window: int) -> None:
    index = IdIndex()
    _slide(index, window, window * 5 // 4)
    assert _bytes(index) <= (8 + 25) * window


def test_a_window_that_was_long_gives_its_memory_back() -> None:
    index, never_long = IdIndex(), IdIndex()
    _slide(index, 300_000, 300_000)
    _slide(index, 5000, 300_000)
    _slide(never_long, 5000, 300_000)
    assert _bytes(index) <= 1.1 * _bytes(never_long)


def _bytes(index: IdIndex) -> int:
    """What it takes when a text of every piece has been looked at."""
    assert [piece.text(0) for piece in index._pieces]
    pieces = sum(sys.getsizeof(piece._data) + sys.getsizeof(piece._ends) for piece in index._pieces)
    return index._table.nbytes + index._hashes.nbytes + index._links.nbytes + pieces


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_any_slots_are_those_of_the_rows_that_were_appended(seed: int) -> None:
    random = np.random.default_rng(seed)
    buffer, rows = RowBuffer(2, first=5), np.zeros((0, 6), dtype=np.int64)
    dead: set[int] = set()
    for _ in range(40):
        count = int(random.integers(0, 3 * SEGMENT_ROWS)) if random.random() < 0.3 else int(random.integers(0, 30))
        new = random.integers(-(2**29), 2**29, size=(count, 6))
        new[:, 2] %= limits.CLASSES
        begin = buffer.next
        ids = [str(begin + row) for row in range(count)]
        assert buffer.append(ids, new[:, :2].astype(float), new[:, 2].astype(np.int32), new[:, 3], new[:, 4]) == begin
        rows = np.vstack([rows, new])
        if random.random() < 0.4:
            buffer.forget_below(int(random.integers(buffer.first, buffer.next + 1)))
        held = np.arange(buffer.first, buffer.next, dtype=np.int64)
        run = slice(*sorted(random.integers(0, len(held) + 1, size=2).tolist()))
        for slots in (held, held[run], held[random.random(len(held)) < 0.1], random.permutation(held)[:50]):
            there = rows[slots - 5]
            assert np.array_equal(buffer.rows(slots), there[:, :2])
            assert np.array_equal(buffer.codes(slots), there[:, 2])
            assert np.array_equal(buffer.times(slots), there[:, 3])
            assert buffer.current(slots).tolist() == [slot not in dead for slot in slots.tolist()]
            for slot in slots[:3].tolist():
                assert (buffer.time(slot), buffer.offset(slot)) == tuple(rows[slot - 5, 3:5].tolist())
                assert buffer.is_current(slot) == (slot not in dead)
                assert buffer.slot_of(buffer.id(slot)) == slot == int(buffer.id(slot))
        if len(held):
            first = int(held[run.start]) if run.start < len(held) else int(held[0])
            assert np.array_equal(buffer.codes_from(first), rows[first - 5 :, 2])
            times = buffer.times_from(first, 7)
            assert 1 <= len(times) <= 7
            assert np.array_equal(times, rows[first - 5 : first - 5 + len(times), 3])
        killed = held[random.random(len(held)) < 0.05]
        buffer.set_dead(killed)
        dead.update(killed.tolist())


def test_a_copy_of_an_index_goes_its_own_way_and_leaves_the_other_as_it_was() -> None:
    index = IdIndex()
    index.add([f"row {number}" for number in range(3000)])
    other = copy.deepcopy(index)
    other.forget_below(1000)
    other.add(["row 2000", *(f"new {number}" for number in range(5000))])
    assert (other.slot_of("row 2000"), other.slot_of("row 500"), other.slot_of("new 4999")) == (3000, None, 8000)
    assert (index.slot_of("row 2000"), index.slot_of("row 500"), index.slot_of("new 4999")) == (2000, 500, None)
