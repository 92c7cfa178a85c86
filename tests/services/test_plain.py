"""Labels, ids and names of strangers, and secrets: what of them may come out, and where."""

from __future__ import annotations

import json
import logging
import random
import secrets
import tomllib
from collections.abc import Mapping
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.exposition import generate_latest
from rich.console import Console

from deltaplane.log.delta import Source
from deltaplane.log.model import SourcePosition
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.cli.source_commands import _show
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.observe.metrics import MergerMetrics
from deltaplane_services.observe.top.draw import draw
from deltaplane_services.observe.top.gather import Address, Gathering, Scrape, parse
from deltaplane_services.observe.top.history import History
from deltaplane_services.observe.top.snapshot import frame_of
from deltaplane_services.operations.model_listing import model_as_json, model_line, print_model
from deltaplane_services.system.printable import STRANGE, PlainFormatter, echo, json_text, plain
from services.metrics_models import OPEN, model, plane, stream
from services.test_replay import run_main, write_csv

HOSTILE = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "\x9b31mred",
    "[red]x",
    "[/]",
    "[link=file:///etc/passwd]y",
    ":bomb:",
    "\u202egnp.exe",
    "\u200b",
    "two\nlines",
    "back\rward",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&amp;\"'",
    "\x7f",
    "\u2028",
    "{0.__class__}",
    "%s%n",
    "$(reboot) `reboot`",
)


def require_harmless(shown: str) -> None:
    """No character that a terminal takes for a command; standard output of a test is no terminal, so no colours."""
    strange = {char for char in shown if not char.isprintable()} - {"\n"}
    assert not strange, f"{sorted(strange)} in {shown!r}"


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Mapping[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_printed_is_one_line_that_can_be_printed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plain(text).isprintable()
    assert len(plain(text)) == len(text)
    assert plain("Grüße, 漢字 σ") == "Grüße, 漢字 σ"
    echo(f"before {text} after")
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_json_is_the_same_value_and_can_be_printed(text: str) -> None:
    value = {"é" + text: [text, {"deep": text}]}
    written = json_text(value)
    require_harmless(written)
    assert json.loads(written) == value
    assert "é" in written


@pytest.mark.parametrize("text", HOSTILE)
def test_a_definition_written_down_is_read_back_whatever_its_classes_are_called(text: str) -> None:
    tables = {
        "name": "s",
        "features": {"names": ["a", text]},
        "grid": {"steps": [1.0, 1.0]},
        "classes": {"names": [text, f"{text}2"]},
        "solver": {"weighting": {text: 1.0, f"{text}2": 2.0}},
    }
    definition = StreamDefinition.from_tables(tables)
    written = as_toml(definition.to_tables())
    assert StreamDefinition.from_tables(tomllib.loads(written)) == definition


def test_a_log_has_one_line_for_each_message_and_no_command_for_a_terminal() -> None:
    said = StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(PlainFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("deltaplane.hostile")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(handler)
    for text in HOSTILE:
        logger.warning("label %s", text)
    assert len(said.getvalue().splitlines()) == said.getvalue().count("\n") == len(HOSTILE)
    try:
        int("".join(HOSTILE))
    except ValueError:
        logger.exception("failed: %s", HOSTILE[0])
    require_harmless(said.getvalue())


def test_a_model_is_shown_with_the_names_that_strangers_gave(capsys: pytest.CaptureFixture[str]) -> None:
    definition = stream(features={"names": [HOSTILE[0], HOSTILE[4]]}, classes={})
    classes = tuple(HOSTILE)
    shown = model(3, definition, plane=plane(classes), counts=dict.fromkeys(classes, 1), refusal="".join(HOSTILE))
    position = SourcePosition(Source(HOSTILE[0], 0), 1, 0, 0, 0, HOSTILE[1], 0, False)  # noqa: FBT003
    shown_with_sources = model(3, definition, positions=(position,))
    print_model(shown, definition, None)
    print_model(shown, definition, np.ones(2))
    echo(model_line(shown, definition))
    _show(shown_with_sources)
    echo(json_text(model_as_json(shown, definition)).replace("\n", ""))
    require_harmless(capsys.readouterr().out)


def test_metrics_of_a_hostile_service_are_text_on_the_screen() -> None:
    metrics = MergerMetrics(OPEN)
    for text in HOSTILE:
        metrics.model(model(1, OPEN, plane=plane(("a", text)), counts={"a": 1, text: 1}))
        metrics.turn({}, joined=True, has_place=True)
        found = parse(generate_latest(metrics.registry).decode())
        assert all(
            value.isprintable() for series in found.values() for labels, _ in series for value in labels.values()
        )
    # Nothing that a service of ours would say, but what another may.
    anybody = generate_latest(metrics.registry).decode().replace('outcome="applied"', 'outcome="[/] :bomb:"')
    history, at = History(), Address("h", 1)
    history.see(Gathering(0.0, 1.0, {at: Scrape(1.0, parse(anybody), ready=False, why="[/]")}, {at: "h:1"}))
    shown = StringIO()
    Console(file=shown, width=140, markup=False, emoji=False).print(draw(frame_of(history, None), history, 140))
    require_harmless(shown.getvalue())
    assert "[/]" in shown.getvalue()


def test_a_replay_of_hostile_rows_harms_no_terminal_no_page_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw_from = random.Random(5)
    labels = [text for text in HOSTILE if "\n" not in text and "\r" not in text]
    header = ["id", labels[0], "[/]", "label"]
    rows = [
        [f"{labels[row % len(labels)]}{row}", str(draw_from.random()), str(draw_from.random()), labels[row % 2]]
        for row in range(400)
    ]
    rows[7][1] = "\x1b[31mno number[/]"
    file = write_csv(tmp_path / "[bold]hostile.csv", header, rows)
    out = {name: tmp_path / f"out.{name}" for name in ("json", "html", "toml")}
    options = ("--label", "label", "--id", "id", "--window", "100", "--json", out["json"], "--report", out["html"])
    assert run_main(("replay", file, *options, "--write-definition", out["toml"]), monkeypatch) == 0
    shown = capsys.readouterr()
    require_harmless(shown.out + shown.err)
    # Where a line is broken, which depends on how long the path is, a space is gone.
    assert "[bold]hostile.csv:399rows" in "".join(shown.out.split()), "what looks like markup is text"
    require_harmless(out["json"].read_text("utf-8"))
    tags = Tags(out["html"].read_text("utf-8"))
    assert sum(tag == "script" for tag, _ in tags.found) == 3, "the page's own, and two blocks of data"
    assert not [tag for tag, attributes in tags.found if tag == "img" or any(a.startswith("on") for a in attributes)]
    assert tomllib.loads(out["toml"].read_text("utf-8"))["features"]["names"] == header[1:3]

    again = tmp_path / "again.json"
    again.write_text(json.dumps({**json.loads(out["json"].read_text("utf-8")), "stream": "".join(HOSTILE)}), "utf-8")
    assert run_main(("compare", out["json"], again), monkeypatch) == 0
    require_harmless(capsys.readouterr().out)


def test_a_message_of_an_error_is_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_csv(tmp_path / "rows.csv", ["a", "b"], [["1", "2"]])
    definition = tmp_path / "stream.toml"
    definition.write_text(as_toml(stream().to_tables()), "utf-8")
    for text in HOSTILE[::3]:
        for arguments in (
            ("replay", rows, "--label", text),
            ("replay", f"{tmp_path}/{text.replace('/', '')}", "--label", "x"),
            ("topics", "acls", "--definition", definition, "--principal", text),
            ("top", "--once", "--at", f"{text} "),
        ):
            assert run_main(arguments, monkeypatch) != 0
            shown = capsys.readouterr()
            require_harmless(shown.out + shown.err)
            assert "Traceback" not in shown.err


def test_no_secret_of_a_definition_file_comes_out_of_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = secrets.token_hex(16)
    rows = [[str(row % 7), str(row * row % 11), "ab"[row % 2]] for row in range(200)]
    file = write_csv(tmp_path / "rows.csv", ["x", "y", "label"], rows)
    definition = tmp_path / "stream.toml"
    definition.write_text(
        f'name = "s"\n[input]\nlabel = "label"\n[window]\nlength = 100\n[service]\nsite = "here"\n'
        f'[kafka]\n"sasl.password" = "{secret}"\n[kafka.central]\n"ssl.key.password" = "{secret}"\n',
        "utf-8",
    )
    out = {name: tmp_path / f"out.{name}" for name in ("json", "html", "toml")}
    options = ("--json", out["json"], "--report", out["html"], "--write-definition", out["toml"])
    assert run_main(("replay", file, "--definition", definition, *options), monkeypatch) == 0
    shown = capsys.readouterr()
    everything = shown.out + shown.err + "".join(path.read_text("utf-8") for path in out.values())
    assert secret not in everything
    assert run_main(("topics", "acls", "--definition", out["toml"], "--principal", "worker=User:w"), monkeypatch) == 0
    monkeypatch.setenv("DELTAPLANE_KAFKA_SECURITY_PROTOCOL", "NONSENSE")
    for command in (("worker",), ("topics", "create"), ("model", "show"), ("source", "list"), ("audit",)):
        written = out["toml"].read_text("utf-8")
        whole = tmp_path / "whole.toml"
        whole.write_text(written + f'\n[kafka]\n"sasl.password" = "{secret}"\n', "utf-8")
        assert run_main((*command, "--definition", whole), monkeypatch) == 2
        shown = capsys.readouterr()
        assert "librdkafka refuses the properties" in shown.err
        assert secret not in shown.out + shown.err


def test_what_is_strange_is_shown_as_such() -> None:
    assert plain("a\x1b[0m\nb") == f"a{STRANGE}[0m{STRANGE}b"
    assert plain("a\nb", keep="\n") == "a\nb"
