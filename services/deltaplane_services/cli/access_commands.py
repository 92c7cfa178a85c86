"""The command ``topics acls``: the rights that each principal needs, and no more."""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import SiteOptions

__all__ = ["Principals", "topics_acls"]

Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="ROLE=User:NAME", help="Who has which role; may be repeated."),
]


@with_groups
def topics_acls(
    stream: SiteOptions,
    principal: Principals = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON instead of commands.")] = False,
) -> None:
    """Print what to allow to whom, as commands of Kafka's own tool; no broker is asked. Without a principal: the table.

    deltaplane topics acls --definition stream.toml --principal worker=User:w --principal merger=User:m | sh
    """
    from deltaplane_services.kafka.access import acls, principals_named, rights_table
    from deltaplane_services.system.printable import echo, json_text

    settings = stream.settings()
    found = acls(settings, principals_named(principal or []))
    if as_json:
        typer.echo(json_text([acl.as_json() for acl in found]))
    elif not principal:
        typer.echo(rights_table(settings.definition), nl=False)
    for acl in () if as_json else found:
        echo(acl.command(secured="security.protocol" in settings.cluster(acl.cluster).properties))
