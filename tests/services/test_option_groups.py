"""Options that several commands have are declared once, and each command has them as if it had declared them itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from deltaplane.maps import feature_maps
from deltaplane.solve import solver_options
from deltaplane_services.cli.application import app
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.replay_command import PlaneOptions
from services_commands import commands_below


@dataclass(frozen=True)
class Place:
    """A group under a heading of its own."""

    panel: ClassVar[str] = "The place"

    where: Annotated[Path, typer.Option(help="Where it is.")]
    depth: Annotated[int, typer.Option("--deep", help="How deep.")] = 3


def test_a_command_has_the_options_of_its_groups_in_their_place_and_is_given_them_as_one() -> None:
    given: list[object] = []
    own = typer.Typer(add_completion=False)

    @own.command()
    @with_groups
    def dig(what: str, place: Place, often: int = 1) -> None:
        """Dig for something."""
        given.append((what, place, often))

    result = CliRunner().invoke(own, ["gold", "--where", "garden", "--deep", "5", "--often", "2"])
    assert result.exit_code == 0, result.output
    assert given == [("gold", Place(Path("garden"), 5), 2)]
    command: Any = typer.main.get_command(own)
    assert [one.name for one in command.params] == ["what", "where", "depth", "often"]
    assert [getattr(one, "rich_help_panel", None) for one in command.params] == [None, "The place", "The place", None]
    assert command.help == "Dig for something."


def test_an_option_of_a_group_that_must_be_given_is_asked_for() -> None:
    own = typer.Typer(add_completion=False)

    @own.command()
    @with_groups
    def dig(place: Place) -> None:
        raise AssertionError(place)

    result = CliRunner().invoke(own, [])
    assert result.exit_code == 2
    assert "--where" in result.output


def test_the_panel_of_one_group_does_not_move_the_option_in_another() -> None:
    produce, replay = (commands_below(typer.main.get_command(app))[name] for name in ("produce", "replay"))
    (seed_of_produce,) = (one for one in produce.params if one.name == "seed")
    (seed_of_replay,) = (one for one in replay.params if one.name == "seed")
    assert seed_of_produce.help == seed_of_replay.help
    assert (seed_of_produce.rich_help_panel, seed_of_replay.rich_help_panel) == (None, "The run")


@pytest.mark.parametrize("option", ["--definition", "--broker", "--central-broker", "--site", "--kafka", "--seed"])
def test_an_option_says_the_same_wherever_it_is(option: str) -> None:
    words = Counter(
        one.help
        for name, command in commands_below(typer.main.get_command(app)).items()
        for one in command.params
        if option in one.opts and name != "replay" and not name.startswith("bench")
    )
    assert len(words) == 1
    assert sum(words.values()) > (0 if option == "--seed" else 5)


def test_help_names_every_kind_of_map_and_of_solver() -> None:
    hints = get_type_hints(PlaneOptions, include_extras=True)
    for option, kinds in (("feature_map", feature_maps.KINDS), ("kind", solver_options.KINDS)):
        (declared,) = hints[option].__metadata__
        assert all(kind in declared.help for kind in kinds)


def test_the_types_of_kinds_name_those_that_are_declared() -> None:
    assert get_args(solver_options.Kind) == tuple(solver_options.KINDS)
    assert get_args(feature_maps.Kind) == ("none", *feature_maps.KINDS)
    assert get_args(solver_options.Bias) == ("default", *solver_options.BIASES)
    assert get_args(get_args(solver_options.Weighting)[0]) == ("default", *solver_options.WEIGHTINGS)
