"""The command ``serve``: answers over HTTP."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.public_names import extra_needed
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import MOST_SECONDS, StreamOptions, check, log_at, within

if TYPE_CHECKING:
    from deltaplane_services.definition_file.settings import ServiceSettings
    from deltaplane_services.serve.model_source import ModelSource

__all__ = ["serve"]

logger = logging.getLogger(__name__)


@with_groups
def serve(
    stream: StreamOptions,
    address: Annotated[
        str, typer.Option(help="HOST:PORT to listen on; this machine only by default. Nobody is asked who they are.")
    ] = "127.0.0.1:8080",
    model: Annotated[
        Path | None,
        typer.Option(help="A file of deltaplane model export: answer by it, and need no Kafka."),
    ] = None,
    most_rows: Annotated[int, typer.Option(callback=within(1, 1_000_000), help="Rows of one request.")] = 10_000,
    most_body_bytes: Annotated[
        int, typer.Option(callback=within(1, 2**30), help="Bytes of the body of one request.")
    ] = 8 * 2**20,
    most_requests: Annotated[
        int, typer.Option(callback=within(1, 100_000), help="Requests at once; one more has status 503.")
    ] = 256,
    wait_seconds: Annotated[
        float,
        typer.Option(
            callback=within(0.0, MOST_SECONDS), help="How long a request waits for the min_version that it asks for."
        ),
    ] = 1.0,
) -> None:
    """Answer rows over HTTP by the newest model: the Open Inference Protocol (KServe V2), and POST /predict by name.

    The models topic is followed while requests are answered, and every answer has the version and the digest of the
    model that gave it.
    """
    with extra_needed("deltaplane serve", "serve"):
        from deltaplane_services.serve.application import Bounds, application
        from deltaplane_services.serve.running import listening, run_server

    settings = stream.settings()
    log_at("info")
    host, port = _host_and_port(address)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening(host, port))
        source = _source(settings, model, stack)
        bounds = Bounds(body_bytes=most_body_bytes, rows=most_rows, requests=most_requests, wait_seconds=wait_seconds)
        where = listener.getsockname()
        logger.info("answers at http://%s:%d/predict and /v2, metrics at /metrics", *where[:2])
        run_server(application(source, bounds), listener)


def _source(settings: ServiceSettings, file: Path | None, stack: contextlib.ExitStack) -> ModelSource:
    """The source of the model: a file, or the live models, which are followed until ``stack`` closes."""
    from deltaplane_services.client import LiveModel
    from deltaplane_services.serve.model_file import read_model_file
    from deltaplane_services.serve.model_source import FileSource, FollowedSource

    definition = settings.definition
    if file is not None:
        return FileSource(definition, read_model_file(file, definition))
    check(settings, "viewer")
    return FollowedSource(definition, stack.enter_context(LiveModel(settings)))


def _host_and_port(address: str) -> tuple[str, int]:
    from deltaplane.errors import DefinitionError
    from deltaplane_services.definition_file.knobs import HOST_AND_PORT

    match = HOST_AND_PORT.fullmatch(address)
    if match is None or int(match[2]) > 65_535 or "://" in address:
        raise DefinitionError(f"--address: expected HOST:PORT, got {address[:100]!r}")
    return match[1].strip("[]"), int(match[2])
