"""Options that the commands on Kafka share, and what all of these commands do before they begin."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import inspect
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaplane_services.cli.option_groups import Command, declared, parameters_of, with_groups
from deltaplane_services.definition_file.file_formats import TITLES
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.system.printable import PlainFormatter, echo

if TYPE_CHECKING:
    from deltaplane_services.definition_file.settings import ServiceSettings

__all__ = [
    "MOST_SECONDS",
    "SECONDS",
    "SPEED",
    "AsJson",
    "DataFile",
    "DefinitionFile",
    "Flags",
    "IdleSeconds",
    "KafkaProperty",
    "Reason",
    "RetireFraction",
    "RowsPerSecond",
    "Seed",
    "SiteOptions",
    "StreamOptions",
    "check",
    "log_at",
    "process",
    "resolve",
    "tell_secrets",
    "with_settings",
    "within",
]

Flags = Mapping[str, Any]
"""Settings given as flags: name to value. See :func:`with_settings`."""


def within(low: float, high: float) -> Callable[[float | None], float | None]:
    """A callback that checks a number on the command line: it must be from ``low`` to ``high``; NaN is refused."""

    def checked(value: float | None) -> float | None:
        # Written so that NaN, which compares as False, is refused too.
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"expected a number from {low:g} to {high:g}, got {value}")
        return value

    return checked


MOST_SECONDS = 31_536_000.0
"""The longest time that a command waits for anything: a year."""

SECONDS = within(0.0, MOST_SECONDS)
SPEED = within(1e-6, 1e9)
"""The check of a speed in rows a second; the lowest is a row in eleven days."""

DefinitionFile = Annotated[
    Path, typer.Option("--definition", envvar="DELTAPLANE_DEFINITION", help="The stream definition (deltaplane.toml).")
]
DataFile = Annotated[
    str,
    typer.Argument(help=f"{TITLES}, packed (.gz .bz2 .xz .zst .zip) or not; - is standard input."),
]
KafkaProperty = Annotated[
    list[str] | None, typer.Option("--kafka", help="Any librdkafka property as KEY=VALUE; may be repeated.")
]
RowsPerSecond = Annotated[
    float | None, typer.Option("--speed", callback=SPEED, help="Rows per second; as fast as it goes by default.")
]
RetireFraction = Annotated[
    float, typer.Option(callback=within(0, 1), help="Part of the samples to retire by id at random later moments.")
]
Seed = Annotated[int, typer.Option(callback=within(0, 2**64 - 1), help="Seed of everything random.")]
Reason = Annotated[str, typer.Option(help="Why, for the record.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON; what is not known is null.")]
IdleSeconds = Annotated[
    float,
    typer.Option(callback=SECONDS, help="Seconds without a new record after which the log is taken to have ended."),
]


@dataclass(frozen=True)
class StreamOptions:
    """The options of every command on Kafka: the stream and its clusters."""

    definition: DefinitionFile
    broker: Annotated[str | None, typer.Option(help="HOST:PORT of the cluster with this site's samples.")] = None
    central_broker: Annotated[
        str | None, typer.Option(help="HOST:PORT of the cluster with deltas and models, if another.")
    ] = None
    kafka: KafkaProperty = None

    def settings(self, flags: Flags | None = None) -> ServiceSettings:
        """The settings of the stream; ``flags`` are further settings given on the command line."""
        return self.settings_of(self.definition, flags=flags)

    def settings_of(
        self, definition: Path, tables: Mapping[str, Any] | None = None, flags: Flags | None = None
    ) -> ServiceSettings:
        """The settings of another stream on the same clusters; ``tables`` as in :func:`resolve`."""
        given = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "definition"}
        return resolve(definition, tables, **given, **(flags or {}))


@dataclass(frozen=True)
class SiteOptions(StreamOptions):
    """The options of a command that works at one site."""

    site: Annotated[str | None, typer.Option(help="Name of this site.")] = None


process = ExitStack()
"""Process-wide settings made by a command; ``application.main`` undoes them at the end."""

# A program that calls a command without main also undoes them, before Python tears its modules down.
atexit.register(process.close)


def resolve(definition: Path, tables: Mapping[str, Any] | None = None, **flags: Any) -> ServiceSettings:
    """The settings of a stream: flags override the environment, which overrides the definition file.

    Only this function reads the environment. ``tables`` replace the content of the file, if it is not written yet.
    """
    from deltaplane.blas_threads import blas_threads
    from deltaplane_services.definition_file.definition_tables import load_tables
    from deltaplane_services.definition_file.settings import resolve_settings

    # A command that is not a service reports an error in one message, so the log stays quiet.
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
    """Print a warning, each text only once in a process."""
    echo(f"deltaplane: {text}", typer.colors.YELLOW, err=True)


def check(settings: ServiceSettings, role: str) -> None:
    """Raise an error if a command of this role cannot begin: no broker, no topics, no rights, another definition."""
    from deltaplane_services.kafka.start import check_stream

    check_stream(settings, role)


def log_at(level: str) -> None:
    """Log messages of this level and above on standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def with_settings(name: str) -> Callable[[Command], Command]:
    """A decorator that gives a command a flag for each setting that :class:`Knobs` declares for it.

    The command takes these flags as one argument ``flags``: setting to value, None if it was not given. Groups of
    options are expanded too (:func:`with_groups`).
    """

    def decorated(command: Command) -> Command:
        grouped = with_groups(command)
        heeded = [knob for knob in dataclasses.fields(Knobs) if name in knob.metadata["heeded_by"]]

        def called(**given: Any) -> None:
            flags = {knob.name: given.pop(knob.name) for knob in heeded}
            grouped(**given, flags=flags)

        own = [one for one in parameters_of(grouped) if one.name != "flags"]
        return declared(called, command, [*own, *map(_flag_of, heeded)])

    return decorated


def _flag_of(knob: dataclasses.Field[Any]) -> inspect.Parameter:
    words = knob.metadata["bounds"].words
    text = f"{knob.metadata['help']} {', '.join(words)}." if words else knob.metadata["help"]
    kind: Any = type(knob.default)
    annotation = Annotated[kind | None, typer.Option(help=text)]
    return inspect.Parameter(knob.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def tell_secrets(names: Sequence[str], out: Path) -> None:
    """Print which settings were not written into a new definition, because they may be secrets."""
    if names:
        echo(f"not written to {out}, since they may be secrets: {', '.join(names)}; give them as you do, or add them")
