"""``deltaplane bootstrap follow``: a history goes on with its Delta table, version by version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.bootstrap_commands import (
    HistoryFile,
    MovedTable,
    SourceName,
    Wait,
    history_source,
    wait_for_model,
)
from deltaplane_services.cli.shared_options import Flags, SiteOptions, check, log_at, with_settings, within
from deltaplane_services.system.printable import echo

if TYPE_CHECKING:
    from deltaplane_services.lake.following import TableFollower

__all__ = ["bootstrap_follow"]

_LONGEST_SECONDS = 86_400.0


@with_settings("bootstrap follow")
def bootstrap_follow(
    file: HistoryFile,
    stream: SiteOptions,
    source: SourceName = "history",
    table: MovedTable = None,
    once: Annotated[
        bool, typer.Option("--once", help="End at the newest version instead of waiting for the next one.")
    ] = False,
    version: Annotated[int | None, typer.Option("--version", help="End at this version.")] = None,
    interval_seconds: Annotated[
        float,
        typer.Option(
            "--interval-seconds",
            callback=within(0.01, _LONGEST_SECONDS),
            help="How often to look for a version if there was none.",
        ),
    ] = 10.0,
    wait: Wait = 120.0,
    *,
    flags: Flags,
) -> None:
    """Follow the Delta table of a published history: each later version becomes a tile, from its change data feed.

    It may be killed and run again at any time, twice at once, and beside bootstrap retire. The table needs the property
    delta.enableChangeDataFeed, and at most one row of each id. With --once and --version, --wait is for the end.
    """
    from deltaplane_services.kafka.history_log import KafkaHistoryLog
    from deltaplane_services.kafka.membership import Principal
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.lake.change_feed import ChangeFeed
    from deltaplane_services.lake.following import TableFollower
    from deltaplane_services.lake.recomputing import TableOfHistory
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import FollowerMetrics
    from deltaplane_services.operations.follow_table import FollowService

    settings = stream.settings(flags)
    check(settings, "historian")
    published = history_source(settings, file, source)
    place = TableOfHistory(published.history, table)
    with KafkaHistoryLog(settings) as log:
        follower = TableFollower(published, ChangeFeed(place.name, place.columns), log, version)
        echo(f"{published.source}: version {follower.version:,} of {place.name} is in")
        if not once and version is None:
            log_at(settings.knobs.log_level)
            watch = FollowerMetrics(settings.definition, str(published.source))
            service = FollowService(
                follower, interval_seconds, watch, Principal.of(settings.admin_properties("central"))
            )
            with serving(settings.knobs, watch.answers()):
                run(service, settings.knobs)
            return
        _catch_up(follower, version)
    wait_for_model(settings, follower.standing.state, wait)


def _catch_up(follower: TableFollower, version: int | None) -> None:
    """Follow to a version, or to the newest, and say what came of each."""
    from deltaplane_services.operations.follow_table import in_words

    while (followed := follower.step()) is not None:
        echo(in_words(followed), None if followed.accepted else typer.colors.YELLOW)
    if version is not None and follower.version < version:
        raise DefinitionError(f"version: the table has none after {follower.version:,} yet, expected {version:,}")
    echo(f"version {follower.version:,} is in, digest {follower.digest}")
