"""What a source's logs hold that nobody will read again, and when nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.log.delta import Rebuild, Source, SourceState
from deltaplane.log.trimming import LogSpans, TrimMargin, TrimPoint, Untouched, trim_point
from deltaplane.stream.definition import StreamDefinition
from strategies_streams import definition_of

COUNT = definition_of("12", features=2)
SOURCE = Source("here", 0)


def state_of(definition: StreamDefinition = COUNT, **changes: Any) -> SourceState:
    """A source that has read 1,000 samples and 50 retirements, and needs the last 100 and 10."""
    rebuild = Rebuild(window_from=950, memory_from=900, retirements_window_from=40, slots_to=1000)
    state = SourceState(SOURCE, Statistics(definition.dimension), "w.1", 7, 1000, 50, rebuild)
    return replace(state, **changes)


def live_rows(count: int) -> Statistics:
    """The statistics of a window with so many rows."""
    rows = np.ones((count, COUNT.dimension - 1), dtype=np.int32)
    (moments,) = moments_by_class(rows, np.zeros(count, dtype=np.int32), ["x"]).values()
    return Statistics(COUNT.dimension, {(0, "x"): moments})


def spans(samples: tuple[int, int] = (0, 1200), retirements: tuple[int, int] = (0, 60)) -> LogSpans:
    return LogSpans(*samples, *retirements)


def test_a_margin_of_records_or_of_a_share_stays_whichever_is_more() -> None:
    assert trim_point(COUNT, state_of(), spans(), TrimMargin(0, 0.0)) == TrimPoint(SOURCE, 900, 40)
    assert trim_point(COUNT, state_of(), spans(), TrimMargin(30, 0.0)) == TrimPoint(SOURCE, 870, 10)
    assert trim_point(COUNT, state_of(), spans(), TrimMargin(30, 1.0)) == TrimPoint(SOURCE, 800, 10)
    assert trim_point(COUNT, state_of(), spans(), TrimMargin()) == TrimPoint(SOURCE, 800, 0)


@pytest.mark.parametrize("windows", [("12",), ("60ms",), ("6", "24"), ("30ms", "120ms")])
def test_streams_whose_windows_all_end_are_trimmed(windows: tuple[str, ...]) -> None:
    definition = definition_of(*windows, features=2)
    assert isinstance(trim_point(definition, state_of(definition), spans(), TrimMargin()), TrimPoint)


@pytest.mark.parametrize("windows", [("all",), ("12", "all"), ("90ms", "all")])
def test_a_window_over_everything_needs_every_sample(windows: tuple[str, ...]) -> None:
    definition = definition_of(*windows, features=2)
    found = trim_point(definition, state_of(definition), spans(), TrimMargin())
    assert found == Untouched(SOURCE, "a window over everything needs every sample")


REBUILD = state_of().rebuild
UNTOUCHED = {
    "removed": (state_of(removed=True), spans()),
    "nobody has worked": (state_of(owner=""), spans()),
    "nobody has worked ": (state_of(sequence=0), spans()),
    "not understood: memory from 960": (state_of(rebuild=replace(REBUILD, memory_from=960)), spans()),
    "not understood: memory from -1": (state_of(rebuild=replace(REBUILD, memory_from=-1)), spans()),
    "window from 1001": (state_of(rebuild=replace(REBUILD, window_from=1001)), spans()),
    "remembered from 51": (state_of(rebuild=replace(REBUILD, retirements_window_from=51)), spans()),
    "shorter than its state: samples end at 999": (state_of(), spans(samples=(0, 999))),
    "retirements at 49": (state_of(), spans(retirements=(0, 49))),
    "lost what is needed: it begins at samples 951": (state_of(), spans(samples=(951, 1200))),
    "retirements 41, needed": (state_of(), spans(retirements=(41, 60))),
    "live rows, and none": (
        state_of(
            statistics=live_rows(3),
            rebuild=replace(REBUILD, memory_from=1000, window_from=1000),
        ),
        spans(),
    ),
}


@pytest.mark.parametrize("reason", UNTOUCHED)
def test_a_source_that_is_not_understood_keeps_its_log_and_says_why(reason: str) -> None:
    state, log = UNTOUCHED[reason]
    found = trim_point(COUNT, state, log, TrimMargin(0, 0.0))
    assert isinstance(found, Untouched)
    assert reason.strip() in found.reason


OFFSETS = st.integers(0, 2**62)


@given(
    samples=st.lists(OFFSETS, min_size=5, max_size=5).map(sorted),
    retirements=st.lists(OFFSETS, min_size=4, max_size=4).map(sorted),
    margin=st.builds(TrimMargin, st.integers(0, 1000), st.floats(0, 10)),
)
def test_nothing_that_is_needed_goes_and_no_log_gets_longer(
    samples: list[int], retirements: list[int], margin: TrimMargin
) -> None:
    begin, memory_from, window_from, position, end = samples
    rebuild = Rebuild(window_from, memory_from, retirements[1])
    state = state_of(samples_position=position, retirements_position=retirements[2], rebuild=rebuild)
    log = LogSpans(begin, end, retirements[0], retirements[3])
    found = trim_point(COUNT, state, log, margin)
    if isinstance(found, TrimPoint):
        assert begin <= found.samples <= memory_from
        assert retirements[0] <= found.retirements <= retirements[1]
        wider = trim_point(COUNT, state, log, TrimMargin(margin.records + 1, margin.share + 0.5))
        assert isinstance(wider, TrimPoint)
        assert (wider.samples, wider.retirements) <= (found.samples, found.retirements)
    else:
        assert "nobody has worked" in found.reason
        assert not position
        assert not retirements[2]
