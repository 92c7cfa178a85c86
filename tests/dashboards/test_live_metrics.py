"""Real exporters, fed by a real replay, scraped by a real Prometheus: what the dashboards show is there and right."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from dashboards.distribution import Tools
from dashboards.observed import ObservedReplay, gmean_by_hand
from dashboards.server import Prometheus, as_grafana_sends_it, boards, expressions, promtool, running
from deltaplane.log import confusion
from deltaplane_services.observe.health import HealthServer
from deltaplane_services.observe.metrics import EVERY, label_values, metric_names

PHASES = 5
CHUNKS_OF_A_PHASE = 16


class Scene:
    """A replay of which Prometheus has seen every phase, and the last model."""

    def __init__(self, replay: ObservedReplay, prometheus: Prometheus, addresses: list[str]) -> None:
        self.replay = replay
        self.prometheus = prometheus
        self.addresses = addresses
        self.stream = replay.definition.name

    def show(self, dashboard: str, title: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return what the one query of a panel gives."""
        (expression,) = (e for (name, of, _), e in expressions().items() if (name, of) == (dashboard, title))
        return self.prometheus.query(as_grafana_sends_it(expression, self.stream))

    def wait_until_seen(self) -> None:
        """Return when Prometheus has the newest model, and a turn of every process since."""
        model = self.replay.runner.scorer.model
        assert model is not None
        seen = f"max(deltaplane_model_version) == {model.version}"
        self.prometheus.wait_for(f"model {model.version}", lambda: self.prometheus.value(seen) is not None)
        turns = [service._turns for service in self.replay.runner.services]
        every = f"count(deltaplane_loop_turns_total >= {min(turns)})"
        self.prometheus.wait_for("every process", lambda: self.prometheus.value(every) == len(turns))


@pytest.fixture(scope="module")
def scene(prometheus_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    del prometheus_tools
    replay = ObservedReplay()
    replay.runner.turn()
    with ExitStack() as stack:
        servers = [HealthServer("127.0.0.1", 0, service.answers()) for service in replay.runner.services]
        serving = replay.runner.serving.registry
        servers.append(HealthServer("127.0.0.1", 0, replace(replay.runner.scoring.answers(), registry=serving)))
        for server in servers:
            stack.callback(server.close)
        addresses = [server.address for server in servers]
        prometheus = stack.enter_context(running(tmp_path_factory.mktemp("prometheus"), addresses))
        scene = Scene(replay, prometheus, addresses)
        up = f"sum(up) == {len(servers)}"
        prometheus.wait_for("the first scrape of every process", lambda: prometheus.value(up) is not None)
        for phase in range(PHASES):
            replay.go_on(CHUNKS_OF_A_PHASE)
            scene.wait_until_seen()
            if phase == PHASES // 2:
                replay.runner.crash_worker(0, time.time_ns() // 1_000_000)
        yield scene


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def test_every_query_of_every_panel_returns_a_number(scene: Scene) -> None:
    empty = {
        where: expression
        for where, expression in expressions().items()
        if not scene.prometheus.finite(as_grafana_sends_it(expression, scene.stream))
    }
    assert empty == {}


def test_every_query_names_the_stream_so_that_two_streams_are_not_mixed(scene: Scene) -> None:
    strangers = {
        where: found
        for where, expression in expressions().items()
        if (found := scene.prometheus.query(as_grafana_sends_it(expression, "no-such-stream")))
    }
    assert strangers == {}


def test_the_variable_of_every_dashboard_offers_the_stream(scene: Scene) -> None:
    for board in boards().values():
        _, variable = board["templating"]["list"]
        metric = variable["query"]["query"].removeprefix("label_values(").removesuffix(", stream)")
        assert scene.stream in scene.prometheus.ask("label/stream/values", **{"match[]": metric})


def test_promtool_finds_nothing_to_say_about_any_scrape(scene: Scene) -> None:
    for address in scene.addresses:
        verdict = promtool("check", "metrics", text=scrape(address))
        assert (verdict.returncode, verdict.stdout + verdict.stderr) == (0, "")


def test_every_metric_that_has_a_name_is_scraped_and_no_other(scene: Scene) -> None:
    found = {name for name in scene.prometheus.ask("label/__name__/values") if name.startswith("deltaplane_")}
    expected = set()
    for metric in EVERY:
        endings = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        expected |= {metric.name + ending for ending in endings}
    assert found == expected


def test_no_series_of_the_stream_comes_from_more_than_one_process(scene: Scene) -> None:
    for metric in metric_names.STREAM:
        assert scene.prometheus.value(f"count(count by (instance) ({metric.name}))") == 1, metric.name


def test_the_dashboard_the_model_and_a_count_by_hand_have_the_same_gmean(scene: Scene) -> None:
    model = scene.replay.runner.scorer.model
    assert model is not None
    positive = scene.replay.definition.classes.positive
    by_hand = gmean_by_hand(scene.replay.confusion_of_the_last(len(scene.replay.truth)))
    of_the_model = confusion.summary(model.scores, positive).gmean
    lines = {dict(labels)["span"]: value for labels, value in scene.show("quality", "G-mean").items()}
    (from_counters,) = scene.show("quality", "G-mean since the beginning").values()
    assert 0.5 < by_hand < 1.0
    assert of_the_model == pytest.approx(by_hand, abs=1e-14)
    assert lines["all"] == pytest.approx(by_hand, abs=1e-14)
    assert from_counters == pytest.approx(by_hand, abs=1e-12)


def test_the_recent_gmean_is_that_of_the_last_samples_counted_by_hand(scene: Scene) -> None:
    rows = scene.prometheus.value('deltaplane_prequential_samples{span="recent"}')
    assert rows is not None
    assert label_values.PREQUENTIAL_SAMPLES <= rows < len(scene.replay.truth)
    (shown,) = scene.show("quality", "G-mean, recent").values()
    assert shown == pytest.approx(gmean_by_hand(scene.replay.confusion_of_the_last(int(rows))), abs=1e-14)


def test_the_confusion_on_the_dashboard_is_the_one_counted_by_hand(scene: Scene) -> None:
    shown = {
        (dict(labels)["truth"], dict(labels)["predicted"]): value
        for labels, value in scene.show("quality", "Confusion since the beginning").items()
    }
    assert shown == dict(scene.replay.confusion_of_the_last(len(scene.replay.truth)).counts)


def test_what_is_counted_on_the_way_adds_up_to_what_is_in_the_window(scene: Scene) -> None:
    value = scene.prometheus.value
    came = value('sum(deltaplane_samples_total{outcome=~"applied"})')
    went = value('sum(deltaplane_window_removed_samples_total{reason!="replaced"})')
    assert came is not None
    assert went is not None
    assert went > 0
    assert value("sum(deltaplane_window_samples)") == came - went


def test_every_bad_record_is_counted_once_in_the_log_and_once_by_who_refused_it(scene: Scene) -> None:
    rounds = PHASES * CHUNKS_OF_A_PHASE
    assert scene.prometheus.value('deltaplane_rejected_total{reason="bad_record"}') == rounds
    assert scene.prometheus.value('sum(deltaplane_dead_letters_total{reason="bad_record"})') == rounds


def test_every_delta_with_samples_is_found_again_in_a_model(scene: Scene) -> None:
    deltas = scene.prometheus.value("sum(deltaplane_sample_to_model_seconds_count)")
    accepted = scene.prometheus.value('sum(deltaplane_merger_deltas_total{verdict="accepted"})')
    assert accepted == scene.prometheus.value("sum(deltaplane_source_tiles_total)")
    assert deltas is not None
    assert accepted is not None
    assert accepted * 0.9 < deltas <= accepted


def test_no_rule_of_an_alert_is_in_error_and_nothing_fires_but_for_bad_records_and_features_that_shift(
    scene: Scene,
) -> None:
    """At row 17,700 features of the electricity market that were constant begin to move."""
    rules = [rule for group in scene.prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys((rule["name"] for rule in rules), "ok")

    def firing() -> set[str]:
        alerts = scene.prometheus.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    expected = {"DeltaplaneDeadLetters", "DeltaplaneFeaturesDrift"}
    scene.prometheus.wait_for("the alerts of dead letters and drift", lambda: firing() == expected)
