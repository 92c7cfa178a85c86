"""Windows by hand: which slots lie inside, and which are left behind when."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.window.buffer import SEGMENT_ROWS, RowBuffer
from deltaplane.window.sliding import NO_WATERMARK, SHORTEST_RUN, WindowEdges


def edges_of(*windows: str, pane_rows: int = 1, partition: int = 0, partitions: int = 1) -> WindowEdges:
    nested_windows = NestedWindows(tuple(Window.parse(text) for text in windows), pane_rows)
    return WindowEdges(nested_windows, partition, partitions)


def left(edges: WindowEdges, next_slot: int, watermark: int = NO_WATERMARK) -> list[list[int]]:
    return [sorted(slots.tolist()) for slots in edges.advance(next_slot, watermark)]


def times(*milliseconds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(milliseconds, dtype=np.int64)


def buffer_of(*milliseconds: int) -> RowBuffer:
    buffer = RowBuffer(1)
    count = len(milliseconds)
    ids = [f"s{slot}" for slot in range(count)]
    quantized = np.arange(count, dtype=np.int32).reshape(-1, 1)
    buffer.append(ids, quantized, np.zeros(count, dtype=np.int32), times(*milliseconds), 10 * times(*range(count)))
    return buffer


def test_ids_are_pointed_at_their_slots_only_where_all_are_new() -> None:
    buffer = buffer_of(1, 2, 3)
    assert not buffer.point_if_new(["a", "s1"])
    assert not buffer.point_if_new(["a", "b", "a"])
    assert [buffer.slot_of(sample_id) for sample_id in ("a", "b", "s1")] == [None, None, 1]
    assert buffer.point_if_new(["a", "b"])
    buffer.append(
        ["a", "b"], np.ones((2, 1), dtype=np.int32), np.zeros(2, dtype=np.int32), times(4, 5), times(40, 50), new=True
    )
    assert [buffer.slot_of(sample_id) for sample_id in ("a", "b", "s1")] == [3, 4, 1]


def test_an_id_whose_later_version_stays_is_not_forgotten_with_the_earlier_one() -> None:
    buffer = buffer_of(1, 2, 3)
    buffer.append(
        ["s0", "s2"], np.ones((2, 1), dtype=np.int32), np.zeros(2, dtype=np.int32), times(4, 5), times(40, 50)
    )
    buffer.forget_below(2)
    assert [buffer.slot_of(f"s{number}") for number in range(3)] == [3, None, 4]
    buffer.forget_below(4)
    assert [buffer.slot_of(f"s{number}") for number in range(3)] == [None, None, 4]


@pytest.mark.parametrize("slots", [[0, 1, 2], [2, 1, 0], [1], [], [0, 2], [2, 1, 3, 0]])
def test_rows_are_those_of_the_slots_in_the_order_asked_for(slots: list[int]) -> None:
    buffer = buffer_of(1, 2, 3, 4)
    assert buffer.rows(times(*slots)).ravel().tolist() == slots


def test_a_count_window_gives_up_the_oldest_slot_for_each_new_one() -> None:
    #  slots  0 1 2 3 4 5
    #             [- - -]      the last three of six
    edges = edges_of("3")
    assert left(edges, 3) == [[]]
    assert left(edges, 4) == [[0]]
    assert left(edges, 6) == [[1, 2]]
    assert edges.inside(0, times(2, 3, 5), times(0, 0, 0)).tolist() == [False, True, True]


def test_a_count_window_in_panes_gives_up_whole_panes_counted_from_the_first_slot_of_the_log() -> None:
    #  slots  0 1 | 2 3 | 4 5 | 6         panes of two, the last four: between four and five are held
    edges = edges_of("4", pane_rows=2)
    assert [left(edges, next_slot)[0] for next_slot in range(4, 9)] == [[], [], [0, 1], [], [2, 3]]


def test_partitions_keep_their_shares_of_a_count_window() -> None:
    shares = []
    for partition in range(3):
        edges = edges_of("8", partition=partition, partitions=3)
        shares.append(100 - len(left(edges, 100)[0]))
    assert shares == [3, 3, 2]


def test_a_time_window_gives_up_what_is_not_above_the_watermark_less_its_length() -> None:
    #  event times  0   3   9 10            a window of 10 at watermark 10 is (0, 10]
    edges = edges_of("10ms")
    edges.announce(0, times(0, 3, 9, 10))
    assert left(edges, 4, 10) == [[0]]
    assert left(edges, 4, 12) == [[]]
    assert left(edges, 4, 13) == [[1]]
    assert left(edges, 4, 100) == [[2, 3]]


@pytest.mark.parametrize("run", [1, SHORTEST_RUN - 1, SHORTEST_RUN, 3000])
def test_event_times_out_of_order_leave_in_their_own_order_whatever_runs_they_came_in(run: int) -> None:
    random = np.random.default_rng(run)
    every = random.integers(0, 1000, size=6000)
    edges = edges_of("10ms", "200ms")
    for start in range(0, len(every), run):
        edges.announce(start, every[start : start + run])
    gone: list[list[int]] = [[], []]
    for watermark in (5, 10, 11, 300, 300, 650, 2000):
        for window, slots in enumerate(left(edges, len(every), watermark)):
            gone[window] += slots
            length = (10, 200)[window]
            assert sorted(gone[window]) == np.flatnonzero(every <= watermark - length).tolist()


def test_a_watermark_that_goes_back_moves_nothing() -> None:
    edges = edges_of("10ms")
    edges.announce(0, times(50))
    assert left(edges, 1, 55) == [[]]
    assert left(edges, 1, 20) == [[]]
    assert not edges.is_inside(1, 45)


def test_a_ladder_gives_up_a_slot_from_each_window_in_its_turn() -> None:
    edges = edges_of("2", "4", "all")
    assert edges.longest == 2
    assert left(edges, 3) == [[0], [], []]
    assert left(edges, 6) == [[1, 2, 3], [0, 1], []]
    assert left(edges, 7) == [[4], [2], []]


def test_where_a_slot_will_lie_is_known_before_the_edges_are_moved() -> None:
    count, time, everything = edges_of("3"), edges_of("10ms"), edges_of("10ms", "all")
    assert count.will_be_inside(0, 0, next_slot=3, watermark=NO_WATERMARK)
    assert not count.will_be_inside(0, 0, next_slot=4, watermark=NO_WATERMARK)
    assert time.will_be_inside(0, 5, next_slot=9, watermark=14)
    assert not time.will_be_inside(0, 5, next_slot=9, watermark=15)
    assert everything.will_be_inside(0, 5, next_slot=9, watermark=1000)


def test_the_oldest_inside_is_the_first_slot_that_any_window_holds() -> None:
    #  slots        0  1  2  3
    #  event times  5 50  7 60      (20, 60] holds 1 and 3
    buffer = buffer_of(5, 50, 7, 60)
    edges = edges_of("40ms", "10ms")
    edges.announce(0, times(5, 50, 7, 60))
    edges.advance(4, 60)
    assert edges.oldest_inside(buffer) == 1
    edges.advance(4, 95)
    assert edges.oldest_inside(buffer) == 3
    edges.advance(4, 200)
    assert edges.oldest_inside(buffer) == buffer.next == 4


def test_a_buffer_finds_its_rows_again_after_it_has_grown_and_let_go() -> None:
    buffer = RowBuffer(2)
    for slot in range(5000):
        quantized = np.array([[slot, -slot]], dtype=np.int32)
        code, time = np.array([slot % 3], dtype=np.int32), times(7 * slot)
        assert buffer.append([f"s{slot}"], quantized, code, time, times(slot // 2)) == slot
        if slot % 100 == 99 and slot > 1000:
            buffer.forget_below(slot - 900)
    assert (buffer.first, buffer.next, len(buffer)) == (4099, 5000, 901)
    for slot in (4099, 4500, 4999):
        at = times(slot)
        assert buffer.rows(at).tolist() == [[slot, -slot]]
        assert (buffer.codes(at)[0], buffer.times(at)[0], buffer.time(slot)) == (slot % 3, 7 * slot, 7 * slot)
        assert (buffer.offset(slot), buffer.id(slot), buffer.slot_of(f"s{slot}")) == (slot // 2, f"s{slot}", slot)
    assert buffer.slot_of("s4098") is None
    assert len(buffer._segments) * SEGMENT_ROWS < 901 + 2 * SEGMENT_ROWS


def test_an_id_that_comes_again_points_at_its_last_slot_and_letting_go_of_an_older_one_leaves_that() -> None:
    buffer = buffer_of(0, 0, 0)
    buffer.append(["s1"], np.zeros((1, 1), dtype=np.int32), np.zeros(1, dtype=np.int32), times(0), times(99))
    buffer.forget_below(3)
    assert buffer.slot_of("s1") == 3
    assert buffer.slot_of("s2") is None


def test_a_slot_has_the_same_content_only_if_row_class_and_time_are_the_same() -> None:
    buffer = buffer_of(5, 6)
    row = np.array([1.0])
    assert buffer.same_content(1, row, 0, 6)
    assert not buffer.same_content(1, row + 1, 0, 6)
    assert not buffer.same_content(1, row, 1, 6)
    assert not buffer.same_content(1, row, 0, 5)
