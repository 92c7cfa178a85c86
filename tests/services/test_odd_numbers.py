"""Odd numbers on the command line: a message and exit code 2, never a traceback or a run that means nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_services.cli.application import app
from deltaplane_services.produce.feed_options import ReplayOptions

ODD = ["nan", "inf", "-inf", "-1", "1e400", "99999999999999999999999999999999", "1e-320"]
ROWS = "a,b,label\n" + "".join(f"{n % 7},{n % 5},{n % 2}\n" for n in range(60))


def numbers() -> list[tuple[str, str]]:
    """Every option of every command that takes a number, with the words that call the command."""
    found: list[tuple[str, str]] = []

    def look(command: object, name: str) -> None:
        for word, inner in getattr(command, "commands", {}).items():
            look(inner, f"{name} {word}".strip())
        options = [one for one in getattr(command, "params", []) if hasattr(one, "type_descriptor")]
        found.extend((name, one.opts[0]) for one in options if one.type_descriptor.annotation in (int, float))

    look(typer.main.get_command(app), "")
    return found


@pytest.mark.parametrize(("command", "option"), numbers())
def test_an_odd_number_is_refused_or_means_something(command: str, option: str, tmp_path: Path) -> None:
    rows, definition = tmp_path / "rows.csv", tmp_path / "s.toml"
    rows.write_text(ROWS)
    # A broker that nobody has: what is not refused fails there, which takes no time where it is refused before.
    definition.write_text("")
    for value in ODD:
        if command == "replay":
            arguments = ["replay", str(rows), "--label", "label", "--window", "20", "--C", "1"]
            extra = ["--feature-map", "fourier"] if option in ("--units", "--sigma") else []
            result = CliRunner().invoke(app, [*arguments, *extra, option, value])
        else:
            words = {"produce": ["x"], "retire": ["x"], "backup": ["x"], "restore": ["x"], "copy": ["--to", "x"]}
            others = words.get(command, ["x"] if command.startswith(("source ", "verify")) else [])
            needed = ["--definition", str(definition)] if command != "top" else ["--once", "--at", "127.0.0.1:1"]
            needed += ["--out", "x"] if command in ("repartition", "grid refit") else []
            needed += ["--partitions", "2"] if command == "repartition" and option != "--partitions" else []
            result = CliRunner().invoke(app, [*command.split(), *others, *needed, option, value])
        assert isinstance(result.exception, SystemExit | DeltaplaneError | None), (value, result.exception)


def test_there_are_many_of_them() -> None:
    assert len(numbers()) > 30
    assert ("replay", "--speed") in numbers()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--speed", "1e-320"),
        ("--speed", "nan"),
        ("--speed", "inf"),
        ("--seed", "-1"),
        ("--chunk", "0"),
        ("--workers", "0"),
        ("--retire-fraction", "nan"),
    ],
)
def test_a_number_that_means_nothing_is_refused_with_what_was_expected(tmp_path: Path, option: str, value: str) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(ROWS)
    result = CliRunner().invoke(app, ["replay", str(rows), "--label", "label", "--window", "20", option, value])
    assert result.exit_code == 2
    assert "expected a number from" in result.stderr


@pytest.mark.parametrize("fields", [{"rows_per_second": 1e-320}, {"rows_per_second": float("nan")}, {"seed": -1}])
def test_callers_from_python_are_refused_alike(fields: dict[str, float]) -> None:
    with pytest.raises(DefinitionError, match="expected"):
        ReplayOptions("x", **fields)  # type: ignore[arg-type]
