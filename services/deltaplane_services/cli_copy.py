"""``deltaplane copy``, ``repartition``, ``backup`` and ``restore``: a stream elsewhere, with the same digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli_kafka import Broker, CentralBroker, DefinitionFile, KafkaProperty, Site, check, resolve

if TYPE_CHECKING:
    from deltaplane.definition import StreamDefinition
    from deltaplane_services.kafka.copying import Copied
    from deltaplane_services.settings import ServiceSettings

Idle = Annotated[float, typer.Option(help="Seconds without a new record after which copying ends.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for the new stream's model to have the same digest.")]
Target = Annotated[Path, typer.Option("--to", help="Definition of the new stream; its topics are made.")]


def copy(
    definition: DefinitionFile,
    to: Target,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    idle_seconds: Idle = 5.0,
    wait: Wait = 0.0,
    regrid: Annotated[
        bool, typer.Option("--regrid", help="Onto another grid, of deltaplane grid refit; what it admits is copied.")
    ] = False,
) -> None:
    """Copy the live rows of a stream, and what still comes, onto a new stream of the same features and grid.

    For another name, another cluster, other windows or classes. Stop the producers, or point them at the new stream,
    and let it run until nothing comes any more.
    """
    old = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    new = resolve(to, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    _copy(old, new, idle_seconds, wait, regrid=regrid)


def repartition(
    definition: DefinitionFile,
    partitions: Annotated[int, typer.Option(help="Partitions of the new stream.")],
    out: Annotated[Path, typer.Option(help="Where its definition is written.")],
    name: Annotated[str | None, typer.Option(help="Its name; the old one and the partitions by default.")] = None,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    idle_seconds: Idle = 5.0,
    wait: Wait = 0.0,
) -> None:
    """Copy a stream onto one with more partitions, or fewer, and write its definition.

    With windows of time, or over everything, the digest is the same after. A window of a count of rows shares them by
    partition, so with others it holds other rows.
    """
    from deltaplane_services.replay.options import load_tables
    from deltaplane_services.replay.toml import as_toml

    old = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    if out.exists():
        raise DefinitionError(f"repartition: {str(out)!r} is there already; name a file that is not")
    tables = load_tables(definition)
    tables |= {"name": name or f"{old.definition.name}-{partitions}", "partitions": partitions}
    out.write_text(as_toml(tables), "utf-8")
    new = resolve(out, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    _copy(old, new, idle_seconds, wait)
    typer.echo(f"definition of the new stream: {out}")


def backup(
    definition: DefinitionFile,
    file: Annotated[Path, typer.Argument(help="The file to write (Avro).")],
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    idle_seconds: Idle = 1.0,
) -> None:
    """Write the live rows of a stream at this site, and the retirements that matter, to a file."""
    from deltaplane_services.backup import BackupWriter
    from deltaplane_services.kafka.copying import pass_live_log

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    check(settings, "auditor")
    with BackupWriter(file, settings.definition) as writer:
        model = pass_live_log(settings, writer.add, idle_seconds, writer.begin)
        writer.end(None if model is None else model.digest)
        typer.echo(f"{writer.records:,} records, {file.stat().st_size:,} bytes in {file}")
    typer.echo(
        "no digest: rows came while it was written; a restored stream is checked by its audit alone"
        if model is None
        else f"digest {model.digest} (model {model.version:,})"
    )


def restore(
    definition: DefinitionFile,
    file: Annotated[Path, typer.Argument(help="A file that backup has written.")],
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    wait: Wait = 0.0,
) -> None:
    """Publish a backup on the empty topics of a stream, which are made; partitions and name may be others."""
    from deltaplane_services.backup import Backup
    from deltaplane_services.kafka.copying import publish_all
    from deltaplane_services.processors.regroup import Regroup

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    saved = Backup(file)
    regroup = Regroup(saved.definition, settings.definition)
    regroup.know(saved.labels)
    _make_topics(settings)
    publish_all(settings, (outgoing for record in saved.records() for outgoing in regroup.record(record)))
    _tell(regroup.counts)
    _compare(saved.definition, settings, saved.digest, wait)


def _copy(
    old: ServiceSettings, new: ServiceSettings, idle_seconds: float, wait: float, *, regrid: bool = False
) -> None:
    from deltaplane_services.kafka.copying import copy_stream

    _make_topics(new)
    copied: Copied = copy_stream(old, new, idle_seconds, regrid=regrid)
    _tell(copied.counts)
    _compare(old.definition, new, None if copied.model is None else copied.model.digest, wait)


def _make_topics(settings: ServiceSettings) -> None:
    from deltaplane_services.topics import create_topics

    for finding in create_topics(settings).findings:
        raise DefinitionError(f"kafka: {finding}")


def _tell(counts: object) -> None:
    assert isinstance(counts, dict)
    typer.echo("copied: " + ", ".join(f"{count:,} {name}" for name, count in counts.items() if count))


def _compare(old: StreamDefinition, new: ServiceSettings, digest: str | None, wait: float) -> None:
    """Say which digest the new stream must have, and whether it has it."""
    from deltaplane_services.kafka.copying import wait_for_digest

    by_count = any(window.kind == "count" for window in new.definition.ladder.windows)
    if old.data_fingerprint != new.definition.data_fingerprint:
        typer.echo("no digest to compare with: its grid is another; check the new stream with deltaplane audit")
        return
    same_rows = old.ladder == new.definition.ladder and (not by_count or old.partitions == new.definition.partitions)
    if digest is None or not same_rows or old.ladder.pane_rows > 1:
        why = "rows came while it was copied" if digest is None else "its windows hold other rows"
        typer.echo(f"no digest to compare with: {why}; check the new stream with deltaplane audit")
        return
    typer.echo(f"digest of the old stream {digest}")
    if wait <= 0:
        typer.echo("start workers and a merger of the new stream; cut over when its model has this digest")
        return
    if not wait_for_digest(new, digest, wait):
        typer.secho(f"NOT EQUAL within {wait:g} s; do its worker and merger run?", fg=typer.colors.RED)
        raise typer.Exit(1)
    typer.secho(f"equal: the model of stream {new.definition.name} has the same digest", fg=typer.colors.GREEN)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (copy, repartition, backup, restore):
        app.command()(command)
