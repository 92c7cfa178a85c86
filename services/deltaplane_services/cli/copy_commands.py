"""``deltaplane copy``, ``repartition``, ``backup`` and ``restore``: move a stream elsewhere, with the same digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import SECONDS, IdleSeconds, SiteOptions, check, tell_secrets
from deltaplane_services.system.printable import echo

if TYPE_CHECKING:
    from deltaplane.stream.definition import StreamDefinition
    from deltaplane_services.definition_file.settings import ServiceSettings
    from deltaplane_services.operations.copying import Copied

__all__ = ["Copying", "Target", "Wait", "backup", "copy", "register", "repartition", "restore"]

Wait = Annotated[
    float, typer.Option(callback=SECONDS, help="Seconds to wait for the new stream's model to have the same digest.")
]
Target = Annotated[Path, typer.Option("--to", help="Definition of the new stream; its topics are made.")]


@with_groups
def copy(
    stream: SiteOptions,
    to: Target,
    idle_seconds: IdleSeconds = 5.0,
    wait: Wait = 0.0,
    regrid: Annotated[
        bool,
        typer.Option(
            "--regrid",
            help="Onto another grid, of deltaplane grid refit, or some of the features; what that admits is copied.",
        ),
    ] = False,
    whole_log: Annotated[
        bool,
        typer.Option(
            "--whole-log", help="From where the log begins, and not the oldest live row: for a longer window."
        ),
    ] = False,
) -> None:
    """Copy the live rows of a stream, and what still comes, onto a new stream of the same features and grid.

    For another name, another cluster, other windows or classes. Stop the producers, let it run until nothing comes any
    more, and point them at the new stream only then: an old version of a row must not come after a new one.
    """
    old = stream.settings()
    new = stream.settings_of(to)
    check(old, "auditor")
    digest = _copied(old, new, Copying(idle_seconds, wait, regrid=regrid, whole_log=whole_log))
    _compare(old.definition, new, digest, wait)


@with_groups
def repartition(
    stream: SiteOptions,
    partitions: Annotated[int, typer.Option(help="Partitions of the new stream.")],
    out: Annotated[Path, typer.Option(help="Where its definition is written.")],
    name: Annotated[str | None, typer.Option(help="Its name; the old one and the partitions by default.")] = None,
    idle_seconds: IdleSeconds = 5.0,
    wait: Wait = 0.0,
) -> None:
    """Copy a stream onto one with more partitions, or fewer, and write its definition.

    With windows of time, or over everything, the digest is the same after. A window of a count of rows shares them by
    partition, so with others it holds other rows.
    """
    from deltaplane_services.definition_file.definition_tables import load_tables
    from deltaplane_services.definition_file.settings import without_secrets_of
    from deltaplane_services.definition_file.toml_writer import as_toml
    from deltaplane_services.system.output_files import check_output, mode_of, write_text

    old = stream.settings()
    if out.exists():
        raise DefinitionError(f"repartition: {str(out)!r} is there already; name a file that is not")
    tables = load_tables(stream.definition)
    tables |= {"name": name or f"{old.definition.name}-{partitions}", "partitions": partitions}
    new = stream.settings_of(out, tables)
    public, secrets = without_secrets_of(tables)
    check_output(out, "repartition")
    check(old, "auditor")
    # The definition is written first, so that the services of the new stream can be started meanwhile.
    write_text(out, as_toml(public), "repartition", mode_of(stream.definition))
    try:
        digest = _copied(old, new, Copying(idle_seconds, wait))
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    typer.echo(f"definition of the new stream: {out}")
    tell_secrets(secrets, out)
    _compare(old.definition, new, digest, wait)


@with_groups
def backup(
    stream: SiteOptions,
    file: Annotated[Path, typer.Argument(help="The file to write (Avro).")],
    idle_seconds: IdleSeconds = 1.0,
) -> None:
    """Write the live rows of a stream at this site, and the retirements that matter, to a file."""
    from deltaplane_services.operations.backup import BackupWriter
    from deltaplane_services.operations.copying import pass_live_log

    settings = stream.settings()
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


@with_groups
def restore(
    stream: SiteOptions,
    file: Annotated[Path, typer.Argument(help="A file that backup has written.")],
    wait: Wait = 0.0,
) -> None:
    """Publish a backup on the empty topics of a stream, which are made; partitions and name may be others."""
    from deltaplane_services.operations.backup import Backup
    from deltaplane_services.operations.copying import publish_all
    from deltaplane_services.processors.regroup import Regroup

    settings = stream.settings()
    saved = Backup(file)
    regroup = Regroup(saved.definition, settings.definition)
    regroup.know(saved.labels)
    _make_topics(settings, wait)
    publish_all(settings, (outgoing for record in saved.records() for outgoing in regroup.record(record)))
    _tell(regroup.counts)
    _compare(saved.definition, settings, saved.digest, wait)


@dataclass(frozen=True)
class Copying:
    """How to copy a stream. ``idle_seconds`` and ``wait`` are in seconds; the others are the options of ``copy``."""

    idle_seconds: float
    wait: float
    regrid: bool = False
    whole_log: bool = False


def _copied(old: ServiceSettings, new: ServiceSettings, how: Copying) -> str | None:
    """The digest that the new stream must have, after copying; None if no model contains exactly what was copied."""
    from deltaplane_services.operations.copying import copy_stream
    from deltaplane_services.processors.regroup import Regroup

    regroup = Regroup(old.definition, new.definition, regrid=how.regrid)
    _make_topics(new, how.wait)
    copied: Copied = copy_stream(old, new, regroup, how.idle_seconds, whole_log=how.whole_log)
    _tell(copied.counts)
    return None if copied.model is None else copied.model.digest


def _make_topics(settings: ServiceSettings, wait: float) -> None:
    """Make the topics of a new stream; raise at once if this command could not fill them."""
    from deltaplane_services.kafka.access import WRITE
    from deltaplane_services.kafka.start import check_topics
    from deltaplane_services.operations.topics import create_topics
    from deltaplane_services.processors.messages import RETIREMENTS

    for finding in create_topics(settings).findings:
        if finding.stops:
            raise DefinitionError(f"kafka: {finding}")
        echo(str(finding), typer.colors.YELLOW, err=True)
    check(settings, "producer")
    check_topics(settings, "site", {RETIREMENTS: WRITE}, "retirer")
    if wait > 0:
        check(settings, "viewer")


def _tell(counts: object) -> None:
    assert isinstance(counts, dict)
    typer.echo("copied: " + ", ".join(f"{count:,} {name}" for name, count in counts.items() if count))


def _compare(old: StreamDefinition, new: ServiceSettings, digest: str | None, wait: float) -> None:
    """Print the digest that the new stream must have, and wait for it if ``wait`` is positive.

    Raises typer.Exit with code 1 if no model has this digest in time.
    """
    from deltaplane_services.operations.model_listing import first_model, model_if_any, model_line

    why = _why_not_comparable(old, new.definition)
    if why is not None or digest is None:
        why = why or "rows came while it was copied"
        typer.echo(f"no digest to compare with: {why}; check the new stream with deltaplane audit")
        return
    typer.echo(f"digest of the old stream {digest}")
    if wait <= 0:
        typer.echo("start workers and a merger of the new stream; cut over when its model has this digest")
        return
    if first_model(new, lambda model: model.digest == digest, wait) is None:
        newest = model_if_any(new)
        there = (
            "it has no model yet, so its workers or its merger do not run, or only begin"
            if newest is None
            else f"its newest model is {model_line(newest, new.definition)}; it changes as long as rows are still read"
        )
        again = f"deltaplane model watch shows when digest {digest[:16]} comes"
        typer.secho(f"NOT EQUAL within {wait:g} s: {there}; {again}", fg=typer.colors.RED)
        raise typer.Exit(1)
    typer.secho(f"equal: the model of stream {new.definition.name} has the same digest", fg=typer.colors.GREEN)


def _why_not_comparable(old: StreamDefinition, new: StreamDefinition) -> str | None:
    """Why a copy holds other rows by its definition; None if it must have the same digest."""
    from deltaplane_services.processors.regroup import admission_rules

    if old.data_fingerprint != new.data_fingerprint:
        return "its features or grid are others"
    if old.classes != new.classes or admission_rules(old) != admission_rules(new):
        return "it admits other rows, or has other classes"
    moved = (old.partitions, old.partitions > 1 and old.partitioner) != (
        new.partitions,
        new.partitions > 1 and new.partitioner,
    )
    if old.nested_windows != new.nested_windows or (new.nested_windows.counted and moved):
        return "its windows hold other rows"
    return "its panes begin at other rows" if old.nested_windows.pane_rows > 1 else None


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (copy, repartition, backup, restore):
        app.command()(command)
