"""Every alert fires when its cause is there, is silent before and after, and has an entry in the runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dashboards.distribution import Tools
from dashboards.hurry import BOUND_IN_SECONDS, RANGE, hurried, hurried_expression, milliseconds
from dashboards.server import DEPLOY, promtool
from deltaplane_services.observe.metrics import EVERY

CASES = Path(__file__).with_name("alert_cases.yml")
RUNBOOK = (DEPLOY / "RUNBOOK.md").read_text("utf-8")


def load(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return loaded


RULES = [rule for group in load(DEPLOY / "alerts.yml")["groups"] for rule in group["rules"]]


def test_promtool_accepts_the_rules_and_the_configuration(prometheus_tools: Tools) -> None:
    del prometheus_tools
    for arguments in (
        ("rules", "--lint-fatal", str(DEPLOY / "alerts.yml")),
        ("config", str(DEPLOY / "prometheus.yml")),
    ):
        verdict = promtool("check", *arguments)
        assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_every_alert_behaves_as_its_cases_say(prometheus_tools: Tools) -> None:
    del prometheus_tools
    verdict = promtool("test", "rules", str(CASES))
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_the_cases_have_every_alert_fire_and_clear_afterwards() -> None:
    fires: dict[str, list[bool]] = {}
    for case in load(CASES)["tests"]:
        for step in case["alert_rule_test"]:
            fires.setdefault(step["alertname"], []).append(bool(step.get("exp_alerts")))
    assert fires.keys() == {rule["alert"] for rule in RULES}
    for name, states in fires.items():
        first = states.index(True)
        assert False in states[:first], f"{name} is not shown to be silent before its cause"
        assert False in states[first:], f"{name} is not shown to clear"


def test_every_alert_has_a_runbook_line_and_an_entry_in_the_runbook_and_none_is_of_an_alert_that_is_gone() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"]


def test_the_rules_use_metrics_that_there_are() -> None:
    known = {metric.name for metric in EVERY}
    for rule in RULES:
        for name in re.findall(r"\bdeltaplane_[a-z_]+", rule["expr"]):
            assert name in known or re.sub(r"_count$", "", name) in known, name


def test_hurried_rules_are_the_same_but_for_their_times(tmp_path: Path) -> None:
    found = [rule for group in load(hurried(DEPLOY / "alerts.yml", 30, tmp_path))["groups"] for rule in group["rules"]]
    for rule, hurry in zip(RULES, found, strict=True):
        assert {**hurry, "expr": "", "for": ""} == {**rule, "expr": "", "for": ""}
        assert milliseconds(hurry.get("for", "0s")) * 30 == milliseconds(rule.get("for", "0s"))
        without = [BOUND_IN_SECONDS.sub(r"\1", RANGE.sub("[]", either["expr"])) for either in (rule, hurry)]
        assert without[0] == re.sub(r"(_seconds\)* *[<>]=? *)[\d.]+", r"\1", without[1])


def test_a_time_in_a_rule_is_divided_and_a_count_is_not() -> None:
    rule = "rate(a_count[2m]) > 1000 and max(b_age_seconds) > 300 unless c_seconds >= 0"
    assert (
        hurried_expression(rule, 30) == "rate(a_count[4000ms]) > 1000 and max(b_age_seconds) > 10 unless c_seconds >= 0"
    )
    # Every kind of time that the rules have today is found: if one is written in another way, this test must learn it.
    assert sum(len(RANGE.findall(rule["expr"])) for rule in RULES) == 18
    assert sum(len(BOUND_IN_SECONDS.findall(rule["expr"])) for rule in RULES) == 4
