"""Dead letters of a flood: a thousand at once, then one a second, one in common for the rest; whatever the polls."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept
from deltaplane.log.records import DeadLetter
from deltaplane.wire import read_claim_or_delta, read_dead_letter, write_sample
from deltaplane_services.processors.messages import DEAD_LETTERS, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.produce.refused_rows import Refusals
from strategies_streams import definition_of

SOURCE = Source("local", 0)
DEFINITION = definition_of("10ms")
NOW = 1_700_000_000_000


class Reader:
    """Workers one after the other on one source, and the letters that they leave behind, the last of each key."""

    def __init__(self) -> None:
        self.state = SourceState(SOURCE, Statistics(DEFINITION.dimension))
        self.letters: dict[bytes | None, DeadLetter] = {}
        self.lives = 0
        self.take_over()

    def take_over(self) -> None:
        self.lives += 1
        self.worker = WorkerProcessor(DEFINITION, SOURCE, f"w{self.lives}")
        claim = read_claim_or_delta(self.worker.claim().value, DEFINITION.dimensions)
        self.state, _ = accept(self.state, claim, DEFINITION.stream_fingerprint)
        self.worker.restore(self.state)

    def read(self, samples: list[Record], retirements: list[Record], *, dies: bool = False) -> None:
        """Process some records; a worker that dies leaves its letters, and no delta."""
        output = self.worker.process(samples, retirements)
        self.letters |= {one.key: read_dead_letter(one.value) for one in output.first if one.topic == DEAD_LETTERS}
        for one in () if dies else output.then:
            delta = read_claim_or_delta(one.value, DEFINITION.dimensions)
            assert isinstance(delta, Delta)
            self.state, verdict = accept(self.state, delta, DEFINITION.stream_fingerprint)
            assert verdict is Verdict.ACCEPTED

    def kinds(self) -> Counter[str]:
        """What letters say was refused, by kind."""
        kinds: Counter[str] = Counter()
        for letter in self.letters.values():
            kinds.update(letter.rest or {letter.kind: 1})
        return kinds


def flood(topic: str, times: list[int], value: bytes | None = None) -> list[Record]:
    return [Record(topic, 0, at, time, None, value) for at, time in enumerate(times)]


def test_of_a_flood_a_thousand_have_letters_and_one_stands_for_the_rest_and_nothing_is_lost() -> None:
    reader = Reader()
    records = flood(SAMPLES, [NOW] * 5000)
    for at in range(0, 5000, 700):
        reader.read(records[at : at + 700], [])
    assert len(reader.letters) == limits.LETTER_ROWS + 1
    assert reader.kinds() == {"bad record": 5000}
    shared = reader.letters[b"samples-0-more"]
    assert (shared.kind, shared.offset, shared.rest) == ("more records", 4999, {"bad record": 4000})
    assert shared.reason.startswith("4,000 more, up to this record: 4,000 bad record; more than 1,000 came at once")
    assert reader.state.counts["refused bad record"] == 5000
    # Retirements have a pace of their own; a second of the log earns one more letter.
    reader.read([], flood(RETIREMENTS, [NOW, NOW + 1]))
    reader.read([Record(SAMPLES, 0, at, NOW + 1000, None, None) for at in (5000, 5001)], [])
    assert {b"retirements-0-0", b"retirements-0-1", b"samples-0-5000"} <= reader.letters.keys()
    assert b"samples-0-5001" not in reader.letters
    assert reader.kinds() == {"bad record": 5004}


def test_bad_values_and_late_samples_are_letters_like_others() -> None:
    reader = Reader()
    fingerprint = DEFINITION.data_fingerprint
    now = write_sample("now", NOW, "x", (1.0,), fingerprint)
    reader.read(flood(SAMPLES, [NOW], now), [])
    bad, late = (write_sample("a", NOW, "x", (1e300,), fingerprint), write_sample("b", 0, "x", (1.0,), fingerprint))
    records = [Record(SAMPLES, 0, 1 + at, NOW, None, (bad, late)[at % 2]) for at in range(4000)]
    for at in range(0, 4000, 1500):
        reader.read(records[at : at + 1500], [])
    assert reader.kinds() == {"bad value": 2000, "late": 2000}
    assert len(reader.letters) == 2 * (limits.LETTER_ROWS + 1)
    assert reader.letters[b"samples-late-0-more"].rest == {"late": 1000}


def test_no_log_time_keeps_a_delta_from_being_accepted() -> None:
    reader = Reader()
    reader.read(flood(SAMPLES, [-(2**62), 2**62, 0, NOW]), [])
    assert reader.kinds() == {"bad record": 4}


def test_a_replay_counts_what_the_common_letter_stands_for_once() -> None:
    refusals, kinds = Refusals(), {"bad value": 3}
    for count in (3, 7):
        letter = DeadLetter(SAMPLES, 0, count, None, "more records", "", None, None, 0, {**kinds, "bad value": count})
        refusals.add_dead_letter(letter, 0)
    assert refusals.counts == {"bad value": 7}


@settings(deadline=None)
@given(
    st.lists(st.sampled_from((0, 0, 0, 1, 900, 3000)), max_size=30),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(("read", "die", "take over"))), max_size=12),
    st.integers(0, 2**20),
)
def test_letters_follow_from_the_log_alone_however_it_is_cut_and_whoever_dies(
    steps: list[int], cuts: list[tuple[int, str]], start: int
) -> None:
    limit = limits.LETTER_ROWS
    limits.LETTER_ROWS = 4
    try:
        times = [start + sum(steps[: at + 1]) for at in range(len(steps))]
        records = flood(SAMPLES, times)
        whole, cut = Reader(), Reader()
        whole.read(records, [])
        for more, how in [*cuts, (30, "read")]:
            at = cut.state.samples_position
            cut.read(records[at : at + more], [], dies=how == "die")
            if how != "read":
                cut.take_over()
        assert cut.letters == whole.letters
        assert cut.state.counts == whole.state.counts
    finally:
        limits.LETTER_ROWS = limit
