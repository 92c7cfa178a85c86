"""The options that the commands on Kafka share, and what all of them do with these before they begin."""

from __future__ import annotations

import logging
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaplane_services.plain import PlainFormatter

if TYPE_CHECKING:
    from deltaplane_services.settings import ServiceSettings

DefinitionFile = Annotated[
    Path, typer.Option("--definition", envvar="DELTAPLANE_DEFINITION", help="The stream definition (deltaplane.toml).")
]
Broker = Annotated[str | None, typer.Option(help="HOST:PORT of the cluster with this site's samples.")]
CentralBroker = Annotated[str | None, typer.Option(help="HOST:PORT of the cluster with deltas and models, if another.")]
Site = Annotated[str | None, typer.Option(help="Name of this site.")]
KafkaProperty = Annotated[
    list[str] | None, typer.Option("--kafka", help="Any librdkafka property as KEY=VALUE; may be repeated.")
]


def resolve(definition: Path, **flags: Any) -> ServiceSettings:
    """Flags over environment over definition file; the one place where the environment is read."""
    from deltaplane_services.replay.options import load_tables
    from deltaplane_services.settings import resolve_settings

    # A command that is no service says what is wrong in one message of its own.
    log_at("error")
    return resolve_settings(flags, os.environ, load_tables(definition), socket.gethostname())


def check(settings: ServiceSettings, role: str) -> None:
    """Raise what keeps a command of a role from beginning: no broker, no topics, no rights, another definition."""
    from deltaplane_services.kafka.start import check_stream

    check_stream(settings, role)


def log_at(level: str) -> None:
    """Log on standard error from this level on, one line a message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
