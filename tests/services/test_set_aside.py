"""When a source that is set aside is tried again, and what is said of it meanwhile."""

from __future__ import annotations

from deltaplane_services.kafka.set_aside import (
    CALM_SECONDS,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SHORT_PAUSE_SECONDS,
    SetAside,
)


def test_a_source_is_left_alone_for_its_pause_and_the_others_are_not() -> None:
    aside = SetAside[int]()
    pause = aside.put(1, "its log is gone", 100.0)
    assert pause == FIRST_PAUSE_SECONDS
    assert (aside.may_try(1, 100.0), aside.may_try(1, 100.0 + pause), aside.may_try(0, 100.0)) == (False, True, True)
    assert aside.reasons == {1: "its log is gone"}


def test_each_pause_is_twice_the_one_before_it_up_to_the_longest() -> None:
    aside, now, pauses = SetAside[int](), 0.0, []
    for _ in range(10):
        pauses.append(aside.put(0, "still", now))
        now += pauses[-1]
    assert pauses[:4] == [2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_pauses_stay_short_while_a_broker_may_be_behind_it() -> None:
    aside = SetAside[int]()
    assert [aside.put(0, "away", 0.0, passing=True) for _ in range(5)][-1] == SHORT_PAUSE_SECONDS


def test_one_that_fails_again_soon_goes_on_where_its_pauses_were_and_one_that_was_served_long_begins_anew() -> None:
    aside = SetAside[int]()
    for now in (0.0, 10.0, 20.0):
        aside.put(0, "x", now)
    aside.take(0, 30.0)
    assert aside.reasons == {}
    assert aside.put(0, "x", 31.0) == 16.0
    aside.take(0, 60.0)
    assert aside.put(0, "x", 61.0 + CALM_SECONDS) == FIRST_PAUSE_SECONDS


def test_what_an_operator_did_about_it_is_tried_at_once() -> None:
    aside = SetAside[int]()
    aside.put(0, "removed", 0.0, removed=True)
    aside.put(1, "eaten", 0.0)
    assert aside.removed == {0}
    aside.try_now(0)
    aside.try_now(7)
    assert (aside.may_try(0, 0.0), aside.may_try(1, 0.0)) == (True, False)


def test_to_be_tried_at_once_makes_no_new_case_of_one_that_is_served() -> None:
    aside = SetAside[int]()
    for now in (0.0, 1.0):
        aside.put(0, "x", now)
    aside.take(0, 10.0)
    aside.try_now(0)
    assert aside.put(0, "x", 11.0) == 8.0


def test_sources_that_others_have_are_forgotten() -> None:
    aside = SetAside[int]()
    aside.put(0, "x", 0.0)
    aside.put(1, "y", 0.0)
    aside.keep_only({1, 2})
    assert aside.reasons == {1: "y"}
    assert aside.may_try(0, 0.0)
