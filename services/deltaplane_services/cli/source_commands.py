"""``deltaplane source``: list the sources of a stream, remove one exactly, admit one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import SECONDS, Reason, StreamOptions, check
from deltaplane_services.system.printable import echo

if TYPE_CHECKING:
    from deltaplane.log.model import Model

__all__ = ["Force", "Target", "Wait", "source_admit", "source_app", "source_list", "source_remove"]

source_app = typer.Typer(help="List a stream's sources, remove one exactly, let one in again.", no_args_is_help=True)

Target = Annotated[str, typer.Argument(help="SITE/PARTITION, or SITE for all of a site.", metavar="SOURCE")]
Wait = Annotated[float, typer.Option(callback=SECONDS, help="Seconds to wait for a model that shows it.")]
Force = Annotated[bool, typer.Option("--force", help="Also for a source of which nothing was ever heard.")]


@source_app.command("list")
@with_groups
def source_list(
    stream: StreamOptions,
) -> None:
    """Every source, how far the live model contains it, and whether it was removed."""
    from deltaplane_services.operations.model_listing import newest_model

    settings = stream.settings()
    check(settings, "viewer")
    _show(newest_model(settings))


@source_app.command("remove")
@with_groups
def source_remove(
    source: Target,
    stream: StreamOptions,
    reason: Reason = "asked for",
    wait: Wait = 30.0,
    force: Force = False,
) -> None:
    """Take out exactly what a source has put in, and accept nothing of it any more."""
    _order(source, stream, reason, wait, force=force, removed=True)


@source_app.command("admit")
@with_groups
def source_admit(
    source: Target,
    stream: StreamOptions,
    reason: Reason = "asked for",
    wait: Wait = 30.0,
    force: Force = False,
) -> None:
    """Accept a removed source again, from the beginning of what its log still holds."""
    _order(source, stream, reason, wait, force=force, removed=False)


def _order(source: str, stream: StreamOptions, reason: str, wait_seconds: float, *, force: bool, removed: bool) -> None:
    """Order sources removed or admitted, and print the model that shows it; ``force`` allows unknown sources."""
    from deltaplane_services.operations.model_listing import model_if_any
    from deltaplane_services.operations.source_orders import order_sources, refuse_unheard_of, sources_named

    settings = stream.settings()
    sources = sources_named(source, settings.definition.partitions)
    check(settings, "operator")
    if not force:
        refuse_unheard_of(sources, model_if_any(settings), source)
    _show(order_sources(settings, sources, removed=removed, reason=reason, wait_seconds=wait_seconds))


def _show(model: Model) -> None:
    for position in model.positions:
        state = "removed" if position.removed else f"owner {position.owner or '–'}"
        echo(
            f"{position.source}: {state}, tile {position.sequence:,}, samples to {position.samples:,},"
            f" retirements to {position.retirements:,}"
        )
    echo(f"model {model.version:,}, {sum(model.counts.values()):,} rows, digest {model.digest}")
