"""The dashboards as files: complete, readable, and all of the metrics that there are."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from dashboards.server import DEPLOY, as_grafana_sends_it, boards, expressions, panels
from deltaplane_services.observe.metrics import EVERY, metric_names

METRICS = {metric.name: metric for metric in EVERY}
PLAIN_COUNTERS = {("quality", "G-mean since the beginning"), ("quality", "Confusion since the beginning")}


def load(file: str) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(DEPLOY / file)
    return loaded


def named(expression: str) -> set[str]:
    """The metrics that an expression names, histograms without the ending of their series."""
    found = set(re.findall(r"\bdeltaplane_[a-z_]+", expression))
    return {name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_there_are_the_four_dashboards_that_are_promised_and_the_first_look_is_the_home_page() -> None:
    assert {board["title"] for board in boards().values()} == {
        "Deltaplane: Overview",
        "Deltaplane: Quality",
        "Deltaplane: Pipeline",
        "Deltaplane: Model",
    }
    compose: dict[str, Any] = YAML(typ="safe", pure=True).load(DEPLOY.parent / "compose.yaml")
    home = compose["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == "/etc/grafana/dashboards/overview.json"
    assert "overview" in boards()


def test_dashboards_and_panels_can_be_told_apart_by_their_identities() -> None:
    assert len({board["uid"] for board in boards().values()}) == len(boards())
    for board in boards().values():
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)


def test_no_panel_covers_another_or_leaves_the_grid() -> None:
    for board in boards().values():
        covered: dict[tuple[int, int], str] = {}
        for panel in board["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24, panel["title"]
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    assert (x, y) not in covered, f"{panel['title']} covers {covered[x, y]}"
                    covered[x, y] = panel["title"]


def test_every_query_goes_to_the_data_source_that_is_chosen_and_that_is_the_provisioned_one_at_first() -> None:
    (source,) = load("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    expected = {"type": source["type"], "uid": "${datasource}"}
    for board in boards().values():
        chosen, *others = board["templating"]["list"]
        assert (chosen["name"], chosen["type"], chosen["query"]) == ("datasource", "datasource", source["type"])
        assert chosen["current"] == {"text": source["name"], "value": source["uid"]}
        asked = [panel["datasource"] for panel in panels(board)]
        asked += [target["datasource"] for panel in panels(board) for target in panel["targets"]]
        asked += [variable["datasource"] for variable in others]
        asked += [annotation["datasource"] for annotation in board["annotations"]["list"]]
        assert asked == [expected] * len(asked)


def test_every_panel_has_a_unit_and_says_what_it_shows() -> None:
    for board in boards().values():
        for panel in panels(board):
            assert panel["description"].endswith("."), panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert panel["targets"], panel["title"]


def test_lines_have_gaps_where_there_is_no_value() -> None:
    lines = [panel for board in boards().values() for panel in panels(board) if panel["type"] == "timeseries"]
    assert len(lines) > 30
    assert all(panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False for panel in lines)


def test_every_query_uses_metrics_that_there_are_and_no_metric_is_left_unseen() -> None:
    shown = set()
    for where, expression in expressions().items():
        assert named(as_grafana_sends_it(expression, "any")) <= METRICS.keys(), where
        shown |= named(expression)
    # How long the recent span should be, and how far ahead a clock may be, is for an alert.
    assert METRICS.keys() - shown == {metric_names.PREQUENTIAL_SPAN.name, metric_names.MAX_SKEW.name}


def test_counters_are_shown_as_rates_and_gauges_never_are() -> None:
    for (board, title, _), expression in expressions().items():
        for name in named(expression):
            counts = METRICS[name].kind != "gauge"
            rated = re.search(rf"\b(rate|increase)\({name}", expression) is not None
            assert rated == (counts and (board, title) not in PLAIN_COUNTERS), (board, title, name)


def test_grafana_looks_for_dashboards_in_the_folder_that_is_mounted_there() -> None:
    (provider,) = load("grafana/provisioning/dashboards/deltaplane.yml")["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
