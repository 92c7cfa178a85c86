"""What services say in their logs of what they refuse: at once, seldom, in full."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceState
from deltaplane.log.records import DeadLetter
from deltaplane.stream.sample import Refusal
from deltaplane.wire import read_dead_letter
from deltaplane_services.observe.metrics import ScorerMetrics, WorkerMetrics
from deltaplane_services.observe.refusal_log import LINE_SECONDS, RefusalLog
from deltaplane_services.processors.intake import Intake
from deltaplane_services.processors.messages import QUERIES, RETIREMENTS, SAMPLES, Output, Record
from deltaplane_services.processors.refused_records import dead_letter, refused_rows
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor
from services.metrics_models import BINARY, model, plane

NOW = 1_700_000_000_000
JSON = b'{"id": "a", "x": 1.5}'


def letter(kind: str, offset: int = 0, reason: str = "why", rest: dict[str, int] | None = None) -> DeadLetter:
    return DeadLetter("samples", 0, offset, None, kind, reason, None, None, 0, rest or {})


def test_the_first_refusal_of_a_kind_is_said_at_once() -> None:
    log = RefusalLog("s")
    log.refused([letter("bad record", 7, "got JSON")])
    assert log.line(0.0) == (
        "refused 1 of 1 (all): 1 bad record; for example samples-0 at offset 7: got JSON;"
        " all are in topic s.dead-letters"
    )
    log.refused([letter("bad value", 8)])
    said = log.line(0.1)
    assert said is not None
    assert "1 bad value" in said


def test_what_follows_is_one_line_in_ten_seconds_that_counts_all_of_it() -> None:
    log = RefusalLog("s")
    log.refused([letter("bad record")])
    assert log.line(0.0)
    log.saw(89_990)
    log.refused([letter("bad record", 5), letter("bad record", 6), letter("more rows", 7, rest={"bad record": 8})])
    assert log.line(LINE_SECONDS - 0.1) is None
    said = log.line(LINE_SECONDS)
    assert said is not None
    assert said.startswith("refused 10 of 90,000 (less than 0.1 %): 10 bad record; for example samples-0 at offset 5")
    assert log.line(10 * LINE_SECONDS) is None, "nothing was refused since"


def test_the_example_is_of_a_kind_that_is_new() -> None:
    log = RefusalLog("s")
    log.refused([letter("bad record", 1)])
    log.line(0.0)
    log.refused([letter("bad record", 2), letter("bad value", 3), letter("bad record", 4)])
    assert "for example samples-0 at offset 3" in (log.line(0.0) or "")


def test_a_long_reason_is_cut() -> None:
    log = RefusalLog("s")
    log.refused([letter("bad record", reason="x" * 10_000)])
    assert len(log.line(0.0) or "") < 600


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["bad record", "bad value", "late"]),
            st.integers(1, 9),
            st.floats(0.0, 7.0, allow_nan=False),
        )
    )
)
def test_no_refusal_is_lost_and_no_two_lines_of_known_kinds_come_soon_after_each_other(
    steps: list[tuple[str, int, float]],
) -> None:
    log, now, counted = RefusalLog("s"), 0.0, Counter[str]()
    lines: list[tuple[float, str]] = []
    for kind, count, pause in steps:
        now += pause
        log.refused([letter(kind)] * count)
        counted[kind] += count
        if line := log.line(now):
            lines.append((now, line))
    if line := log.line(now, last=True):
        lines.append((now + LINE_SECONDS, line))
    listed = [part.split(": ")[1].split("; ")[0] for _, part in lines]
    said = Counter[str]()
    for part in listed:
        for item in part.split(", "):
            number, _, kind = item.partition(" ")
            said[kind] += int(number)
    assert said == counted
    assert len(lines) <= len(counted) + now / LINE_SECONDS + 1


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    """Commands that other tests have run in this process may have made it silent."""
    caplog.set_level(logging.WARNING)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_worker_says_what_came_in_place_of_samples(caplog: pytest.LogCaptureFixture) -> None:
    watch = WorkerMetrics(BINARY, "here")
    batch = Intake(BINARY, 0).take([Record(SAMPLES, 0, n, 0, None, JSON) for n in range(3)], [])
    watch.published(batch.letters)
    watch.turn({}, (), joined=True)
    (said,) = warnings(caplog)
    assert "refused 3 of 3 (all): 3 bad record; for example samples-0 at offset 0" in said
    assert "got JSON (21 bytes)" in said


def test_a_worker_counts_a_flood_once_though_one_letter_counts_on(caplog: pytest.LogCaptureFixture) -> None:
    watch = WorkerMetrics(BINARY, "here")
    for life in range(2):
        worker = WorkerProcessor(BINARY, Source("here", 0), f"w{life}")
        nothing = Statistics(BINARY.dimension)
        # Of what was before there were letters for a thousand, and one more for all others.
        counts = {"letters due samples": NOW + 1_000_000, "without letter samples: bad record": 500} if life else {}
        worker.restore(SourceState(Source("here", 0), nothing, sequence=1, counts=counts))
        for poll in range(4):
            records = [Record(SAMPLES, 0, 700 * poll + at, NOW, None, None) for at in range(700)]
            watch.delta(worker, 1 + poll, records, worker.process(records, []))
            watch.turn({}, (), joined=True)
    watch.ends()
    said = [int(line.split("refused ")[1].split(" of")[0].replace(",", "")) for line in warnings(caplog)]
    assert sum(said) == 2 * 4 * 700


def test_a_service_that_ends_says_what_it_has_not_said_yet(caplog: pytest.LogCaptureFixture) -> None:
    watch = WorkerMetrics(BINARY, "here")
    bad = dead_letter(Record(RETIREMENTS, 0, 4, 0, None, None), "bad record", "a null value", 10)
    watch.published([bad])
    watch.turn({}, (), joined=True)
    watch.published([bad, bad])
    watch.turn({}, (), joined=True)
    assert len(warnings(caplog)) == 1
    watch.ends()
    assert "refused 2 of 2" in warnings(caplog)[1]


def test_a_scorer_says_which_queries_it_cannot_answer(caplog: pytest.LogCaptureFixture) -> None:
    scorer, watch = ScorerProcessor(BINARY), ScorerMetrics(BINARY)
    scorer.see_model(model(1, plane=plane(), plane_version=1))
    watch.answered(scorer.process([Record(QUERIES, 0, 9, 0, None, b"\0\0\0\0\x05abc")]))
    watch.answered(Output())
    watch.turn(scorer)
    assert (
        "queries-0 at offset 9: message: expected query in Avro single-object encoding, got Confluent"
        in (warnings(caplog)[0])
    )


def test_a_letter_of_a_row_is_less_than_a_kilobyte_whatever_the_row_says() -> None:
    wide = "\N{PILE OF POO}"
    record = Record(SAMPLES, 1023, 2**60, 0, b"k" * 5000, b"v" * 100_000)
    for refusal in (
        Refusal(wide * 64, 2**60, 99_999, "unknown class", wide * 2000),
        Refusal("\x00" * 5000, 2**60, 99_999, "bad id", "its id is too long"),
    ):
        (outgoing,) = refused_rows(record, [refusal])
        assert outgoing.value is not None
        assert len(outgoing.value) < 1000
    assert read_dead_letter(outgoing.value).reason.endswith("…': its id is too long"), "the cause is not cut off"
