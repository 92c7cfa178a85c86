"""Whatever crashes, repeats itself or wakes up late, the accepted deltas of a source tile its input.

A source here is a line of rows, of which writers learn some and let the oldest expire, as they see fit. A delta says
how far the writer has come, so that its change can be told apart from every other's: had the rule let a wrong one
through, the sum would not be that of the rows between what has expired and what has been read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Rebuild, Source, SourceState, Tile, Verdict, accept

SOURCE = Source("here", 0)
FINGERPRINT = b"f" * 16
DIMENSION = 2

Rule = Callable[[SourceState, Claim | Delta], SourceState]


def rows_between(begin: int, end: int) -> Statistics:
    """The statistics of the rows ``begin`` to ``end`` of the line; each row is another power of two, plus one."""
    quantized = np.array([[2.0 ** (row % 20) + 1.0] for row in range(begin, end)]).reshape(-1, 1)
    return Statistics(DIMENSION, {(0, "x"): Moments.of_rows(quantized)})


@dataclass
class Writer:
    """What one life of a worker believes: how many tiles there are, how many rows it has read, how many expired."""

    name: str
    sequence: int
    read: int
    expired: int


@dataclass(frozen=True)
class Event:
    """``kind`` is claim, write, lose (write, but the record never arrives), delay, arrive or repeat.

    ``which`` counts back from the last: the writer that claimed last, or the record written or delayed last.
    """

    kind: str
    rows: int = 0
    expires: int = 0
    which: int = 0


WRITES = st.builds(
    Event,
    kind=st.sampled_from(["write", "write", "write", "lose", "delay"]),
    rows=st.integers(0, 2),
    expires=st.integers(0, 2),
    which=st.sampled_from([0, 0, 0, 1, 2]),
)
EVENTS = st.one_of(
    st.just(Event("claim")),
    WRITES,
    WRITES,
    st.builds(Event, kind=st.sampled_from(["arrive", "repeat"]), which=st.integers(0, 3)),
)
STORIES = st.lists(EVENTS, min_size=12, max_size=40).map(lambda events: [Event("claim"), *events])


@dataclass
class Log:
    """The deltas topic, and every life of a worker that ever claimed the source; none knows when it is over."""

    rule: Rule
    state: SourceState = field(default_factory=lambda: SourceState(SOURCE, Statistics(DIMENSION)))
    accepted: list[Tile] = field(default_factory=list)
    written: list[Delta] = field(default_factory=list)
    delayed: list[Delta] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)

    def happen(self, event: Event) -> None:
        """Let one thing happen."""
        if event.kind == "claim":
            state, name = self.state, f"life {len(self.writers)}"
            self.append(Claim(SOURCE, name, FINGERPRINT))
            self.writers.append(Writer(name, state.sequence, state.samples_position, state.rebuild.slots_to))
        elif event.kind in ("write", "lose", "delay"):
            self.write(event)
        elif event.kind == "arrive" and self.delayed:
            self.append(self.delayed.pop(-1 - event.which % len(self.delayed)))
        elif event.kind == "repeat" and self.written:
            self.append(self.written[-1 - event.which % len(self.written)])

    def write(self, event: Event) -> None:
        """Some life of a worker writes its next delta."""
        writer = self.writers[-1 - event.which % len(self.writers)]
        read_to, expired = writer.read + event.rows, min(writer.expired + event.expires, writer.read)
        delta = Delta(
            source=SOURCE,
            writer=writer.name,
            stream_fingerprint=FINGERPRINT,
            tile=Tile(writer.sequence, writer.read, read_to, 0, 0),
            rebuild=Rebuild(slots_to=expired),
            change=rows_between(writer.read, read_to) - rows_between(writer.expired, expired),
        )
        writer.sequence, writer.read, writer.expired = writer.sequence + 1, read_to, expired
        if event.kind == "write":
            self.append(delta)
        elif event.kind == "delay":
            self.delayed.append(delta)

    def append(self, record: Claim | Delta) -> None:
        """The record reaches the log, and with it every reader."""
        before = self.state
        self.state = self.rule(before, record)
        if isinstance(record, Delta):
            self.written.append(record)
            if self.state.sequence > before.sequence:
                self.accepted.append(record.tile)

    def is_exact(self) -> bool:
        """Whether what was accepted tiles the line, and the sum is that of the rows between expiry and position."""
        edges = [0] + [tile.samples_to for tile in self.accepted]
        tiles = all(
            tile.samples_from == edge and tile.sequence == at
            for at, (tile, edge) in enumerate(zip(self.accepted, edges, strict=False))
        )
        live = rows_between(self.state.rebuild.slots_to, self.state.samples_position)
        return tiles and self.state.samples_position == edges[-1] and self.state.statistics == live


def the_rule(state: SourceState, record: Claim | Delta) -> SourceState:
    """As it is."""
    return accept(state, record, FINGERPRINT)[0]


def takes_gaps(state: SourceState, record: Claim | Delta) -> SourceState:
    """Wrong: any delta of the owner from the position on is taken."""
    if (
        isinstance(record, Delta)
        and record.writer == state.owner
        and record.tile.samples_from >= state.samples_position
    ):
        state = replace(state, sequence=record.tile.sequence, samples_position=record.tile.samples_from)
    return the_rule(state, record)


def ignores_claims(state: SourceState, record: Claim | Delta) -> SourceState:
    """Wrong: whoever stands at the position is taken for the owner."""
    return the_rule(replace(state, owner=record.writer), record)


def has_no_sequence(state: SourceState, record: Claim | Delta) -> SourceState:
    """Wrong: positions alone decide, so an empty tile may be taken twice."""
    if isinstance(record, Delta):
        record = replace(record, tile=replace(record.tile, sequence=state.sequence))
    return the_rule(state, record)


def play(rule: Rule, story: list[Event]) -> bool:
    """Whether every reader stood right after every event of a story."""
    log = Log(rule)
    try:
        for event in story:
            log.happen(event)
            if not log.is_exact():
                return False
    except StateMismatch:
        return False
    return True


@settings(max_examples=300)
@given(STORIES)
def test_whatever_is_lost_late_or_twice_the_accepted_deltas_tile_the_input(story: list[Event]) -> None:
    assert play(the_rule, story)


@pytest.mark.parametrize("broken", [takes_gaps, ignores_claims, has_no_sequence])
def test_a_rule_that_lacks_one_of_its_conditions_is_caught_by_that_law(broken: Rule) -> None:
    look = settings(max_examples=3000, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    try:
        find(STORIES, lambda story: not play(broken, story), settings=look)
    except NoSuchExample:
        pytest.fail(f"{broken.__name__}: the law did not notice; make its stories richer")


@given(STORIES)
def test_a_source_that_is_claimed_and_left_alone_goes_on_whatever_went_before(story: list[Event]) -> None:
    log = Log(the_rule)
    for event in story:
        log.happen(event)
    log.delayed.clear()
    sequence = log.state.sequence
    for event in (Event("claim"), Event("write", 2), Event("write", 0, 1)):
        log.happen(event)
    assert log.state.sequence == sequence + 2
    assert log.is_exact()


@given(STORIES, st.integers(0, 40))
def test_a_reader_that_starts_from_a_checkpoint_stands_where_all_others_stand(story: list[Event], cut: int) -> None:
    log = Log(the_rule)
    records: list[Claim | Delta] = []

    def remembers(state: SourceState, record: Claim | Delta) -> SourceState:
        records.append(record)
        return the_rule(state, record)

    log.rule = remembers
    for event in story:
        log.happen(event)
    state = SourceState(SOURCE, Statistics(DIMENSION))
    for record in records[:cut]:
        state = the_rule(state, record)
    checkpoint = replace(state)
    for record in records[cut:]:
        checkpoint = the_rule(checkpoint, record)
    assert checkpoint == log.state


def test_every_dropped_delta_is_counted_by_why_it_was_dropped() -> None:
    log = Log(the_rule)
    for event in (Event("claim"), Event("write", 2), Event("repeat"), Event("lose", 1)):
        log.happen(event)
    assert log.state.dropped == {"repeat": 1}
    log.happen(Event("write", 1))
    assert log.state.dropped == {"repeat": 1, "gap": 1}
    log.happen(Event("claim"))
    log.happen(Event("write", 1, which=1))
    assert log.state.dropped == {"repeat": 1, "gap": 1, "stale writer": 1}
    assert log.state.samples_position == 2


def test_a_delta_of_another_stream_or_of_rows_that_never_were_is_refused_by_name() -> None:
    state = the_rule(SourceState(SOURCE, Statistics(DIMENSION)), Claim(SOURCE, "a", FINGERPRINT))
    delta = Delta(SOURCE, "a", FINGERPRINT, Tile(0, 0, 1, 0, 0), Rebuild(), rows_between(0, 1))
    with pytest.raises(DefinitionMismatch, match="give every worker the same definition"):
        accept(state, replace(delta, stream_fingerprint=b"g" * 16), FINGERPRINT)
    with pytest.raises(StateMismatch, match="a row was taken out that never was in"):
        accept(state, replace(delta, change=Statistics(DIMENSION) - rows_between(0, 1)), FINGERPRINT)
    with pytest.raises(StateMismatch, match="ends at or after its beginning"):
        accept(state, replace(delta, tile=Tile(0, 0, -1, 0, 0)), FINGERPRINT)
    assert accept(state, delta, FINGERPRINT)[1] is Verdict.ACCEPTED
