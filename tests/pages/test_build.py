"""The pages build without a warning, and what is generated in them has everything that the product has."""

from __future__ import annotations

import dataclasses
import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltaplane.stream.declared import KEYS
from deltaplane_services.definition_file.input_table import INPUT_KEYS
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.metrics.metric import Metric
from deltaplane_services.processors.messages import TOPICS
from tidy.sources import TOP


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them."""
    out = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(out / "trees")]
    ended = subprocess.run([*command, "docs", str(out / "html")], cwd=TOP, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return out / "html"


def text_of(page: Path) -> str:
    """What a reader sees of a page's middle."""
    (body,) = re.findall(r'<article role="main".*?</article>', page.read_text("utf-8"), re.DOTALL)
    return text_in(body)


def text_in(markup: str) -> str:
    """The text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()


def test_the_reference_has_every_command_metric_setting_topic_and_key(built: Path) -> None:
    reference = built / "reference"
    commands = text_of(reference / "commands.html")
    for command in ("replay", "worker", "topics create", "source remove", "grid refit", "bench papers", "model export"):
        assert f"deltaplane {command}" in commands
    assert "--write-definition" in commands
    metrics = text_of(reference / "metrics.html")
    declared = [value for value in vars(metric_names).values() if isinstance(value, Metric)]
    assert len(declared) > 40
    assert all(metric.name in metrics for metric in declared)
    settings = text_of(reference / "settings.html")
    assert all(f"DELTAPLANE_{knob.name.upper()}" in settings for knob in dataclasses.fields(Knobs))
    topics = text_of(reference / "topics.html")
    assert all(topic in topics for topic in TOPICS)
    definition = text_of(reference / "definition.html")
    assert all(key in definition for section in KEYS.values() for key in section)
    assert all(key in definition for key in INPUT_KEYS)


def test_the_settings_have_the_defaults_of_the_product(built: Path) -> None:
    page = (built / "reference" / "settings.html").read_text("utf-8")
    rows = [
        [text_in(cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    ]
    shown = {row[1]: row[2] for row in rows if len(row) > 2}
    for knob in dataclasses.fields(Knobs):
        default = f"{knob.default:g}" if isinstance(knob.default, float) else str(knob.default) or "none"
        assert shown[f"DELTAPLANE_{knob.name.upper()}"] == default


def test_the_architecture_lists_every_module_after_all_that_it_imports(built: Path) -> None:
    text = text_of(built / "explanation" / "architecture.html")
    for module in ("grid", "statistics", "window", "delta", "merger", "answers"):
        assert re.search(rf"deltaplane\.(\w+\.)?{module}\b", text), module


def test_the_public_classes_are_documented_with_their_methods(built: Path) -> None:
    text = text_of(built / "reference" / "python.html")
    for name in ("ProximalSVM", "retire", "predict_then_fit", "LiveModel", "SampleProducer", "send_batch"):
        assert name in text


def test_every_alert_has_its_entry_on_the_troubleshooting_page(built: Path) -> None:
    text = text_of(built / "troubleshooting.html")
    alerts = re.findall(r"^ *- alert: (\w+)$", (TOP / "deploy" / "alerts.yml").read_text("utf-8"), re.MULTILINE)
    assert len(alerts) > 10
    assert all(alert in text for alert in alerts)
