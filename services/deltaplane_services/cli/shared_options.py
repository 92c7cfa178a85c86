"""The options that the commands on Kafka share, and what all of them do with these before they begin."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.system.printable import PlainFormatter, echo

if TYPE_CHECKING:
    from deltaplane_services.definition_file.settings import ServiceSettings

DefinitionFile = Annotated[
    Path, typer.Option("--definition", envvar="DELTAPLANE_DEFINITION", help="The stream definition (deltaplane.toml).")
]
Broker = Annotated[str | None, typer.Option(help="HOST:PORT of the cluster with this site's samples.")]
CentralBroker = Annotated[str | None, typer.Option(help="HOST:PORT of the cluster with deltas and models, if another.")]
Site = Annotated[str | None, typer.Option(help="Name of this site.")]
KafkaProperty = Annotated[
    list[str] | None, typer.Option("--kafka", help="Any librdkafka property as KEY=VALUE; may be repeated.")
]


def within(low: float, high: float) -> Callable[[float | None], float | None]:
    """A check of a number on the command line: finite, and from ``low`` to ``high``."""

    def checked(value: float | None) -> float | None:
        # What is not a number is not within anything.
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"expected a number from {low:g} to {high:g}, got {value}")
        return value

    return checked


process = ExitStack()
"""What a command has set for all of its process; ``application.main`` puts it back at the end."""

MOST_SECONDS = 31_536_000.0
"""A year: the longest that a command waits for anything."""

SECONDS = within(0.0, MOST_SECONDS)
SPEED = within(1e-6, 1e9)
"""Rows a second. Slower is a row in a fortnight, which no clock of this machine can wait for."""

SEED = within(0, 2**64 - 1)


def resolve(definition: Path, tables: Mapping[str, Any] | None = None, **flags: Any) -> ServiceSettings:
    """Flags over environment over definition file; the one place where the environment is read.

    ``tables``: what the file would hold, where it is not written yet.
    """
    from deltaplane.blas_threads import blas_threads
    from deltaplane_services.definition_file.definition_tables import load_tables
    from deltaplane_services.definition_file.settings import resolve_settings

    # A command that is no service says what is wrong in one message of its own.
    log_at("error")
    given = load_tables(definition) if tables is None else tables
    settings = resolve_settings(flags, os.environ, given, socket.gethostname())
    process.close()
    process.enter_context(blas_threads(settings.knobs.blas_threads))
    for warning in settings.warnings:
        _warn(warning)
    return settings


@functools.cache
def _warn(text: str) -> None:
    """Say it once in the life of a process."""
    echo(f"deltaplane: {text}", typer.colors.YELLOW, err=True)


def check(settings: ServiceSettings, role: str) -> None:
    """Raise what keeps a command of a role from beginning: no broker, no topics, no rights, another definition."""
    from deltaplane_services.kafka.start import check_stream

    check_stream(settings, role)


def log_at(level: str) -> None:
    """Log on standard error from this level on, one line a message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


Flags = Mapping[str, Any]
"""Settings given as flags, by name: see :func:`with_settings`."""


def with_settings(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each setting that it heeds by its declaration (:class:`Knobs`), and no others.

    The command takes them as one argument, ``flags``: setting to value, None where it was not given.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        heeded = [knob for knob in dataclasses.fields(Knobs) if name in knob.metadata["heeded_by"]]

        def called(**given: Any) -> None:
            flags = {knob.name: given.pop(knob.name) for knob in heeded}
            command(**given, flags=flags)

        called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
        signature = inspect.signature(command)
        hints = get_type_hints(command, include_extras=True)
        own = [one.replace(annotation=hints[name]) for name, one in signature.parameters.items() if name != "flags"]
        added = [_flag_of(knob) for knob in heeded]
        called.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
        return called

    return decorated


def _flag_of(knob: dataclasses.Field[Any]) -> inspect.Parameter:
    words = knob.metadata["bounds"].words
    text = f"{knob.metadata['help']} {', '.join(words)}." if words else knob.metadata["help"]
    kind: Any = type(knob.default)
    annotation = Annotated[kind | None, typer.Option(help=text)]
    return inspect.Parameter(knob.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def tell_secrets(names: Sequence[str], out: Path) -> None:
    """Say which settings of a definition were not written into a new one, since they may be secrets."""
    if names:
        echo(f"not written to {out}, since they may be secrets: {', '.join(names)}; give them as you do, or add them")
