"""``deltaplane bench``: tables, JSON and pictures; what is missing is said, and nothing is made up."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_benchmarks import bench_cli, show
from deltaplane_benchmarks.exhibit import SCHEMA, Chart, Column, Exhibit, Report, Series, Target
from deltaplane_benchmarks.experiments.all import PAPERS, STREAMS
from deltaplane_services.cli import application as services_cli


def report_made() -> Report:
    exhibit = Exhibit(
        4,
        "Table 9.9",
        "Made for a test",
        (Column("name"), Column("ours", ".2f"), Column("paper", ".2f")),
        (("first", 1.234, 1.0), ("second [red]", math.nan, None)),
        (Chart("Figure 9", "x", "y", (Series("ours", (0.0, 1.0), (1.0, math.nan)),), ticks=("a", "b")),),
        (Target("is met", met=True, measured="1"), Target("is not met", met=False, measured="2")),
        ("rows: made",),
        ("a note",),
    )
    report = Report({"seed": 7}, [exhibit])
    report.missing["Banana"] = "Banana: not here"
    return report


def test_json_has_rows_by_name_and_null_for_what_is_undefined(tmp_path: Path) -> None:
    show.write_json(report_made(), str(tmp_path / "out.json"))
    document = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert document["schema"] == SCHEMA
    assert document["settings"] == {"seed": 7}
    assert document["missing"] == {"Banana": "Banana: not here"}
    (exhibit,) = document["exhibits"]
    assert exhibit["rows"] == [
        {"name": "first", "ours": 1.234, "paper": 1.0},
        {"name": "second [red]", "ours": None, "paper": None},
    ]
    assert [target["met"] for target in exhibit["targets"]] == [True, False]
    assert exhibit["charts"][0]["series"][0]["y"] == [1.0, None]


def test_tables_show_a_dash_for_what_is_undefined_and_every_target_and_every_missing_set() -> None:
    written = io.StringIO()
    show.show(report_made(), Console(file=written, width=100))
    text = written.getvalue()
    for words in ("Paper 4, Table 9.9", "1.23", "second [red]", "–", "NOT MET", "rows: made", "missing data Banana"):
        assert words in text
    assert "1 of 2 targets met" in text
    assert "not met: Paper 4, Table 9.9: is not met (2)" in text


def test_every_chart_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    written = show.draw(report_made(), tmp_path / "plots")
    assert [place.name for place in written] == ["paper-4-figure-9.png", "paper-4-figure-9.svg"]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in written[1].read_bytes()


def test_markdown_has_every_table_and_target_and_keeps_bars_out_of_the_cells(tmp_path: Path) -> None:
    report = report_made()
    exhibit = replace(report.exhibits[0], rows=(("a|b", 1.0, math.nan),))
    show.write_markdown(replace(report, exhibits=[exhibit]), tmp_path / "figures.md")
    text = (tmp_path / "figures.md").read_text("utf-8")
    assert "| name | ours | paper |\n| --- | --: | --: |\n| a\\|b | 1.00 | – |\n" in text
    assert "seed 7" in text
    assert "- met: is met: 1\n- **not met**: is not met: 2\n" in text
    assert "Missing data: Banana" in text


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeltaplaneError, match="--plots"):
        show.draw(report_made(), tmp_path / "file" / "plots")
    with pytest.raises(DeltaplaneError, match="--json"):
        show.write_json(report_made(), str(tmp_path / "none" / "out.json"))
    with pytest.raises(DeltaplaneError, match="--markdown"):
        show.write_markdown(report_made(), tmp_path / "none" / "out.md")


def test_offline_runs_what_it_can_and_names_every_set_it_has_not(tmp_path: Path) -> None:
    arguments = ["papers", "4", "--offline", "--cache", str(tmp_path), "--json", "-", "--seed", "3"]
    result = CliRunner().invoke(bench_cli.app, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [exhibit["name"] for exhibit in document["exhibits"]] == ["Table 5.1"]
    assert sorted(document["missing"]) == ["Abalone", "Breast Wisconsin", "Car", "ORL faces"]
    assert document["settings"]["seed"] == 3
    assert "seed 3" in result.stderr
    assert "--offline was given" in result.stderr


def test_check_turns_missing_data_into_exit_code_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        bench_cli.app, ["papers", "4", "--offline", "--cache", str(tmp_path), "--check", "--quick"]
    )
    assert result.exit_code == 1
    assert "quick: a fifth of the rounds" in result.output


@pytest.mark.parametrize("arguments", [["papers", "2"], ["papers", "5"], ["streams"], ["calibration"]])
def test_a_run_of_which_nothing_could_be_done_is_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(bench_cli.app, [*arguments, "--offline", "--cache", str(tmp_path)])
    assert isinstance(result.exception, DeltaplaneError)
    assert "all its data is missing" in str(result.exception)


def test_a_paper_that_is_not_there_is_refused_before_anything_runs() -> None:
    result = CliRunner().invoke(bench_cli.app, ["papers", "6", "--offline"])
    assert isinstance(result.exception, DefinitionError)
    assert "[1, 2, 3, 4, 5]" in str(result.exception)


def test_every_experiment_has_a_name_of_its_own_and_every_paper_has_one() -> None:
    assert sorted({experiment.paper for experiment in PAPERS}) == [1, 2, 3, 4, 5]
    names = [(experiment.paper, experiment.name) for experiment in (*PAPERS, *STREAMS)]
    assert len(set(names)) == len(names)


def test_the_command_line_takes_in_a_plugin_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    monkeypatch.setattr(services_cli, "app", app)
    services_cli._add_plugin(EntryPoint("bench", "deltaplane_benchmarks.bench_cli:app", "deltaplane.commands"))
    services_cli._add_plugin(EntryPoint("other", "deltaplane_no_such_package:app", "deltaplane.commands"))
    assert "papers" in CliRunner().invoke(app, ["bench", "--help"]).output
    result = CliRunner().invoke(app, ["other", "anything", "--at", "all"])
    assert isinstance(result.exception, DeltaplaneError)
    assert str(result.exception) == "other is not in the installed package: in a checkout, pip install -e '.[other]'"


def test_a_plugin_that_lacks_a_library_says_which_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    monkeypatch.setattr(services_cli, "app", app)
    for module in [name for name in sys.modules if name.startswith("deltaplane_benchmarks")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    services_cli._add_plugin(EntryPoint("bench", "deltaplane_benchmarks.bench_cli:app", "deltaplane.commands"))
    app.command()(lambda: None)
    result = CliRunner().invoke(app, ["bench", "papers"])
    assert str(result.exception) == "bench needs rich: in a checkout, pip install -e '.[bench]'"


def test_plugins_are_loaded_unless_a_command_of_our_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every service would wait for them at its start, and not use them."""
    added: list[str] = []
    own = [group for group in services_cli.app.registered_groups if group.name != "bench"]
    monkeypatch.setattr(services_cli.app, "registered_groups", own)
    monkeypatch.setattr(services_cli, "_add_plugin", lambda found: added.append(found.name))
    monkeypatch.setattr(metadata, "entry_points", lambda group: [EntryPoint("bench", "a:b", group)])
    for words in (["worker"], ["topics", "create"], ["--version", "verify-receipt", "bench"], ["top", "--help"]):
        services_cli._add_plugins(words)
    assert added == []
    for words in (["bench", "papers"], [], ["--help"], ["bnech"]):
        services_cli._add_plugins(words)
    assert added == 4 * ["bench"]


@pytest.mark.parametrize("heavy", ["scipy.special", "scipy.stats", "sklearn", "matplotlib", "plotly", "pyarrow"])
def test_services_start_without_the_libraries_that_only_some_commands_need(heavy: str) -> None:
    """Every command would wait for them: all of SciPy's statistics alone take longer than the rest together."""
    services = ", ".join(f"deltaplane_services.kafka.{role}_loop" for role in ("worker", "merger", "scorer"))
    asked = f"import sys, deltaplane_services.cli.application, {services}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


def test_no_help_text_has_brackets_that_the_terminal_would_take_for_markup() -> None:
    texts, commands = [], [typer.main.get_command(services_cli.app), typer.main.get_command(bench_cli.app)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        texts += [command.help, *(getattr(parameter, "help", None) for parameter in command.params)]
    assert len(texts) > 100
    assert [text for text in texts if text and re.search(r"(?<!\\)\[[a-z]+\]", text)] == []
