"""The options that the commands of ``deltaplane bench`` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["KAFKA", "Check", "Experimenting", "LabelDelay", "Moa", "Outputs", "Seed"]

Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
LabelDelay = Annotated[
    int,
    typer.Option(
        min=0, max=10**9, help="Rows by which labels come late: a row is predicted, and learned so much later."
    ),
]
Moa = Annotated[Path | None, typer.Option(help="A directory with MOA's jars, to run it too; it needs a JDK.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is not met or data is missing.")]
KAFKA = "HOST:PORT of Kafka; the stream's topics are made and deleted."


@dataclass(frozen=True)
class Outputs:
    """Where a report goes besides the terminal."""

    json_to: Annotated[
        str | None, typer.Option("--json", help="Write all figures as JSON to a file, or - for standard output.")
    ] = None
    markdown: Annotated[Path | None, typer.Option(help="Write all tables as Markdown to a file.")] = None
    plots: Annotated[Path | None, typer.Option(help="Draw all curves into a directory, as PNG and SVG.")] = None


@dataclass(frozen=True)
class Experimenting:
    """How experiments are run."""

    seed: Seed = 0
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and fewer rows: a look, not a result.")] = False
    cache: Annotated[Path | None, typer.Option("--cache", help="Where the data lies, or is put once fetched.")] = None
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing; do what the cache allows.")] = False
    check: Check = False
