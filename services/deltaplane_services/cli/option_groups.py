"""Options that several commands share, declared once: a dataclass is a group of options, which a command takes whole.

    @dataclass(frozen=True)
    class Outputs:
        report: Annotated[Path | None, typer.Option(help="Write an HTML page that opens offline.")] = None

    @app.command()
    @with_groups
    def replay(outputs: Outputs) -> None: ...

gives ``replay`` the option ``--report``. A group may set the heading under which the help lists its options:
``panel: ClassVar[str] = "The run"``.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_type_hints

__all__ = ["Command", "declared", "parameters_of", "with_groups"]

Command = Callable[..., None]


def with_groups(command: Command) -> Command:
    """The command with the options of each group that it takes, in the place of the group.

    A group is a parameter that is annotated with a dataclass. The command is called with an instance made from the
    options.
    """
    taken = parameters_of(command)
    groups: dict[str, Any] = {one.name: one.annotation for one in taken if dataclasses.is_dataclass(one.annotation)}
    options = {name: _options_of(group) for name, group in groups.items()}

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in options[name]})
        command(**given)

    listed = (options.get(one.name, [one]) for one in taken)
    return declared(called, command, (option for several in listed for option in several))


def parameters_of(command: Command) -> list[inspect.Parameter]:
    """The parameters of a command, with their annotations resolved to types."""
    hints = get_type_hints(command, include_extras=True)
    return [one.replace(annotation=hints[name]) for name, one in inspect.signature(command).parameters.items()]


def declared(called: Command, command: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """``called`` with the name and docstring of a command, and with these parameters in its signature, for Typer."""
    by_name = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = inspect.Signature(by_name, return_annotation=None)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in by_name}
    return called


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default,
            annotation=_under(getattr(group, "panel", None), hints[one.name]),
        )
        for one in dataclasses.fields(group)
    ]


def _under(panel: str | None, annotation: Any) -> Any:
    """The annotation of an option with the heading under which the help lists it."""
    if panel is None:
        return annotation
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.rich_help_panel = panel
    return Annotated[kind, option]
