"""``deltaplane top``: real exporters asked over real HTTP, and what becomes of their answers."""

from __future__ import annotations

import dataclasses
import http.server
import io
import json
import math
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
import typer.testing
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest
from rich.console import Console

from deltaplane.errors import DefinitionError
from deltaplane.log.delta import Verdict
from deltaplane_services.cli.application import app
from deltaplane_services.observe.health import HealthServer, State
from deltaplane_services.observe.metrics import (
    JudgeMetrics,
    MergerMetrics,
    ScorerMetrics,
    ServiceMetrics,
    WorkerMetrics,
)
from deltaplane_services.observe.top.draw import draw, duration, sparkline
from deltaplane_services.observe.top.gather import Address, Gatherer, Gathering, Scrape, Silence, parse
from deltaplane_services.observe.top.history import History, quantile
from deltaplane_services.observe.top.snapshot import STILL_SECONDS, Frame, frame_of
from deltaplane_services.processors.judge_processor import JudgeProcessor
from services.metrics_models import model, plane, scores, stream

PATIENCE_SECONDS = 60.0


class Services:
    """A worker, a merger and a scorer of one small stream, each behind its own port."""

    def __init__(self, stack: ExitStack, name: str = "s") -> None:
        self._stack = stack
        self.definition = stream(name=name)
        self.worker = WorkerMetrics(self.definition, "here")
        self.merger = MergerMetrics(self.definition)
        self.scorer = ScorerMetrics(self.definition)
        self.servers = [self.serve(one) for one in (self.worker, self.merger, self.scorer)]
        self.worker.lags({("samples", 0): 7, ("samples", 1): 3, ("retirements", 0): 0})
        self.worker.turned(State(good=True, why="worker: serving partitions [0, 1]"))
        self.scorer.turned(State(good=False, why="scorer: no model yet; queries wait in their topic"))
        self.publish(1, 1000)

    def serve(self, metrics: ServiceMetrics) -> HealthServer:
        server = HealthServer("127.0.0.1", 0, metrics.answers())
        self._stack.callback(server.close)
        return server

    def publish(self, version: int, applied: int, merger: MergerMetrics | None = None, **fields: Any) -> None:
        """A merger, this stream's own or another, makes a model of so many samples."""
        given: dict[str, Any] = {
            "created": time.time_ns() // 1_000_000,
            "plane": plane(),
            "plane_version": version,
            "counts": {"no": 60, "yes": 40},
            "scores": scores(no_no=80, no_yes=20, yes_yes=45, yes_no=5),
            "totals": {"applied": applied, "refused bad value": 3, "retirements retired": 9, "retirements waiting": 2},
        }
        merger = merger or self.merger
        merger.model(model(version, self.definition, **{**given, **fields}))
        merger.turn(dict.fromkeys(Verdict, 0), joined=True, has_place=True)

    @property
    def addresses(self) -> list[str]:
        return [server.address for server in self.servers]

    def gatherer(self, *more: str) -> Gatherer:
        return Gatherer([Address.of(text) for text in (*self.addresses, *more)], timeout_seconds=30.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def services(stack: ExitStack) -> Services:
    return Services(stack)


def later(gathering: Gathering, seconds: float) -> Gathering:
    """The same, as if it had been asked so much later."""
    answers = {
        address: dataclasses.replace(answer, asked_at=answer.asked_at + seconds)
        if isinstance(answer, Scrape)
        else answer
        for address, answer in gathering.answers.items()
    }
    return dataclasses.replace(gathering, asked_at=gathering.asked_at + seconds, answers=answers)


def seen(*rounds: Gathering) -> tuple[Frame, History]:
    history = History()
    for one in rounds:
        history.see(one)
    return frame_of(history), history


def drawn(frame: Frame, history: History, columns: int = 80) -> str:
    console = Console(file=io.StringIO(), width=columns, color_system=None, highlight=False)
    console.print(draw(frame, history, columns))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# What is shown -------------------------------------------------------------------------------------------------------


def test_a_frame_holds_what_the_services_were_told(services: Services) -> None:
    frame, _ = seen(services.gatherer().gather())
    assert frame.stream == "s"
    assert [(one.role, one.state, one.elected) for one in frame.services] == [
        ("worker", "ready", None),
        ("merger", "ready", True),
        ("scorer", "not ready", None),
    ]
    assert frame.services[2].why == "no model yet; queries wait in their topic"
    assert frame.flow.lag_records == {"samples": 10, "retirements": 0}
    assert frame.gmean == {"all": math.sqrt(0.8 * 0.9), "recent": math.sqrt(0.8 * 0.9)}
    assert frame.imbalance_ratio == 1.5
    assert frame.model is not None
    assert (frame.model.version, frame.model.C, frame.model.condition_number) == (1, 2.0, 1e3)
    assert 0.0 <= frame.model.age_seconds < PATIENCE_SECONDS
    assert [(one.name, one.recall, one.live_samples, one.sigma) for one in frame.classes] == [
        ("no", 0.8, 60, 0.5),
        ("yes", 0.9, 40, 1.5),
    ]
    assert frame.counts is not None
    assert frame.counts.samples["applied"] == 1000
    assert frame.counts.rejected["bad_value"] == 3
    assert frame.counts.retirements["retired"] == 9
    assert frame.counts.retirements_waiting == 2
    assert frame.notes == ()


def test_a_rate_is_what_a_counter_grew_by_in_the_time_between(services: Services) -> None:
    gatherer = services.gatherer()
    first = gatherer.gather()
    services.publish(2, 1500)
    frame, _ = seen(first, later(gatherer.gather(), 4.0))
    assert frame.flow.samples_per_second == pytest.approx(500 / 4.0, rel=0.2)
    assert frame.flow.samples_per_second == pytest.approx(500 / frame.rates_over_seconds, rel=0.05)


def test_what_was_served_stands_beside_the_gmean_where_a_judge_tells_it(services: Services) -> None:
    before, history = seen(services.gatherer().gather())
    assert before.served == {}
    assert "as served" not in drawn(before, history)
    watch, judge = JudgeMetrics(services.definition, "north"), JudgeProcessor(services.definition)
    judge.served.predicted([("a", "yes"), ("b", "no"), ("c", "yes"), ("d", "yes")])
    judge.served.labelled([("a", "yes"), ("b", "no"), ("c", "no"), ("d", "yes")])
    watch.turn(judge, caught_up=True)
    frame, history = seen(services.gatherer(services.serve(watch).address).gather())
    assert frame.served == {"north": pytest.approx(math.sqrt(1.0 * 0.5))}
    assert re.search(r"as served +0\.707", drawn(frame, history))


def test_with_one_round_there_is_no_rate_and_none_is_made_up(services: Services) -> None:
    frame, history = seen(services.gatherer().gather())
    assert frame.flow.samples_per_second is None
    assert frame.flow.sample_to_model_seconds == {"p50": None, "p95": None}
    assert "samples/s –" in drawn(frame, history)


def test_a_counter_that_began_again_counts_from_zero() -> None:
    registry, history, place = CollectorRegistry(), History(), Address("h", 1)
    counter = Counter("things", "Things.", ["kind"], registry=registry)
    counter.labels("a").inc(100)
    for value in (40, None):
        scrape = Scrape(float(value is None), parse(generate_latest(registry).decode()), ready=True, why="")
        series = {**scrape.series, "deltaplane_build_info": [({"stream": "s", "role": "worker"}, 1.0)]}
        scrape = dataclasses.replace(scrape, series=series)
        history.see(Gathering(0.0, scrape.asked_at, {place: scrape}, {place: "h:1"}))
        if value is not None:
            counter.clear()
            counter.labels("a").inc(value)

    def pick(gathering: Gathering) -> Scrape | None:
        answer = gathering.answers[place]
        return answer if isinstance(answer, Scrape) else None

    assert history.increases("things_total", pick) == {("a",): (40.0, 1.0)}


def test_of_two_mergers_that_believe_to_be_elected_the_higher_model_is_shown(services: Services) -> None:
    other = MergerMetrics(services.definition)
    services.publish(7, 7000, other)
    frame, _ = seen(services.gatherer(services.serve(other).address).gather())
    assert frame.model is not None
    assert frame.model.version == 7
    assert "2 mergers believe to be elected" in frame.notes[0]


def test_a_merger_that_stands_by_does_not_tell_of_the_stream(services: Services) -> None:
    services.merger.turn(None, joined=True, has_place=False)
    frame, history = seen(services.gatherer().gather())
    assert (frame.model, frame.classes, frame.counts, frame.gmean) == (None, (), None, {})
    assert "no elected merger answers" in frame.notes[0]
    assert "G-mean       –" in drawn(frame, history)


def test_a_refusal_of_the_solver_is_said_with_its_reason(services: Services) -> None:
    services.publish(3, 1000, plane_version=2, refusal="class yes has no sample")
    frame, history = seen(services.gatherer().gather())
    assert frame.model is not None
    assert frame.model.refused
    assert "class yes has no sample" in frame.notes[0]
    assert "of version 2, newest refused" in drawn(frame, history, 120)


def test_sources_without_a_window_are_shown_with_their_age(services: Services) -> None:
    services.worker.turn({}, [3], joined=True)
    frame, history = seen(services.gatherer().gather())
    assert list(frame.rebuilds.under_way_seconds) == ["here/3"]
    assert "now here/3 for" in drawn(frame, history)
    assert frame.services[0].state == "not ready"


def test_streams_are_not_mixed_and_the_others_are_named(services: Services, stack: ExitStack) -> None:
    other = Services(stack, "another")
    other.publish(9, 9000)
    gatherer = services.gatherer(*other.addresses)
    history = History()
    history.see(gatherer.gather())
    assert frame_of(history).stream == "another"
    frame = frame_of(history, "s")
    assert frame.model is not None
    assert frame.model.version == 1
    assert frame.flow.lag_records == {"samples": 10, "retirements": 0}
    assert frame.notes == ("other streams at these addresses: another; choose with --stream",)
    assert "scorer another" in drawn(frame, history, 120)


# What does not answer ------------------------------------------------------------------------------------------------


def test_a_service_that_goes_away_stays_in_the_picture_and_its_numbers_do_not(services: Services) -> None:
    gatherer = services.gatherer()
    first = gatherer.gather()
    services.servers[0].close()
    services.servers[1].close()
    frame, history = seen(first, later(gatherer.gather(), 3.0))
    worker, merger, scorer = frame.services
    assert (worker.role, worker.state, worker.lag_records, worker.resident_memory_bytes) == (
        "worker",
        "silent",
        None,
        None,
    )
    assert worker.silent_seconds >= 3.0
    assert (merger.state, merger.elected) == ("silent", None)
    assert scorer.state == "not ready"
    assert (frame.model, frame.classes, frame.counts, frame.imbalance_ratio) == (None, (), None, None)
    assert frame.flow.lag_records == {}
    assert frame.flow.samples_per_second is None
    assert frame.rebuilds.done is None
    assert "2 of 3 do not answer" in frame.notes[0]
    picture = drawn(frame, history)
    assert "1 of 3 up" in picture
    assert services.addresses[1] in picture
    assert "no answer for" in picture


def test_a_trend_has_a_gap_where_nobody_answered(services: Services) -> None:
    gatherer, history = services.gatherer(), History()
    whole = gatherer.gather()
    silent = dataclasses.replace(whole, answers=dict.fromkeys(whole.answers, Silence("gone")))
    for number, one in enumerate((whole, silent, whole)):
        history.see(later(one, float(number)))
        frame_of(history)
    known = math.sqrt(0.8 * 0.9)
    assert history.trend("gmean") == (known, None, known)
    assert sparkline(history.trend("gmean"), 3)[1] == " "


def test_numbers_of_a_loop_that_stands_still_are_old_and_not_shown(services: Services) -> None:
    gathering = services.gatherer().gather()
    frame, history = seen(gathering, later(gathering, STILL_SECONDS + 1.0))
    assert {one.state for one in frame.services} == {"standing still"}
    assert (frame.model, frame.flow.lag_records, frame.services[0].lag_records) == (None, {}, None)
    assert "its loop has not turned for" in " ".join(drawn(frame, history, 120).split())


class Odd(http.server.BaseHTTPRequestHandler):
    """Answers as its server is told."""

    def do_GET(self) -> None:
        status, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the standard library has.
        pass


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, b"<html>not metrics</html>"), "its answer is not metrics"),
        ((200, b"up 1\n"), "its metrics are not Deltaplane's"),
        ((200, b"\xff\xfe"), "its answer is not metrics"),
        ((404, b""), "/metrics answers 404"),
    ],
)
def test_what_is_no_service_of_ours_is_shown_as_that(
    stack: ExitStack, answer: tuple[int, bytes], expected: str
) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Odd)
    server.answer = answer  # type: ignore[attr-defined]
    stack.callback(server.server_close)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.shutdown)
    frame, history = seen(Gatherer([Address("127.0.0.1", server.server_port)]).gather())
    assert frame.services[0].state == "stranger"
    assert expected in frame.services[0].why
    assert frame.answering == 0
    assert "no service" in drawn(frame, history)


def test_who_listens_and_says_nothing_is_given_up(stack: ExitStack) -> None:
    mute = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    frame, _ = seen(Gatherer([Address("127.0.0.1", mute.getsockname()[1])], timeout_seconds=0.1).gather())
    assert (frame.services[0].state, frame.services[0].why) == ("silent", "no answer within 0.1 s")


def test_a_name_that_nobody_knows_is_a_line_too() -> None:
    frame, _ = seen(Gatherer([Address("nowhere.invalid", 9108)]).gather())
    assert frame.services[0].address == "nowhere.invalid:9108"
    assert "name is not known" in frame.services[0].why


def test_where_nobody_names_services_those_that_answer_are_shown_and_one_that_goes_away_stays(
    services: Services,
) -> None:
    found = [Address.of(address) for address in services.addresses]
    gatherer = Gatherer([Address("127.0.0.1", closed_port()), *found], looks_around=True)
    frame, _ = seen(gatherer.gather())
    assert [one.address for one in frame.services] == sorted(services.addresses) or len(frame.services) == len(found)
    assert all(one.state != "silent" for one in frame.services)
    empty = Gatherer([Address("127.0.0.1", closed_port()), Address("127.0.0.1", closed_port())], looks_around=True)
    alone, _ = seen(empty.gather())
    assert len(alone.services) == 1


def test_a_name_is_shown_as_it_was_given(services: Services) -> None:
    port = Address.of(services.addresses[0]).port
    frame, _ = seen(Gatherer([Address("localhost", port)]).gather())
    assert [(one.address, one.state) for one in frame.services] == [(f"localhost:{port}", "ready")]


@pytest.mark.parametrize(
    "text", ["", "9108", "host", "host:", ":9108", "host:0", "host:65536", "http://h:1", "::1:9108"]
)
def test_an_address_that_is_none_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(DefinitionError, match="expected HOST:PORT"):
        Address.of(text)


def test_an_address_of_version_six_stands_in_brackets() -> None:
    assert Address.of("[::1]:9108") == Address("::1", 9108)
    assert str(Address("::1", 9108)) == "[::1]:9108"


# The picture ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_picture_fits_its_terminal_and_nothing_of_it_is_cut_off(services: Services, columns: int) -> None:
    gatherer = services.gatherer(f"127.0.0.1:{closed_port()}")
    first = gatherer.gather()
    services.publish(2, 2000)
    lines = drawn(*seen(first, later(gatherer.gather(), 1.0)), columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= 24
    whole = " ".join(" ".join(lines).split())
    for text in ("G-mean 0.849", "imbalance 1.5", "version 2", "samples/s", "to model", "lag 10", "samples 10", "σ"):
        assert text in whole, text
    for text in ("2,000 applied", "3 bad value", "9 retired", "2 wait now", "refused", "queries", "topic"):
        assert text in whole, text
    assert whole.count("…") <= 1, "only the words of a service that is ready may be cut"


def test_at_80_columns_numbers_are_whole_however_long_and_trends_give_way(services: Services) -> None:
    frame, history = seen(services.gatherer().gather())
    assert frame.model is not None
    long = dataclasses.replace(
        frame,
        model=dataclasses.replace(frame.model, version=12_345_678, age_seconds=999_999.0, condition_number=1.234e15),
        flow=dataclasses.replace(
            frame.flow,
            samples_per_second=1_234_567.0,
            lag_records={"samples": 98_765_432, "retirements": 1_234_567},
            sample_to_model_seconds={"p50": 3723.0, "p95": 99_999.0},
        ),
        classes=tuple(dataclasses.replace(one, live_samples=1_234_567_890) for one in frame.classes),
    )
    for columns in (80, 140):
        lines = drawn(long, history, columns).splitlines()
        assert max(map(len, lines)) <= columns
        text = "".join(lines).replace(" ", "")
        for number in ("12,345,678,", "11d", "13hold", "1.23e+15", "99,999,999", "1h2min", "1,234,567,890", "1.23e+06"):
            assert number in text, (columns, number)


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_numbers_of_classes_with_long_names_are_whole_and_some_columns_give_way(
    services: Services, columns: int
) -> None:
    frame, history = seen(services.gatherer().gather())
    one = dataclasses.replace(frame.classes[0], live_samples=1_234_567, precision=0.123, sigma=1.2345e-5)
    named = tuple(dataclasses.replace(one, name=f"soil with stubble, {at}") for at in range(3))
    lines = drawn(dataclasses.replace(frame, classes=named), history, columns).splitlines()
    head = next(line for line in lines if line.startswith("class"))
    rows = [line for line in lines if line.startswith("soil")]
    assert len(rows) == 3
    for row in rows:
        assert {"0.800", "0.123"} <= set(row.split())
        assert "1,234,567" in row
        assert row.endswith("1.23e-05")
        assert "…" not in row.replace("…", "", 1), "the name may be cut, and no number"
    assert {"recall", "precision", "live", "σ"} <= set(head.split())


def test_names_of_features_have_the_room_that_there_is(services: Services) -> None:
    frame, history = seen(services.gatherer().gather())
    name = "transaction_amount_in_cents_of_customer"
    told = dataclasses.replace(frame, weights={"yes": {name: 0.25}}, shifts={name: 1.25})
    assert re.search(r"transaction_amount_in.*… +\+0\.250 +\+1\.250", drawn(told, history, 150))
    assert name in drawn(told, history, 200)


def test_at_140_columns_there_is_room_for_features(services: Services) -> None:
    frame, history = seen(services.gatherer().gather())
    told = dataclasses.replace(
        frame, weights={"yes": {"a": 0.25, "b": -3.5}}, shifts={"a": 1.25, "b": 0.01, "unweighted": -0.5}
    )
    shown = drawn(told, history, 140)
    assert re.search(r"b +-3\.500 +\+0\.010", shown)
    assert shown.index("-3.500") < shown.index("+0.250"), "the largest weight first"
    assert "+1.250" in shown
    assert "weight" not in drawn(told, history, 80)


def test_on_a_low_screen_what_is_in_trouble_is_listed_and_the_rest_is_counted(services: Services) -> None:
    frame, history = seen(services.gatherer(f"127.0.0.1:{closed_port()}").gather())
    ready = [dataclasses.replace(frame.services[0], address=f"worker-{number}:9108") for number in range(30)]
    classes = [dataclasses.replace(frame.classes[0], name=f"class {number}") for number in range(16)]
    many = dataclasses.replace(frame, services=(*ready, *frame.services), classes=tuple(classes))
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    console.print(draw(many, history, 120, 24))
    picture = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(picture.splitlines()) <= 24
    assert "no model yet; queries wait" in picture
    assert "connection refused" in picture
    assert re.search(r"and \d+ more are ready", picture)
    assert re.search(r"and \d+ more$", picture, re.MULTILINE)
    # With lines enough nothing is left out, and nothing is said to be.
    whole = drawn(many, history, 120)
    assert all(service.address in whole for service in many.services)
    assert "more" not in whole


def test_a_class_that_would_command_the_terminal_is_shown_as_text(stack: ExitStack) -> None:
    services = Services(stack)
    evil = "[red]\x1b]0;mine\x07"
    services.definition = stream(classes={})
    services.merger = MergerMetrics(services.definition)
    services.servers.append(services.serve(services.merger))
    services.publish(4, 1, counts={evil: 5, "b": 5}, plane=None, plane_version=0)
    picture = drawn(*seen(services.gatherer().gather()))
    # What cannot be printed is an escape in the metrics already.
    assert r"[red]\x1b]0;mine" in picture, picture
    assert "\x1b" not in picture


def test_bars_go_from_nothing_to_the_largest_and_a_gap_is_blank() -> None:
    assert sparkline([0.0, None, 7.0, 3.5], 6) == "  ▁ █▅"
    assert sparkline([1.0] * 9, 4) == "████"
    assert sparkline([None, None], 3) == "   "
    assert sparkline([0.8, 0.9, 0.7], 3, share=True) == "▅█▁"


def test_shares_that_hardly_move_are_drawn_nearly_level() -> None:
    bars = sparkline([0.8000, 0.8001, 0.7999], 3, share=True)
    assert len(set(bars)) <= 2
    assert "█" not in bars


def test_durations_are_said_in_the_unit_that_fits() -> None:
    said = {
        0.0031: "3 ms",
        1.36: "1.4 s",
        59.94: "59.9 s",
        303.0: "5 min 3 s",
        7800.0: "2 h 10 min",
        273600.0: "3 d 4 h",
    }
    assert {seconds: duration(seconds) for seconds in said} == said
    assert duration(None) == "–"


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 1.0])
def test_a_quantile_lies_in_the_bucket_of_the_sample_at_that_rank(share: float) -> None:
    registry = CollectorRegistry()
    histogram = Histogram("seconds", "Seconds.", ["stream"], buckets=(1.0, 2.0, 4.0, 8.0), registry=registry)
    values = [0.5, 1.5, 1.6, 3.0, 3.5, 5.0, 6.0, 7.0, 7.5, 7.9]
    for value in values:
        histogram.labels("s").observe(value)
    buckets: Mapping[tuple[str, ...], tuple[float, float]] = {
        (labels["le"], "s"): (value, 1.0)
        for labels, value in parse(generate_latest(registry).decode())["seconds_bucket"]
    }
    found = quantile(share, [buckets])
    true = values[math.ceil(share * len(values)) - 1]
    bounds = [0.0, 1.0, 2.0, 4.0, 8.0]
    low = max(bound for bound in bounds if bound < true)
    assert found is not None
    assert low <= found <= bounds[bounds.index(low) + 1]
    # Two processes that saw the same do not move it; nothing seen has no quantile.
    assert quantile(share, [buckets, buckets]) == pytest.approx(found)
    assert quantile(share, [dict.fromkeys(buckets, (0.0, 1.0))]) is None


# The command ---------------------------------------------------------------------------------------------------------


def run(*arguments: str, columns: int = 80) -> typer.testing.Result:
    runner = typer.testing.CliRunner(env={"COLUMNS": str(columns)})
    return runner.invoke(app, ["top", "--interval-seconds", "0.1", *arguments])


def test_once_prints_one_frame_and_ends_well(services: Services) -> None:
    result = run("--once", "--at", ",".join(services.addresses[:2]), "--at", services.addresses[2])
    assert result.exit_code == 0, result.output
    assert "3 of 3 up, 2 ready" in result.output
    assert "version 1" in result.output


def test_json_is_one_snapshot_with_null_for_what_is_not_known(services: Services) -> None:
    services.merger.turn(None, joined=True, has_place=False)
    result = run("--json", *(word for address in services.addresses for word in ("--at", address)))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["stream"] == "s"
    assert found["model"] is None
    assert found["imbalance_ratio"] is None
    assert found["flow"]["lag_records"] == {"samples": 10, "retirements": 0}
    assert [one["state"] for one in found["services"]] == ["ready", "ready", "not ready"]
    assert "NaN" not in result.stdout


def test_the_exit_code_says_where_nobody_answers() -> None:
    result = run("--once", "--at", f"127.0.0.1:{closed_port()}")
    assert result.exit_code == 1
    assert "0 of 1 up" in result.output


def test_without_a_terminal_the_live_picture_is_refused_with_what_to_say_instead(services: Services) -> None:
    result = run("--at", services.addresses[0])
    assert result.exit_code == 2
    assert "--once or --json" in " ".join(result.output.split())


@pytest.mark.parametrize("end", ["interrupt", "q"])
def test_on_a_terminal_it_draws_until_it_is_ended_and_leaves_the_screen_as_it_was(services: Services, end: str) -> None:
    command = [sys.executable, "-m", "deltaplane_services", "top", "--interval-seconds", "0.1"]
    command += ["--at", ",".join(services.addresses)]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
        # A shell starts what it puts in the background with interrupts ignored, and that is passed on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no locks are held here.
    )
    os.close(theirs)
    output = b""
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while output.count(b"G-mean") < 3:
            assert time.monotonic() < until, output.decode(errors="replace")
            if select.select([ours], [], [], 0.1)[0]:
                output += os.read(ours, 65_536)
        if end == "interrupt":
            process.send_signal(signal.SIGINT)
        else:
            os.write(ours, b"?")
            while b"root of the product" not in output:
                assert time.monotonic() < until, output.decode(errors="replace")
                if select.select([ours], [], [], 0.1)[0]:
                    output += os.read(ours, 65_536)
            os.write(ours, b"?q")
        while process.poll() is None and time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    output += os.read(ours, 65_536)
                except OSError:
                    break
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert output.count(b"\x1b[?1049h") == output.count(b"\x1b[?1049l") == 1
    assert b"3 of 3 up" in output
    assert b"quit" in output
